/* Runs the checks that the ranks perform together, and collects their results on rank 0. */
#include <string.h>
#include <unistd.h>

#include "doctor/probe/probe_impl.h"
#include "doctor/probe/ranks_impl.h"
#include "job/job_memory.h"
#include "job/place.h"

typedef enum row_kind { START, PROGRAM, ENVIRONMENT, GEMM, COPY, ALL_REDUCE, BARRIER, CLOCKS, LINKS, N_ROWS } row_kind;

static const char *const rows[N_ROWS] = {
    [START] = TESS_PROBE_START, [PROGRAM] = "same-program", [ENVIRONMENT] = "environment",
    [GEMM] = "gemm-speed",      [COPY] = "copy-speed",      [ALL_REDUCE] = "all-reduce",
    [BARRIER] = "barrier",      [CLOCKS] = "clock-offset",  [LINKS] = "links"};

/* The state of these checks on one rank. Only rank 0 has `ranks` and `links`. */
typedef struct probe_session {
    tess_runtime *runtime;
    tess_team *team;
    const tess_probe_plan *plan;
    int n_hosts, leaders[JOB_MAX_HOSTS]; /* team rank of the first rank of each host */
    int local_index, n_local;
    probe_rank mine, *ranks;
    probe_all all; /* records of the ranks, and scratch arrays */
    probe_link links[JOB_MAX_HOSTS];
} probe_session;

static void find_places(probe_session *s)
{
    int host = tess_runtime_host(s->runtime);
    for (int h = 0; h < s->n_hosts; h++)
        s->leaders[h] = -1;
    for (int r = 0; r < tess_team_size(s->team); r++) {
        int its = tess_team_host(s->team, r);
        if (s->leaders[its] < 0)
            s->leaders[its] = r;
        s->local_index += its == host && r < tess_team_rank(s->team);
        s->n_local += its == host;
    }
}

static bool wants(const probe_session *s, row_kind kind)
{
    return tess_probe_wanted(s->plan->only, rows[kind]);
}

static tess_status look(probe_session *s)
{
    tess_card card;
    tess_card_fill(&card);
    s->mine.host = tess_runtime_host(s->runtime);
    s->mine.program = card.program_hash;
    s->mine.configuration = s->plan->config_hash;
    probe_collect_environment(environ, s->mine.environment);
    if (wants(s, GEMM) || wants(s, COPY))
        TESS_TRY(probe_measure_speed(s->team, s->local_index, s->n_local, &s->mine));
    if (wants(s, ALL_REDUCE))
        TESS_TRY(probe_try_all_reduce(s->team, s->mine.wrong));
    if (wants(s, BARRIER))
        TESS_TRY(probe_time_barrier(s->team, &s->mine.barrier_us));
    if (s->n_hosts > 1 && (wants(s, CLOCKS) || wants(s, LINKS)))
        TESS_TRY(probe_measure_links(s->team, s->leaders, s->n_hosts, s->links));
    return tess_gather(s->team, &s->mine, s->ranks, sizeof(s->mine), TESS_U8, 0, NULL);
}

static void judge_row(const probe_session *s, row_kind kind, tess_probe_finding *finding)
{
    const char *names[JOB_MAX_HOSTS];
    int n = tess_team_size(s->team);
    for (int h = 0; h < s->n_hosts; h++)
        names[h] = tess_runtime_host_name(s->runtime, h);
    switch (kind) {
    case START:
        probe_say(finding, TESS_PROBE_OK, "%d rank%s met", n, n == 1 ? "" : "s");
        break;
    case PROGRAM:
        probe_judge_program(&s->all, finding);
        break;
    case ENVIRONMENT:
        probe_judge_environment(&s->all, finding);
        break;
    case GEMM:
        probe_judge_speed(&s->all, "GFLOP/s", false, finding);
        break;
    case COPY:
        probe_judge_speed(&s->all, "GB/s", true, finding);
        break;
    case ALL_REDUCE:
        probe_judge_all_reduce(s->ranks, n, finding);
        break;
    case BARRIER:
        probe_judge_barrier(s->ranks, n, s->n_hosts, finding);
        break;
    case CLOCKS:
    case LINKS:
    default:
        if (s->n_hosts == 1)
            probe_say(finding, TESS_PROBE_ABSENT, "one host");
        else if (kind == CLOCKS)
            probe_judge_clocks(s->links, names, s->n_hosts, finding);
        else
            probe_judge_links(s->links, names, s->n_hosts, finding);
    }
}

static tess_status make_room(tess_mem *mem, int n, probe_session *s)
{
    void *memory;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n,
                                  sizeof(probe_rank) + sizeof(uint64_t) + sizeof(double), "findings of ranks",
                                  &memory));
    s->ranks = memory;
    s->all = (probe_all){.ranks = s->ranks, .n = n, .hashes = (uint64_t *)(void *)(s->ranks + n)};
    s->all.paces = (double *)(s->all.hashes + n);
    return TESS_OK;
}

tess_status tess_probe_ranks(tess_runtime *runtime, const tess_probe_plan *plan, tess_probe_findings *findings)
{
    tess_mem *mem = tess_runtime_mem(runtime);
    tess_team *team = tess_runtime_team(runtime);
    probe_session s = {.runtime = runtime, .team = team, .plan = plan, .n_hosts = tess_runtime_hosts(runtime)};
    find_places(&s);
    if (tess_team_rank(team) == 0)
        TESS_TRY(make_room(mem, tess_team_size(team), &s));
    tess_status status = look(&s);
    for (int kind = 0; kind < N_ROWS && status == TESS_OK && s.ranks != NULL; kind++) {
        tess_probe_finding *finding = probe_begin(findings, TESS_PROBE_RANKS, rows[kind], plan->only);
        if (finding != NULL)
            judge_row(&s, (row_kind)kind, finding);
    }
    tess_mem_free(mem, s.ranks);
    return status;
}

tess_status tess_probe_gather(tess_runtime *runtime, const tess_probe_findings *mine, tess_probe_findings *all)
{
    TESS_AUTO(tess_mem_drop) void *block = NULL;
    tess_team *team = tess_runtime_team(runtime);
    tess_mem *mem = tess_runtime_mem(runtime);
    bool first = tess_team_rank(team) == 0;
    size_t n = (size_t)tess_team_size(team);
    if (first)
        TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(*mine), "findings of hosts", &block));
    TESS_TRY(tess_gather(team, mine, block, sizeof(*mine), TESS_U8, 0, NULL));
    const tess_probe_findings *of_ranks = block;
    /* descending order, so that the first rank of each host is stored last and remains */
    for (size_t r = n; first && r-- > 0;)
        all[tess_team_host(team, (int)r)] = of_ranks[r];
    return TESS_OK;
}
