/* Finds conflicts between variables that are each valid alone. There is one function per rule. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"
#include "doctor/table/clean.h"

__attribute__((format(printf, 2, 3))) static void add_finding(tess_env_report *report, const char *format, ...)
{
    if (report->n_conflicts == TESS_ENV_MOST_CONFLICTS)
        return;
    char raw[sizeof(report->conflicts[0])], *text = report->conflicts[report->n_conflicts++];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof(raw), format, args);
    va_end(args);
    tess_clean(raw, strlen(raw), text, sizeof(report->conflicts[0]));
}

/* Whether a variable is set to any value. */
static bool is_set(const tess_env_report *report, const char *name)
{
    const tess_env_setting *setting = tess_env_find(report, name);
    return setting != NULL && setting->value != NULL;
}

/* Returns the value of a variable, or NULL if it is not set or only a shell could compute it. */
static const char *value_of(const tess_env_report *report, const char *name)
{
    const tess_env_setting *setting = tess_env_find(report, name);
    return setting != NULL && !setting->computed ? setting->value : NULL;
}

/* Returns the value as an integer, or `fallback` if it is not set or not an integer. */
static long long number_of(const tess_env_report *report, const char *name, long long fallback)
{
    char *end;
    const char *value = value_of(report, name);
    long long number = value != NULL ? strtoll(value, &end, 0) : 0;
    return value != NULL && end != value && *end == '\0' ? number : fallback;
}

static bool is_on(const tess_env_report *report, const char *name)
{
    const char *value = value_of(report, name);
    return value != NULL && (atoi(value) != 0 || strcasecmp(value, "true") == 0 || strcasecmp(value, "yes") == 0 ||
                             strcasecmp(value, "on") == 0);
}

/* A feature that is switched off: the variables that configure it have no effect. */
static void find_switched_off(tess_env_report *report)
{
    static const struct {
        const char *name;
        bool when_on;        /* true: the switch acts when set to 1; false: when set to 0 */
        const char *prefix;  /* prefix of the variables that lose their effect */
        const char *because; /* effect of the switch */
    } switches[] = {{"NCCL_IB_DISABLE", true, "NCCL_IB_", "turns InfiniBand and RoCE off"},
                    {"NCCL_P2P_DISABLE", true, "NCCL_P2P_LEVEL", "turns direct copies between GPUs off"},
                    {"NCCL_RAS_ENABLE", false, "NCCL_RAS_", "turns the RAS threads off"},
                    {"NCCL_MNNVL_ENABLE", false, "NCCL_MNNVL_", "turns NVLink between hosts off"},
                    {"NCCL_OOB_NET_ENABLE", false, "NCCL_OOB_NET_", "keeps start-up off NCCL's network"},
                    {"NCCL_PXN_DISABLE", true, "NCCL_P2P_PXN_LEVEL", "turns PXN off"}};
    for (size_t s = 0; s < sizeof(switches) / sizeof(switches[0]); s++) {
        const char *value = value_of(report, switches[s].name);
        bool acts = value != NULL && is_on(report, switches[s].name) == switches[s].when_on;
        for (int i = 0; acts && i < report->n_settings; i++) {
            const char *name = report->settings[i].name;
            if (strncmp(name, switches[s].prefix, strlen(switches[s].prefix)) == 0 &&
                strcmp(name, switches[s].name) != 0)
                add_finding(report, "%s=%s %s: %s=%s does nothing beside it", switches[s].name, value,
                            switches[s].because, name, report->settings[i].value);
        }
    }
}

static void find_socket_threads(tess_env_report *report)
{
    long long threads = number_of(report, "NCCL_SOCKET_NTHREADS", 1);
    long long sockets = number_of(report, "NCCL_NSOCKS_PERTHREAD", 1);
    if (threads > 0 && sockets > 0 && (threads > 64 || sockets > 64 || threads * sockets > 64))
        add_finding(report,
                    "NCCL_SOCKET_NTHREADS=%lld x NCCL_NSOCKS_PERTHREAD=%lld is above the 64 sockets that NCCL allows",
                    threads, sockets);
}

static void find_debug_details(tess_env_report *report)
{
    static const char *const details[] = {"NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_DEBUG_TIMESTAMP_LEVELS"};
    const char *level = value_of(report, "NCCL_DEBUG");
    bool has_level = is_set(report, "NCCL_DEBUG");
    for (int i = 0; !has_level && i < 3; i++)
        if (is_set(report, details[i]))
            add_finding(report, "%s is set without NCCL_DEBUG: NCCL prints nothing that it could apply to", details[i]);
    if (level != NULL && is_set(report, "NCCL_DEBUG_SUBSYS") && strcasecmp(level, "INFO") != 0 &&
        strcasecmp(level, "TRACE") != 0)
        add_finding(report, "NCCL_DEBUG_SUBSYS filters NCCL_DEBUG=INFO and TRACE; with NCCL_DEBUG=%s it does nothing",
                    level);
}

/* PyTorch's monitor ends a process whose watchdog makes no progress. If its deadline is shorter than the collective's,
 * it does so before the watchdog can say which collective hangs. */
