#include "tessera/runtime.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "comm/agent/agent.h"
#include "comm/comm_impl.h"
#include "comm/hosts/environment.h"
#include "comm/hosts/hosts.h"
#include "comm/launch.h"

bool tess_launch_is_rank(void)
{
    int fd;
    return (getenv("TESSERA_RANK") != NULL && getenv("TESSERA_SHM_FD") != NULL) || tess_guard_find(&fd);
}

/* The descriptor of the launcher's memory. */
static tess_status read_descriptor(int *fd)
{
    const char *text = getenv("TESSERA_SHM_FD");
    char *end;
    TESS_CHECK(text != NULL, TESS_E_INVALID,
               "TESSERA_SHM_FD is missing, while others of TESSERA_RANK, TESSERA_WORLD and TESSERA_SHM_FD are set: a "
               "launcher sets all three");
    errno = 0;
    long value = strtol(text, &end, 10);
    TESS_CHECK(errno == 0 && end != text && *end == '\0' && value >= 0 && value <= INT_MAX, TESS_E_INVALID,
               "TESSERA_SHM_FD is '%s', expected a number from 0 to %d", text, INT_MAX);
    *fd = (int)value;
    return TESS_OK;
}

/* Rank, world and shared memory from whoever started this process, or a job of one. */
static tess_status find_job(tess_runtime *rt, uint64_t config_hash)
{
    tess_environment environment;
    int fd = -1;
    TESS_TRY(tess_environment_read(&environment));
    rt->rank = environment.rank;
    rt->world = environment.world;
    rt->owns_fd = environment.starter != TESS_STARTER_TESSERA;
    switch (environment.starter) {
    case TESS_STARTER_TESSERA:
        TESS_TRY(read_descriptor(&fd));
        TESS_TRY(tess_job_open(fd, rt->world, &rt->job));
        rt->launched = true;
        return TESS_OK;
    case TESS_STARTER_TORCHRUN:
        return rt->world == 1 ? tess_job_create(1, &rt->job) : tess_hosts_meet(rt, &environment);
    case TESS_STARTER_NONE:
        return tess_job_create(1, &rt->job);
    default:
        if (rt->world == 1)
            return tess_job_create(1, &rt->job);
        TESS_TRY(tess_hosts_join(rt, &environment, config_hash));
        rt->launched = rt->over_mpi = true;
        return TESS_OK;
    }
}

static void allow_reading(const tess_runtime *rt)
{
    if (rt->world > 1)
        tess_os_allow_reading(rt->job.header->launcher_pid); /* its children: the peers */
}

static void forbid_reading(const tess_runtime *rt)
{
    if (rt->world > 1)
        tess_os_allow_reading(0);
}

static tess_status join(tess_runtime *rt, uint64_t config_hash)
{
    tess_job_row *row = rt->row;
    int32_t nobody = 0;
    TESS_CHECK(atomic_compare_exchange_strong(&row->pid, &nobody, (int32_t)getpid()), TESS_E_INVALID,
               "rank %d of this job was already taken by process %d: a rank joins once, and its children do not",
               rt->rank, nobody);
    row->config_hash = config_hash;
    row->version_hash = tess_hash_text(TESS_VERSION);
    row->cores_hash = tess_os_cores_hash();
    allow_reading(rt);
    rt->token = tess_os_now_ns() ^ (uint64_t)getpid() << 40;
    row->token = rt->token;
    row->token_address = (uint64_t)(uintptr_t)&rt->token;
    atomic_store(&row->heartbeat_ns, tess_os_now_ns());
    atomic_store(&row->state, JOB_RANK_JOINED);
    tess_job_wake_all(&rt->job);
    return TESS_OK;
}

/* Ranks that have not joined, as " 1 3"; their number. */
static int list_absent(const tess_runtime *rt, char *text, size_t size)
{
    int n = 0;
    size_t at = 0;
    text[0] = '\0';
    for (int r = 0; r < rt->world; r++) {
        if (atomic_load(&rt->job.rows[r].state) != JOB_RANK_ABSENT)
            continue;
        n++;
        if (at + 8 < size)
            at += (size_t)snprintf(text + at, size - at, " %d", r);
    }
    return n;
}

