/* Checks the network of a host: buffers of sockets, InfiniBand, the interface to other hosts, and ports that must
 * answer. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "base/os/sockets.h"
#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"

enum { MOST_ADDRESSES = 8, NAME_BYTES = 64 };

#define BUFFER_LEAST 134217728.0 /* 128 MiB: 10 ms at 100 Gbit/s */
#define TCP_WAIT_S 3.0
#define SLOW_MBIT 1000.0

/* ---- Buffers ---- */
/* Two limits of the kernel for what sockets may hold. Each file has the number at its end: a lone number, or the third
 * of three, which is the most that the kernel gives a connection. */
typedef struct buffer_limits {
    const char *files[2], *names[2];
    double least; /* bytes that several hosts need */
    const char *absent, *one_host;
} buffer_limits;

static bool read_last(const char *root, const char *path, double *bytes)
{
    char text[128], *at = text, *end;
    if (probe_read(root, path, text, sizeof(text)) <= 0)
        return false;
    for (double number; number = strtod(at, &end), end != at; at = end)
        *bytes = number;
    return *bytes > 0;
}

static void judge_buffers(const buffer_limits *limits, const probe_host *host, tess_probe_finding *finding)
{
    double bytes[2] = {0, 0};
    char a[32], b[32];
    for (int i = 0; i < 2; i++)
        if (!read_last(host->root, limits->files[i], &bytes[i])) {
            probe_say(finding, TESS_PROBE_ABSENT, "%s", limits->absent);
            return;
        }
    const bool small = bytes[0] < limits->least || bytes[1]<limits->least, several = host->plan.n_hosts> 1;
    probe_say(finding, small && several ? TESS_PROBE_WARN : TESS_PROBE_OK, "%s %s, %s %s%s", limits->names[0],
              tess_format_bytes(bytes[0], a, sizeof(a)), limits->names[1], tess_format_bytes(bytes[1], b, sizeof(b)),
              small && !several ? limits->one_host : "");
}

void probe_socket_buffers(const probe_host *host, tess_probe_finding *finding)
{
    static const buffer_limits limits = {{"/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"},
                                         {"rmem_max", "wmem_max"},
                                         BUFFER_LEAST,
                                         "the kernel does not say (a container shows no net.core)",
                                         " (one host: no matter)"};
    judge_buffers(&limits, host, finding);
}

void probe_tcp_buffers(const probe_host *host, tess_probe_finding *finding)
{
    static const buffer_limits limits = {{"/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"},
                                         {"tcp_rmem up to", "tcp_wmem up to"},
                                         BUFFER_LEAST / 8, /* 16 MiB fill 10 Gbit/s for 13 ms */
                                         "the kernel does not say",
                                         ""};
    judge_buffers(&limits, host, finding);
}

/* ---- InfiniBand ---- */
/* The ports in /sys/class/infiniband. */
typedef struct ports {
    int n, n_active;
    char bad[160]; /* the first port that is not active; "": none */
    char rate[48]; /* rate of an active port */
} ports;

static void look_at_port(const char *root, const char *device, const char *port, ports *found)
{
    char path[PROBE_PATH_BYTES], state[64] = "", physical[64] = "";
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%.16s/state", device, port);
    if (probe_read(root, path, state, sizeof(state)) <= 0)
        return;
    state[strcspn(state, "\n")] = '\0';
    found->n++;
    if (strstr(state, "ACTIVE") != NULL) {
        found->n_active++;
        snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%.16s/rate", device, port);
        if (probe_read(root, path, found->rate, sizeof(found->rate)) > 0)
            found->rate[strcspn(found->rate, "\n")] = '\0';
        return;
    }
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%.16s/phys_state", device, port);
    if (probe_read(root, path, physical, sizeof(physical)) > 0)
        physical[strcspn(physical, "\n")] = '\0';
    if (found->bad[0] == '\0')
        snprintf(found->bad, sizeof(found->bad), "%.40s port %.8s is '%.30s', its link '%.30s'", device, port, state,
                 physical);
}