static void find_heartbeat_below_timeout(tess_env_report *report)
{
    enum { HEARTBEAT_S = 480, COLLECTIVE_S = 600 }; /* PyTorch's defaults */
    long long minutes = number_of(report, "DEEPSPEED_TIMEOUT", 0);
    long long timeout_s = minutes > 0 && minutes < 1 << 20 ? 60 * minutes : COLLECTIVE_S;
    long long heartbeat_s = number_of(report, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", HEARTBEAT_S);
    if (heartbeat_s < HEARTBEAT_S && heartbeat_s < timeout_s)
        add_finding(
            report,
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=%lld is below the collective timeout of %lld s and PyTorch's own %d s: a "
            "stalled file system or a long compilation ends the process before the watchdog can name the collective "
            "that hangs",
            heartbeat_s, timeout_s, HEARTBEAT_S);
}

/* Whether a variable is set to a value that a rule accepts (env_values.h). */
static bool is_set_to(const tess_env_report *report, const char *name, const char *rule)
{
    const char *value = value_of(report, name);
    return value != NULL && tess_env_accepts(rule, value);
}

/* Two values of which one cancels the effect of the other. */
static void find_pairs(tess_env_report *report)
{
    static const char no_events[] = "the flight recorder keeps no events: there is nothing to dump";
    static const char blocking[] = "blocking wait switches the handling of asynchronous errors off: choose one";
    static const char aborts[] = "1 aborts the communicator before the flight recorder is dumped: leave it at 3";
    static const struct {
        const char *a, *a_value, *b, *b_value; /* variables, and the rules of their values */
        const char *because;
    } pairs[] = {
        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "on", "TORCH_NCCL_TRACE_BUFFER_SIZE", "int 0..0", no_events},
        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "on", "TORCH_FR_BUFFER_SIZE", "int 0..0", no_events},
        {"TORCH_FR_DUMP_ON_TIMEOUT", "on", "TORCH_FR_BUFFER_SIZE", "int 0..0", no_events},
        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "on", "TORCH_NCCL_ENABLE_MONITORING", "off",
         "the monitor starts the dump of the flight recorder: without it nothing is dumped"},
        {"TORCH_NCCL_DESYNC_DEBUG", "on", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "int 0..0",
         "the report of ranks that are behind needs the handling of asynchronous errors"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "int 1..1", "TORCH_NCCL_TRACE_BUFFER_SIZE", "int 1..", aborts},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "int 1..1", "TORCH_FR_BUFFER_SIZE", "int 1..", aborts},
        {"TORCH_NCCL_BLOCKING_WAIT", "on", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "int 1..", blocking},
        {"TORCH_NCCL_BLOCKING_WAIT", "on", "NCCL_ASYNC_ERROR_HANDLING", "int 1..", blocking},
        {"NCCL_BLOCKING_WAIT", "on", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "int 1..", blocking},
        {"NCCL_BLOCKING_WAIT", "on", "NCCL_ASYNC_ERROR_HANDLING", "int 1..", blocking},
        {"CUDA_LAUNCH_BLOCKING", "on", "NCCL_LAUNCH_ORDER_IMPLICIT", "on",
         "NCCL cannot order launches that CUDA holds up"},
        {"NCCL_GRAPH_STREAM_ORDERING", "off", "NCCL_GRAPH_MIXING_SUPPORT", "on",
         "NCCL does not support the mixing of graphs without their order"},
        {"NCCL_P2P_DISABLE", "on", "NCCL_SHM_DISABLE", "on", "inside a host only the network is left"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (is_set_to(report, pairs[i].a, pairs[i].a_value) && is_set_to(report, pairs[i].b, pairs[i].b_value))
            add_finding(report, "%s=%s and %s=%s: %s", pairs[i].a, value_of(report, pairs[i].a), pairs[i].b,
                        value_of(report, pairs[i].b), pairs[i].because);
}

/* Finds addresses that reach only this host in a job of several hosts. */
static void find_loopback_between_hosts(tess_env_report *report)
{
    static const struct {
        const char *name, *loopback;
    } places[] = {{"MASTER_ADDR", "one localhost|127.0.0.1|::1"},
                  {"NCCL_SOCKET_IFNAME", "one lo|=lo"},
                  {"GLOO_SOCKET_IFNAME", "one lo"},
                  {"TP_SOCKET_IFNAME", "one lo"}};
    long long world = number_of(report, "WORLD_SIZE", 0), local = number_of(report, "LOCAL_WORLD_SIZE", 0);
    for (size_t i = 0; local > 0 && world > local && i < sizeof(places) / sizeof(places[0]); i++)
        if (is_set_to(report, places[i].name, places[i].loopback))
            add_finding(report, "%s=%s means this host, and %lld of the %lld ranks are on others: they never meet",
                        places[i].name, value_of(report, places[i].name), world - local, world);
}