/* A rank that has ended, joined or not; -1: none. */
static int find_ended(const tess_runtime *rt)
{
    for (int r = 0; r < rt->world; r++) {
        uint32_t state = atomic_load(&rt->job.rows[r].state);
        if (state == JOB_RANK_LOST || state == JOB_RANK_GONE)
            return r;
    }
    return -1;
}

/* Every rank has joined at some time: the meeting is over, whoever has ended since. The next operation tells of those.
 */
static bool all_have_joined(const tess_runtime *rt)
{
    for (int r = 0; r < rt->world; r++)
        if (atomic_load(&rt->job.rows[r].state) == JOB_RANK_ABSENT || rt->job.rows[r].version_hash == 0)
            return false;
    return true;
}

static bool agents_are_up(const tess_runtime *rt)
{
    return rt->job.header->n_hosts == 1 || atomic_load(&rt->job.header->agent_state) == JOB_AGENT_UP;
}

static tess_status wait_for_all(tess_runtime *rt)
{
    double begin = tess_os_now_s();
    tess_status status = TESS_OK;
    for (bool waiting = true; waiting;) {
        char text[512];
        uint32_t ticket = tess_job_sleep_begin(&rt->job, rt->rank);
        int absent = list_absent(rt, text, sizeof(text)), ended = find_ended(rt);
        if (atomic_load(&rt->job.header->agent_state) == JOB_AGENT_FAILED) {
            status = TESS_FAIL(TESS_E_IO, "%s", rt->job.header->agent_error);
            tess_board_error(rt->row, tess_error_message(), -1);
            waiting = false;
        } else if (all_have_joined(rt) && agents_are_up(rt)) {
            waiting = false;
        } else if (ended >= 0) {
            char end[640];
            status = TESS_FAIL(TESS_E_PEER_LOST, "%s; this rank (%d) was joining the job",
                               tess_board_describe_end(&rt->job, ended, end, sizeof(end)), rt->rank);
            tess_board_error(rt->row, tess_error_message(), ended);
            waiting = false;
        } else if (tess_os_now_s() - begin > rt->timeout_s && absent > 0) {
            status = TESS_FAIL(TESS_E_TIMEOUT, "%d of %d ranks did not join the job within %.3g s: rank%s%s", absent,
                               rt->world, rt->timeout_s, absent > 1 ? "s" : "", text);
            tess_board_error(rt->row, tess_error_message(), -1);
            waiting = false;
        } else {
            tess_job_sleep(&rt->job, rt->rank, ticket, 50000000);
        }
        tess_job_sleep_end(&rt->job, rt->rank);
    }
    return status;
}

/* Ranks whose value differs from that of the majority (ties: from the first's), by offset in the row; 0 where
 * may_be_zero is not compared. */
static tess_status compare_rows(const tess_runtime *rt, size_t offset, bool skip_zero, const char *what)
{
    uint64_t values[JOB_MAX_RANKS], best = 0;
    int best_members = 0;
    for (int r = 0; r < rt->world; r++)
        memcpy(&values[r], (const char *)&rt->job.rows[r] + offset, sizeof(uint64_t));
    for (int r = 0; r < rt->world; r++) {
        int members = 0;
        for (int q = 0; q < rt->world; q++)
            members += values[q] == values[r];
        if (members > best_members && !(skip_zero && values[r] == 0)) {
            best = values[r];
            best_members = members;
        }
    }
    char text[512];
    size_t at = 0;
    int n_odd = 0;
    for (int r = 0; r < rt->world; r++) {
        if (values[r] == best || (skip_zero && values[r] == 0))
            continue;
        n_odd++;
        if (at + 120 < sizeof(text))
            at += (size_t)snprintf(text + at, sizeof(text) - at,
                                   rt->job.header->n_hosts > 1 ? " %d on host %s (%016llx)" : " %d%.0s (%016llx)", r,
                                   tess_runtime_host_name(rt, rt->job.rows[r].host), (unsigned long long)values[r]);
    }
    TESS_CHECK(n_odd == 0, TESS_E_MISMATCH, "ranks differ in their %s: rank%s%s, the %d others have %016llx%s", what,
               n_odd > 1 ? "s" : "", text, best_members, (unsigned long long)best,
               n_odd == best_members ? "; a tie" : "");
    return TESS_OK;
}

