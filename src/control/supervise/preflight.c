#include "control/supervise/preflight.h"

#include <stdio.h>
#include <string.h>

#include "base/core/options.h"
#include "base/os/os.h"
#include "job/environment.h"
#include "job/place.h"
#include "control/supervise/exit.h"
#include "tessera/comm.h"

enum { MOST_NAMES = 96 };
/* time limit of the checks of ranks: they take about 3 s, but far longer on a loaded machine */
#define RANKS_MOST_S 300
#define MEET_MOST_S 60

/* ---- Names of checks ---- */

tess_status tess_preflight_check_names(const char *only)
{
    tess_probe_check checks[MOST_NAMES];
    const char *names[MOST_NAMES];
    int n_names = 0;
    for (int group = 0; group < TESS_PROBE_GROUPS; group++)
        for (int i = 0; n_names < MOST_NAMES && tess_probe_check_at((tess_probe_group)group, i, &checks[n_names]);
             i++) {
            names[n_names] = checks[n_names].name;
            n_names++;
        }
    for (const char *at = only; at != NULL; at = strchr(at, ',')) {
        char name[64], hint[TESS_HINT_BYTES];
        tess_probe_check check;
        at += *at == ',';
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
        TESS_CHECK(tess_probe_check_find(name, &check), TESS_E_INVALID, "--only: no check '%s'%s", name,
                   tess_options_hint("", name, names, n_names, "; --list names them", hint));
    }
    return TESS_OK;
}

/* Checks this host, its GPUs and the files of the configuration. */
static void check_here(const tess_preflight *p, int world, tess_probe_findings *findings)
{
    tess_preflight_look(&p->config, world, p->only, findings);
    tess_probe_host(&p->plan, "", findings);
}

/* ---- Checks outside a job: ranks are started as children ---- */

typedef struct child_job {
    const tess_preflight *preflight;
    tess_probe_findings *findings; /* findings in shared memory, written by rank 0 */
} child_job;

static int child_main(void *context)
{
    const child_job *job = context;
    tess_runtime *runtime;
    tess_runtime_options options = {.n_threads = 1, .comm_timeout_s = MEET_MOST_S};
    if (tess_runtime_create(&options, &runtime) != TESS_OK)
        return TESS_EXIT_FAILED; /* the launcher reports the failure */
    tess_status status = tess_probe_ranks(runtime, &job->preflight->plan, job->findings);
    if (status != TESS_OK)
        tess_runtime_report(runtime, tess_error_message());
    tess_runtime_destroy(&runtime);
    return status == TESS_OK ? TESS_EXIT_OK : TESS_EXIT_FAILED;
}

static void run_children(const tess_preflight *p, tess_probe_findings *findings)
{
    tess_launch_result result = {0};
    child_job job = {p, findings};
    tess_status status = tess_launch_function(p->plan.n_ranks, child_main, &job, 2, RANKS_MOST_S, &result);
    if (status == TESS_OK && result.exit_code == 0)
        return;
    tess_probe_add(findings, TESS_PROBE_RANKS, TESS_PROBE_START, TESS_PROBE_FAIL, "%s",
                   status != TESS_OK ? tess_error_message() : result.report);
    tess_error_clear();
}

static int run_alone(tess_preflight *p, int n_ranks)
{
    void *shared;
    tess_card card;
    tess_probe_findings here = {0}, private = {0};
    p->plan.n_ranks = n_ranks;
    p->plan.n_hosts = 1;
    tess_preflight_plan(&p->config, n_ranks, &p->plan);
    tess_card_fill(&card);
    p->doing(0);
    check_here(p, p->plan.n_ranks, &here);
    tess_status status = tess_os_share("preflight", sizeof(tess_probe_findings), &shared);
    tess_probe_findings *of_ranks = status == TESS_OK ? shared : &private;
    if (tess_probe_wants_group(p->only, TESS_PROBE_RANKS)) {
        p->doing(p->plan.n_ranks);
        run_children(p, of_ranks);
    }
    char name[1][64];
    snprintf(name[0], sizeof(name[0]), "%s", card.host);
    tess_probe_report report = {
        .n_ranks = p->plan.n_ranks, .n_hosts = 1, .host_names = name, .hosts = &here, .job = of_ranks};
    int code = p->show(p->self, &report);
    if (status == TESS_OK)
        tess_os_unmap_shared(shared, sizeof(tess_probe_findings));
    return code;
}