static void find_renamed_twice(tess_env_report *report)
{
    static const char *const pairs[][2] = {
        {"NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
        {"NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"},
        {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"},
        {"NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"},
        {"NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS"},
        {"NCCL_CHECK_POINTERS", "NCCL_CHECK_MODE"},
        {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const char *old = value_of(report, pairs[i][0]), *new = value_of(report, pairs[i][1]);
        if (old != NULL && new != NULL && strcmp(old, new) != 0)
            add_finding(report, "%s=%s and %s=%s are the old and the new name of one setting: keep the new one",
                        pairs[i][0], old, pairs[i][1], new);
    }
}

static void find_min_above_max(tess_env_report *report)
{
    static const char *const pairs[][2] = {{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"},
                                           {"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}};
    for (int i = 0; i < 2; i++) {
        long long least = number_of(report, pairs[i][0], 0), most = number_of(report, pairs[i][1], 1 << 20);
        if (least > most)
            add_finding(report, "%s=%lld is above %s=%lld", pairs[i][0], least, pairs[i][1], most);
    }
}

/* NCCL_NET=Socket does not use InfiniBand, so NCCL_IB_* variables do nothing. */
static void find_socket_net_with_ib(tess_env_report *report)
{
    const char *net = value_of(report, "NCCL_NET");
    if (net == NULL || strcasecmp(net, "Socket") != 0)
        return;
    for (int i = 0; i < report->n_settings; i++)
        if (strncmp(report->settings[i].name, "NCCL_IB_", 8) == 0 &&
            strcmp(report->settings[i].name, "NCCL_IB_DISABLE") != 0)
            add_finding(report, "NCCL_NET=Socket leaves InfiniBand aside: %s does nothing beside it",
                        report->settings[i].name);
}

static void find_gid_filters(tess_env_report *report)
{
    static const char *const filters[] = {"NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM"};
    if (number_of(report, "NCCL_IB_GID_INDEX", -1) < 0)
        return;
    for (int i = 0; i < 3; i++)
        if (is_set(report, filters[i]))
            add_finding(report,
                        "NCCL_IB_GID_INDEX=%s fixes the GID: %s, which helps to choose one, does nothing beside it",
                        value_of(report, "NCCL_IB_GID_INDEX"), filters[i]);
}

/* Whether an interface is in a list of NCCL. The list holds prefixes, or exact names after "=". */
static bool names_interface(const char *list, const char *interface)
{
    bool exact = *list == '=';
    for (const char *at = list + exact; *at != '\0';) {
        size_t n = strcspn(at, ",");
        if (n > 0 && strncmp(at, interface, n) == 0 && (!exact || interface[n] == '\0'))
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static void find_interfaces_apart(tess_env_report *report)
{
    const char *nccl = value_of(report, "NCCL_SOCKET_IFNAME"), *gloo = value_of(report, "GLOO_SOCKET_IFNAME");
    if (nccl == NULL || gloo == NULL || *nccl == '^' || strcmp(nccl, gloo) == 0 || names_interface(nccl, gloo))
        return;
    add_finding(report,
                "NCCL_SOCKET_IFNAME=%s and GLOO_SOCKET_IFNAME=%s name different interfaces: of two networks one may "
                "not reach all hosts",
                nccl, gloo);
}

/* Returns the number of ranks on this host, according to the launcher. */
static long long local_ranks(const tess_env_report *report)
{
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                        "SLURM_NTASKS_PER_NODE", "TESSERA_WORLD"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        long long n = number_of(report, names[i], 0);
        if (n > 0)
            return n;
    }
    return 1;
}

static void find_too_many_threads(tess_env_report *report, int n_cores)
{
    long long threads = number_of(report, "OMP_NUM_THREADS", 0), ranks = local_ranks(report);
    if (n_cores > 0 && threads > 0 && threads < 1 << 20 && ranks < 1 << 20 && threads * ranks > n_cores)
        add_finding(report, "OMP_NUM_THREADS=%lld x %lld rank%s on this host is more than its %d cores: set it to %lld",
                    threads, ranks, ranks == 1 ? "" : "s", n_cores, n_cores / ranks > 0 ? n_cores / ranks : 1);
}

static void find_rank_outside_world(tess_env_report *report)
{
    static const char *const pairs[][2] = {{"RANK", "WORLD_SIZE"},
                                           {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                                           {"TESSERA_RANK", "TESSERA_WORLD"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        long long rank = number_of(report, pairs[i][0], -1), world = number_of(report, pairs[i][1], -1);
        if (world >= 0 && rank >= world)
            add_finding(report, "%s=%lld is not below %s=%lld", pairs[i][0], rank, pairs[i][1], world);
        if (i == 0 && rank >= 0 && world > 1 && !is_set(report, "MASTER_ADDR"))
            add_finding(report, "RANK and WORLD_SIZE are set without MASTER_ADDR: ranks would not find each other");
    }
}

void env_find_conflicts(tess_env_report *report, int n_cores)
{
    find_switched_off(report);
    find_socket_net_with_ib(report);
    find_gid_filters(report);
    find_socket_threads(report);
    find_debug_details(report);
    find_heartbeat_below_timeout(report);
    find_pairs(report);
    find_loopback_between_hosts(report);
    find_renamed_twice(report);
    find_min_above_max(report);
    find_interfaces_apart(report);
    find_too_many_threads(report, n_cores);
    find_rank_outside_world(report);
}