/* A process number may mean another process elsewhere: only who finds the token reads the right one. */
static void try_reading_peers(tess_runtime *rt)
{
    bool all = true;
    for (int r = 0; r < rt->world && all; r++) {
        const tess_job_row *row = &rt->job.rows[r];
        uint64_t token = 0;
        if (row->host != rt->row->host)
            continue;
        all =
            r == rt->rank || (tess_os_read_process(atomic_load(&row->pid), &token, row->token_address, sizeof(token)) &&
                              token == row->token);
    }
    atomic_store(&rt->row->reads_peers, all);
}

static tess_status make_world(tess_runtime *rt)
{
    void *memory;
    TESS_TRY(
        tess_mem_alloc_array(rt->mem, TESS_POOL_MISC, (size_t)rt->world, sizeof(int), "ranks of the world", &memory));
    int *ranks = memory;
    for (int r = 0; r < rt->world; r++)
        ranks[r] = r;
    tess_status status = tess_team_attach(rt, "world", ranks, rt->world, rt->rank, tess_hash_text("world"),
                                          rt->job.header->world_team, &rt->team);
    if (status != TESS_OK)
        tess_mem_free(rt->mem, ranks);
    return status;
}

/* Ranks that run on the cores that this one may run on. An mpirun may have bound each to its own. */
static int count_sharers(const tess_runtime *rt)
{
    int n = 0;
    for (int r = 0; r < rt->world; r++)
        n += rt->job.rows[r].host == rt->row->host && rt->job.rows[r].cores_hash == rt->row->cores_hash;
    return n;
}

static void set_limits(tess_runtime *rt, const tess_runtime_options *options)
{
    int cores = tess_os_cores(), sharers = count_sharers(rt), n_threads = options->n_threads;
    rt->n_threads = n_threads > 0 ? n_threads : cores / sharers > 1 ? cores / sharers : 1;
    /* With a core for each rank a short look is worth more than a sleep; without, it takes the core from the one that
     * is waited for, and yielding hands it on: a barrier of 8 ranks on 2 cores takes 9 us, through sleeps 30 to 40. A
     * barrier of 2 ranks on 2 cores, mean over 10,000, median of 10 to 12 interleaved runs: beside other work 80 us
     * with 2000 looks, 42 with 1000, 24 with 500, 16 with 300, 10 with 150; with the cores to themselves the same with
     * any of them. 300 keeps some of the look for ranks that come a little apart. */
    rt->n_spins = sharers <= cores ? 300 : 1;
    rt->n_yields = sharers <= cores ? 0 : 20;
}