/* Calls look_at_port for every port of every device. */
static void look_at_ports(const char *root, ports *found)
{
    char path[PROBE_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
    DIR *devices = opendir(path);
    for (const struct dirent *device; devices != NULL && (device = readdir(devices)) != NULL;) {
        if (device->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/sys/class/infiniband/%.64s/ports", root, device->d_name);
        DIR *list = opendir(path);
        for (const struct dirent *port; list != NULL && (port = readdir(list)) != NULL;)
            if (port->d_name[0] != '.')
                look_at_port(root, device->d_name, port->d_name, found);
        if (list != NULL)
            closedir(list);
    }
    if (devices != NULL)
        closedir(devices);
}

void probe_infiniband(const probe_host *host, tess_probe_finding *finding)
{
    ports found = {0};
    look_at_ports(host->root, &found);
    if (found.n == 0)
        probe_say(finding, TESS_PROBE_ABSENT, "no InfiniBand or RoCE port here");
    else if (found.bad[0] != '\0')
        probe_say(finding, TESS_PROBE_WARN, "%d of %d ports active; %s", found.n_active, found.n, found.bad);
    else
        probe_say(finding, TESS_PROBE_OK, "%d port%s active, %s", found.n, found.n == 1 ? "" : "s", found.rate);
}

/* ---- The interface ---- */
/* Finds the interface of the default route. */
static bool find_default(const char *root, char name[NAME_BYTES])
{
    char text[8192];
    if (probe_read(root, "/proc/net/route", text, sizeof(text)) <= 0)
        return false;
    for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line, '\n')) {
        char destination[32];
        line++;
        if (sscanf(line, "%63s %31s", name, destination) == 2 && strcmp(destination, "00000000") == 0)
            return true;
    }
    return false;
}

/* Finds the first interface with one of the prefixes in `names` ("eth,ib"). */
static bool find_named(const char *root, const char *names, char name[NAME_BYTES])
{
    char path[PROBE_PATH_BYTES];
    bool found = false;
    snprintf(path, sizeof(path), "%s/sys/class/net", root);
    DIR *list = opendir(path);
    for (const struct dirent *entry; !found && list != NULL && (entry = readdir(list)) != NULL;)
        for (const char *at = names; !found && at != NULL; at = strchr(at, ',')) {
            at += *at == ',';
            size_t n = strcspn(at, ",");
            found = entry->d_name[0] != '.' && n > 0 && strncmp(entry->d_name, at, n) == 0;
            if (found)
                snprintf(name, NAME_BYTES, "%.63s", entry->d_name);
        }
    if (list != NULL)
        closedir(list);
    return found;
}

static void say_interface(const probe_host *host, const char *name, tess_probe_finding *finding)
{
    char path[PROBE_PATH_BYTES], state[32] = "";
    double mbit = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%.63s/operstate", name);
    probe_read(host->root, path, state, sizeof(state));
    state[strcspn(state, "\n")] = '\0';
    snprintf(path, sizeof(path), "/sys/class/net/%.63s/speed", name);
    char speed[32] = "";
    probe_read(host->root, path, speed, sizeof(speed));
    mbit = strtod(speed, NULL);
    bool down = strcmp(state, "down") == 0, several = host->plan.n_hosts > 1;
    if (down)
        probe_say(finding, several ? TESS_PROBE_FAIL : TESS_PROBE_WARN, "%s is down", name);
    else if (mbit > 0)
        probe_say(finding, several && mbit <= SLOW_MBIT ? TESS_PROBE_WARN : TESS_PROBE_OK, "%s, %.3g Gbit/s", name,
                  mbit / 1000);
    else
        probe_say(finding, TESS_PROBE_OK, "%s, its speed is not known", name);
}

/* Whether an interface with one of the prefixes has an address. In a network namespace /sys may show other interfaces.
 */
