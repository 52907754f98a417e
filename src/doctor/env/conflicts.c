/* Finds conflicts between variables that are each valid alone. Most rules are rows of variables/conflicts.yaml; those
 * that compute something are functions. */
#include <limits.h>
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

static void find_socket_threads(tess_env_report *report)
{
    long long threads = number_of(report, "NCCL_SOCKET_NTHREADS", 1);
    long long sockets = number_of(report, "NCCL_NSOCKS_PERTHREAD", 1);
    if (threads > 0 && sockets > 0 && (threads > 64 || sockets > 64 || threads * sockets > 64))
        add_finding(report,
                    "NCCL_SOCKET_NTHREADS=%lld x NCCL_NSOCKS_PERTHREAD=%lld is above the 64 sockets that NCCL allows",
                    threads, sockets);
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

static void find_missing_address(tess_env_report *report)
{
    if (number_of(report, "RANK", -1) >= 0 && number_of(report, "WORLD_SIZE", -1) > 1 && !is_set(report, "MASTER_ADDR"))
        add_finding(report, "RANK and WORLD_SIZE are set without MASTER_ADDR: ranks would not find each other");
}

/* ---- Rules of variables/conflicts.yaml ---- */
/* Whether a list such as "NCCL_NET|NCCL_IB_* set", up to its blank, contains a name. */
static bool names(const char *list, const char *name)
{
    for (size_t n; *list != ' ' && *list != '\0'; list += n + (list[n] == '|')) {
        n = strcspn(list, "| ");
        bool is_prefix = list[n - 1] == '*';
        if (strncmp(list, name, n - is_prefix) == 0 && (is_prefix || name[n] == '\0'))
            return true;
    }
    return false;
}

/* Whether the value of `b` meets a condition. `a`: the rule's first variable. */
static bool meets(const tess_env_report *report, const char *condition, const char *a, const tess_env_setting *b)
{
    if (strcmp(condition, "set") == 0)
        return b->value != NULL;
    if (b->value == NULL || b->computed || strcmp(condition, "unset") == 0)
        return false;
    if (strcmp(condition, "differs") == 0)
        return value_of(report, a) != NULL && strcmp(value_of(report, a), b->value) != 0;
    if (strcmp(condition, "below") == 0)
        return number_of(report, b->name, LLONG_MAX) < number_of(report, a, LLONG_MIN);
    if (strcmp(condition, "at-most") == 0)
        return number_of(report, b->name, LLONG_MAX) <= number_of(report, a, LLONG_MIN);
    return tess_env_accepts(condition, b->value);
}

static tess_status say(tess_env_report *report, const char *says, const tess_env_setting *a, const tess_env_setting *b)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = report->mem};
    json_auto_t *members =
        json_pack("{s:{s:o, s:o}, s:{s:o, s:o}}", "a", "name", tess_clean_json(a->name), "value",
                  tess_clean_json(a->value), "b", "name", tess_clean_json(b->name), "value", tess_clean_json(b->value));
    TESS_TRY(tess_form_fill(&text, says, members));
    add_finding(report, "%s", text.data);
    return TESS_OK;
}

static tess_status apply(tess_env_report *report, const env_conflict *rule)
{
    const char *when = strchr(rule->when, ' ') + 1, *and = strchr(rule->and, ' ') + 1;
    static const tess_env_setting unset = {.name = "", .value = ""};
    for (int i = 0; i < report->n_settings; i++) {
        const tess_env_setting *a = &report->settings[i];
        if (!names(rule->when, a->name) || !meets(report, when, a->name, a))
            continue;
        bool any = false;
        for (int j = 0; j < report->n_settings; j++) {
            const tess_env_setting *b = &report->settings[j];
            if (j == i || !names(rule->and, b->name) || (rule->but != NULL && names(rule->but, b->name)))
                continue;
            any |= b->value != NULL;
            if (meets(report, and, a->name, b))
                TESS_TRY(say(report, rule->says, a, b));
        }
        if (!any && strcmp(and, "unset") == 0)
            TESS_TRY(say(report, rule->says, a, &unset));
    }
    return TESS_OK;
}

tess_status env_find_conflicts(const tess_env_registry *registry, tess_env_report *report, int n_cores)
{
    for (int i = 0; i < registry->conflicts.n; i++)
        TESS_TRY(apply(report, tess_table_at(&registry->conflicts, i)));
    find_socket_threads(report);
    find_heartbeat_below_timeout(report);
    find_loopback_between_hosts(report);
    find_interfaces_apart(report);
    find_too_many_threads(report, n_cores);
    find_missing_address(report);
    return TESS_OK;
}