tess_status tess_runtime_create(const tess_runtime_options *given, tess_runtime **out)
{
    TESS_CHECK(out != NULL, TESS_E_INVALID, "tess_runtime_create: a NULL argument");
    *out = NULL;
    tess_runtime_options options = {0};
    if (given != NULL)
        options = *given;
    TESS_CHECK(options.n_threads >= 0 && options.comm_timeout_s >= 0, TESS_E_INVALID,
               "tess_runtime_create: %d threads, a deadline of %g s: neither may be negative", options.n_threads,
               options.comm_timeout_s);
    tess_mem *mem = NULL;
    void *memory = NULL;
    tess_status status;
    TESS_TRY(tess_mem_create(&mem));
    TESS_GOTO(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_runtime), "runtime", &memory), pools);
    tess_runtime *rt = memory;
    rt->mem = mem;
    atomic_flag_clear(&rt->list_lock);
    rt->timeout_s = options.comm_timeout_s > 0 ? options.comm_timeout_s : 600;
    rt->kernels = options.kernels;
    rt->program = tess_program_find();
    TESS_GOTO(find_job(rt, options.config_hash), runtime);
    rt->row = &rt->job.rows[rt->rank];
    rt->ring = tess_job_ring(&rt->job, rt->rank);
    TESS_GOTO(join(rt, options.config_hash), job);
    tess_board_phase(rt->row, "", -1, -1);
    TESS_GOTO(wait_for_all(rt), joined);
    TESS_GOTO(compare_rows(rt, offsetof(tess_job_row, version_hash), false, "version of libtessera"), disagreed);
    TESS_GOTO(compare_rows(rt, offsetof(tess_job_row, program_hash), true, "program"), disagreed);
    TESS_GOTO(compare_rows(rt, offsetof(tess_job_row, config_hash), true, "configuration"), disagreed);
    set_limits(rt, &options);
    TESS_GOTO(make_world(rt), joined);
    try_reading_peers(rt);
    if (rt->launched) {
        /* A terminal sends ctrl-C to the whole process group. The launcher answers it: ranks see a request to stop. */
        struct sigaction action;
        if (sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
            signal(SIGINT, SIG_IGN);
    }
    *out = rt;
    return TESS_OK;

disagreed:
    tess_board_error(rt->row, tess_error_message(), -1);
joined:
    forbid_reading(rt);
    atomic_store(&rt->row->state, JOB_RANK_LEFT);
    tess_job_wake_all(&rt->job);
job:
    tess_job_close(&rt->job, rt->owns_fd);
    tess_mem_free(mem, rt->processes);
runtime:
    tess_mem_free(mem, rt);
pools:
    tess_mem_destroy(&mem);
    return tess_fail_context(status, "join the job");
}

void tess_runtime_destroy(tess_runtime **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    tess_runtime *rt = *handle;
    *handle = NULL;
    while (rt->regions != NULL) {
        comm_region *region = rt->regions;
        rt->regions = region->next;
        tess_mem_free(rt->mem, region);
    }
    tess_team_destroy(&rt->team);
    forbid_reading(rt);
    atomic_store(&rt->row->state, JOB_RANK_LEFT);
    tess_job_wake_all(&rt->job);
    if (rt->over_mpi)
        tess_hosts_leave(rt);
    tess_job_close(&rt->job, rt->owns_fd);
    tess_mem *mem = rt->mem;
    tess_mem_free(mem, rt->processes);
    tess_mem_free(mem, rt);
    tess_mem_destroy(&mem);
}

int tess_runtime_rank(const tess_runtime *rt)
{
    return rt->rank;
}

int tess_runtime_world(const tess_runtime *rt)
{
    return rt->world;
}

int tess_runtime_threads(const tess_runtime *rt)
{
    return rt->n_threads;
}

const char *tess_runtime_kernels(const tess_runtime *rt)
{
    return rt->kernels;
}

const char *tess_runtime_backend(const tess_runtime *rt)
{
    return rt->team->backend->name;
}

int tess_runtime_hosts(const tess_runtime *rt)
{
    return (int)rt->job.header->n_hosts;
}

int tess_runtime_host(const tess_runtime *rt)
{
    return (int)rt->job.header->host;
}

const char *tess_runtime_host_name(const tess_runtime *rt, int host)
{
    return host >= 0 && host < tess_runtime_hosts(rt) ? rt->job.header->hosts[host].name : "?";
}

tess_mem *tess_runtime_mem(const tess_runtime *rt)
{
    return rt->mem;
}

tess_team *tess_runtime_team(const tess_runtime *rt)
{
    return rt->team;
}

void tess_runtime_phase(tess_runtime *rt, const char *phase, int64_t step, int64_t detail)
{
    tess_board_phase(rt->row, phase, step, detail);
    tess_trace_event event = {.step = step, .detail = detail, .root = -1, .op = TESS_TRACE_PHASE};
    strncpy(event.phase, phase, sizeof(event.phase) - 1);
    tess_trace_emit(rt->ring, &event);
}

void tess_runtime_report(tess_runtime *rt, const char *message)
{
    tess_board_error(rt->row, message, -1);
}

bool tess_runtime_stop_requested(const tess_runtime *rt)
{
    return atomic_load_explicit(&rt->job.header->stop, memory_order_relaxed) != 0;
}

void tess_runtime_request_stop(tess_runtime *rt)
{
    atomic_store(&rt->job.header->stop, 1);
}