/* ---- Checks in a rank of a running job ---- */

/* Counts the ranks of this host. *first: whether this rank is the first of them, which checks the host. */
static int count_local(const tess_runtime *runtime, bool *first)
{
    tess_team *team = tess_runtime_team(runtime);
    int n = 0;
    for (int r = 0; r < tess_team_size(team); r++) {
        if (tess_team_host(team, r) != tess_runtime_host(runtime))
            continue;
        if (n++ == 0)
            *first = r == tess_team_rank(team);
    }
    return n;
}

static tess_status gather_and_report(const tess_preflight *p, tess_runtime *runtime, const tess_probe_findings *here,
                                     const tess_probe_findings *of_ranks, int *code)
{
    int n_hosts = tess_runtime_hosts(runtime);
    tess_mem *mem = tess_runtime_mem(runtime);
    TESS_AUTO(tess_mem_drop) void *hosts = NULL, *names = NULL;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n_hosts, sizeof(*here), "findings", &hosts));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n_hosts, 64, "names of hosts", &names));
    TESS_TRY(tess_probe_gather(runtime, here, hosts));
    tess_probe_report report = {.n_ranks = tess_runtime_world(runtime),
                                .n_hosts = n_hosts,
                                .host_names = names,
                                .hosts = hosts,
                                .job = of_ranks};
    for (int h = 0; h < n_hosts; h++)
        snprintf(report.host_names[h], 64, "%s", tess_runtime_host_name(runtime, h));
    if (tess_runtime_rank(runtime) == 0)
        *code = p->show(p->self, &report);
    return TESS_OK;
}

static tess_status check_as_rank(tess_preflight *p, tess_runtime *runtime, int *code)
{
    bool first = false;
    tess_probe_findings here = {0}, of_ranks = {0};
    int world = tess_runtime_world(runtime);
    p->plan.n_ranks = count_local(runtime, &first);
    p->plan.n_hosts = tess_runtime_hosts(runtime);
    tess_preflight_plan(&p->config, world, &p->plan);
    if (first)
        check_here(p, world, &here);
    if (tess_probe_wants_group(p->only, TESS_PROBE_RANKS))
        TESS_TRY(tess_probe_ranks(runtime, &p->plan, &of_ranks));
    return gather_and_report(p, runtime, &here, &of_ranks, code);
}

static int run_rank(tess_preflight *p)
{
    tess_runtime *runtime;
    int code = TESS_EXIT_OK;
    tess_runtime_options options = {.n_threads = 1, .comm_timeout_s = RANKS_MOST_S};
    tess_status status = tess_runtime_create(&options, &runtime);
    if (status != TESS_OK && tess_launch_is_rank() && (status == TESS_E_PEER_LOST || status == TESS_E_MISMATCH))
        return TESS_PREFLIGHT_NOT_READY; /* the launcher reports the failure once */
    if (status != TESS_OK) {
        tess_exit_fail_once(status);
        return TESS_PREFLIGHT_NOT_READY;
    }
    status = check_as_rank(p, runtime, &code);
    if (status != TESS_OK)
        code = tess_exit_rank(status, runtime);
    tess_runtime_destroy(&runtime);
    return code;
}

int tess_preflight_run(tess_preflight *p, const tess_ranks *ranks, const tess_own_command *command)
{
    if (ranks->is_warden)
        return tess_ranks_start_self(ranks, command, &(tess_launch_options){.grace_s = 2});
    tess_preflight_read(&p->config);
    /* a single process becomes the parent of its rank */
    int code = tess_launch_is_rank() || (ranks->joins && ranks->n > 1) ? run_rank(p) : run_alone(p, ranks->n);
    tess_config_free(&p->config.config);
    return code;
}