static bool has_address(const char *names)
{
    char addresses[MOST_ADDRESSES][OS_ADDRESS_BYTES];
    int n = 0;
    bool has = tess_os_addresses(names, addresses, MOST_ADDRESSES, &n) == TESS_OK && n > 0;
    tess_error_clear();
    return has;
}

void probe_interface(const probe_host *host, tess_probe_finding *finding)
{
    char name[NAME_BYTES] = "";
    const char *names = tess_variable_value(TESS_VAR_IFNAME);
    bool listed = names != NULL && find_named(host->root, names, name);
    if (names != NULL && !listed && host->root[0] == '\0' && has_address(names))
        probe_say(finding, TESS_PROBE_OK, "TESSERA_IFNAME=%.60s has an address", names);
    else if (names != NULL && !listed)
        probe_say(finding, TESS_PROBE_FAIL, "TESSERA_IFNAME=%.60s names no interface of this host", names);
    else if (names == NULL && !find_default(host->root, name))
        probe_say(finding, TESS_PROBE_ABSENT, "no default route");
    else
        say_interface(host, name, finding);
}

/* ---- Ports that must answer ---- */
/* Connects to a port of any of the addresses. Returns 0, or an errno. */
static int try_addresses(char (*addresses)[OS_ADDRESS_BYTES], int n, uint16_t port)
{
    int result = EHOSTUNREACH;
    for (int i = 0; i < n && result != 0; i++) {
        int fd = tess_os_connect(addresses[i], port);
        if (fd < 0) {
            result = errno;
            continue;
        }
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        result = poll(&wait, 1, (int)(TCP_WAIT_S * 1e3)) > 0 ? tess_os_connected(fd) : ETIMEDOUT;
        tess_os_close(&fd);
    }
    return result;
}

/* Tries "HOST:PORT". Writes what came of it to `text`. Returns whether it answered. */
static bool try_port(const char *target, char *text, size_t size)
{
    char host[256], addresses[MOST_ADDRESSES][OS_ADDRESS_BYTES], *end = NULL;
    int n = 0;
    snprintf(host, sizeof(host), "%s", target);
    char *colon = strrchr(host, ':');
    long port = colon != NULL ? strtol(colon + 1, &end, 10) : 0;
    if (colon == NULL || *end != '\0' || port < 1 || port > 65535) {
        snprintf(text, size, "'%.60s' is not HOST:PORT", target);
        return false;
    }
    *colon = '\0';
    if (tess_os_resolve(host, addresses, MOST_ADDRESSES, &n) != TESS_OK) {
        snprintf(text, size, "%.60s: the name is not known", target);
        tess_error_clear();
        return false;
    }
    double begin_s = tess_os_now_s();
    int problem = try_addresses(addresses, n, (uint16_t)port);
    if (problem == 0)
        snprintf(text, size, "%.60s answers in %.3g ms", target, (tess_os_now_s() - begin_s) * 1e3);
    else
        snprintf(text, size, "%.60s: %.40s", target, strerror(problem));
    return problem == 0;
}

void probe_tcp(const probe_host *host, tess_probe_finding *finding)
{
    char target[256], one[128], all[TESS_PROBE_TEXT_BYTES] = "";
    size_t at = 0;
    bool good = true;
    if (host->plan.tcp == NULL) {
        probe_say(finding, TESS_PROBE_ABSENT, "no port was named (--tcp HOST:PORT)");
        return;
    }
    for (const char *next = host->plan.tcp; *next != '\0';) {
        size_t n = strcspn(next, ",");
        snprintf(target, sizeof(target), "%.*s", (int)n, next);
        good = try_port(target, one, sizeof(one)) && good;
        at = tess_text_add(all, sizeof(all), at, "%s%s", at > 0 ? "; " : "", one);
        next += n + (next[n] == ',');
    }
    probe_say(finding, good ? TESS_PROBE_OK : TESS_PROBE_FAIL, "%s", all);
}
