/* Checks the kernel and what it permits, clocks, and leftovers of earlier jobs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"

#define KERNEL_LEAST 5.03 /* major + minor / 100. The watchdog needs pidfd_open and clone3. */
#define CLOCK_ERROR_WARN_S 1.0
#define TICKS_A_SECOND 100 /* ticks of /proc/PID/stat per second, on every Linux */
#define OLDER_S 5          /* processes of this job may be older than this process by up to this many seconds */

void probe_memfd(const probe_host *host, tess_probe_finding *finding)
{
    if (host->memfd_error[0] != '\0')
        probe_say(finding, TESS_PROBE_FAIL, "the ranks' shared memory cannot be made: %s", host->memfd_error);
    else
        probe_say(finding, TESS_PROBE_OK, "works");
}

void probe_futex(const probe_host *host, tess_probe_finding *finding)
{
    if (!host->futex_works)
        probe_say(finding, TESS_PROBE_FAIL,
                  "a wait on a futex returns at once: waiting ranks would spin on their cores");
    else
        probe_say(finding, TESS_PROBE_OK, "works");
}

static bool exists(const char *root, const char *path)
{
    char full[PROBE_PATH_BYTES];
    snprintf(full, sizeof(full), "%s%s", root, path);
    return access(full, F_OK) == 0;
}

static const char *container(const char *root)
{
    char text[1024];
    if (exists(root, "/.dockerenv"))
        return ", in a Docker container";
    if (exists(root, "/run/.containerenv"))
        return ", in a Podman container";
    if (exists(root, "/var/run/secrets/kubernetes.io"))
        return ", in a Kubernetes pod";
    probe_read(root, "/proc/1/cgroup", text, sizeof(text));
    return strstr(text, "docker") != NULL || strstr(text, "kubepods") != NULL || strstr(text, "lxc") != NULL
               ? ", in a container"
               : "";
}

void probe_kernel(const probe_host *host, tess_probe_finding *finding)
{
    char release[128], *end;
    if (probe_read(host->root, "/proc/sys/kernel/osrelease", release, sizeof(release)) <= 0) {
        probe_say(finding, TESS_PROBE_ABSENT, "no /proc/sys/kernel/osrelease");
        return;
    }
    double version = (double)strtol(release, &end, 10);
    version += *end == '.' ? (double)strtol(end + 1, NULL, 10) / 100 : 0;
    if (version < KERNEL_LEAST)
        probe_say(finding, TESS_PROBE_WARN,
                  "Linux %s: the watchdog needs 5.3 or later to notice at once that a rank ended", release);
    else
        probe_say(finding, TESS_PROBE_OK, "Linux %s%s", release, container(host->root));
}

void probe_ptrace(const probe_host *host, tess_probe_finding *finding)
{
    double scope = 0;
    bool there = probe_read_number(host->root, "/proc/sys/kernel/yama/ptrace_scope", &scope);
    if (scope >= 3 || (scope == 2 && !host->is_root))
        probe_say(finding, TESS_PROBE_WARN,
                  "kernel.yama.ptrace_scope=%.0f: no process may inspect another, so a stuck rank is named without its "
                  "stack, and ranks copy through shared memory",
                  scope);
    else
        probe_say(finding, TESS_PROBE_OK, there ? "Yama's scope %.0f" : "free", scope);
}

void probe_perf(const probe_host *host, tess_probe_finding *finding)
{
    double level = 0;
    if (!probe_read_number(host->root, "/proc/sys/kernel/perf_event_paranoid", &level))
        probe_say(finding, TESS_PROBE_ABSENT, "the kernel has no perf");
    else
        probe_say(finding, TESS_PROBE_OK,
                  level > 2 && !host->is_root ? "for root alone (perf_event_paranoid %.0f)"
                                              : "perf_event_paranoid %.0f",
                  level);
}

void probe_clocksource(const probe_host *host, tess_probe_finding *finding)
{
    char name[64];
    if (probe_read(host->root, "/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
                   sizeof(name)) <= 0) {
        probe_say(finding, TESS_PROBE_ABSENT, "the system does not say");
        return;
    }
    if (tess_text_has(name, strlen(name), TESS_WORD_IS, "hpet|acpi_pm|jiffies|pit|refined-jiffies"))
        probe_say(finding, TESS_PROBE_WARN, "%s: reading the time takes a microsecond instead of 20 ns", name);
    else
        probe_say(finding, TESS_PROBE_OK, "%s", name);
}

void probe_ntp(const probe_host *host, tess_probe_finding *finding)
{
    bool several = host->plan.n_hosts > 1;
    if (!host->clock_known)
        probe_say(finding, TESS_PROBE_ABSENT, "the kernel does not say");
    else if (host->clock_synced && host->clock_error_s <= CLOCK_ERROR_WARN_S)
        probe_say(finding, TESS_PROBE_OK, "synchronised, error below %.3g ms", host->clock_error_s * 1e3);
    else if (host->clock_synced)
        probe_say(finding, TESS_PROBE_WARN, "the clock is synchronised, but may be off by %.3g s", host->clock_error_s);
    else
        probe_say(finding, several ? TESS_PROBE_WARN : TESS_PROBE_OK,
                  several ? "the clock is not synchronised: times of several hosts cannot be compared"
                          : "not synchronised (one host: no matter)");
}

typedef struct leftovers {
    probe_process self;
    int n;
    char text[160];
} leftovers;

static void visit_leftover(void *context, const probe_process *process)
{
    leftovers *l = context;
    double age_s = (l->self.start - process->start) / TICKS_A_SECOND;
    if (process->pid == l->self.pid || strcmp(process->name, "tessera") != 0 || age_s < OLDER_S)
        return;
    size_t at = strlen(l->text);
    if (l->n++ < 5)
        tess_text_add(l->text, sizeof(l->text), at, "%s%d (%.0f s old%s)", at > 0 ? ", " : "", process->pid, age_s,
                      process->parent == 1 ? ", orphaned" : "");
}

void probe_stale(const probe_host *host, tess_probe_finding *finding)
{
    leftovers l = {0};
    if (!probe_read_self(host->root, &l.self)) {
        probe_say(finding, TESS_PROBE_ABSENT, "no /proc");
        return;
    }
    probe_each_process(host->root, visit_leftover, &l);
    if (l.n > 0)
        probe_say(finding, TESS_PROBE_WARN, "%d older tessera process%s here: %s", l.n, l.n == 1 ? " is" : "es are",
                  l.text);
    else
        probe_say(finding, TESS_PROBE_OK, "none");
}
