#include "tessera/runtime.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/objects.h"
#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "comm/hosts/choice.h"
#include "comm/hosts/hosts.h"
#include "comm/seat.h"
#include "job/environment.h"
#include "job/keep/keep.h"

static void find_program(tess_runtime *rt)
{
    tess_object program;
    tess_object_program(&program);
    rt->program_begin = program.begin;
    rt->program_end = program.end;
}

static tess_status load_tuning(tess_runtime *rt, const char *path)
{
    if (path == NULL || path[0] == '\0')
        path = getenv("TESSERA_TUNING");
    return path != NULL && path[0] != '\0' ? tess_tuning_load(rt->mem, path, &rt->tuning) : TESS_OK;
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

static tess_status keep_asked_trace(tess_runtime *rt)
{
    const char *folder = getenv("TESSERA_TRACE");
    return folder != NULL && folder[0] != '\0' ? tess_runtime_keep_trace(rt, folder) : TESS_OK;
}

/* Ranks that run on the cores that this one may run on. An mpirun may have bound each to its own; and what counts as
 * several hosts may be one machine (TESS_BACKEND_MPI). */
static int count_sharers(const tess_runtime *rt)
{
    const tess_job_host *hosts = rt->job.header->hosts;
    int n = 0;
    for (int r = 0; r < rt->world; r++) {
        const tess_job_row *row = &rt->job.rows[r];
        n += strcmp(hosts[row->host].name, hosts[rt->row->host].name) == 0 && row->cores_hash == rt->row->cores_hash;
    }
    return n;
}

static tess_status open_keep(tess_runtime *rt)
{
    int fd;
    if (!rt->launched || rt->over_mpi || getenv("TESSERA_KEEP_FD") == NULL)
        return TESS_OK;
    TESS_TRY(tess_environment_number("TESSERA_KEEP_FD", 0, INT_MAX, &fd));
    TESS_TRY(tess_keep_open(rt->mem, fd, &rt->keep));
    tess_keep_attach(rt->keep, rt->mem);
    return TESS_OK;
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

tess_status tess_runtime_join_job(const tess_runtime_options *options, tess_runtime **out)
{
    *out = NULL;
    TESS_CHECK(options->n_threads >= 0 && options->comm_timeout_s >= 0, TESS_E_INVALID,
               "tess_runtime_create: %d threads, a deadline of %g s: neither may be negative", options->n_threads,
               options->comm_timeout_s);
    tess_mem *mem = NULL;
    void *memory = NULL;
    tess_status status;
    TESS_TRY(tess_mem_create(&mem));
    TESS_GOTO(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_runtime), "runtime", &memory), pools);
    tess_runtime *rt = memory;
    rt->mem = mem;
    atomic_flag_clear(&rt->list_lock);
    rt->timeout_s = options->comm_timeout_s > 0 ? options->comm_timeout_s : 600;
    rt->kernels = options->kernels;
    rt->native_reductions = options->native_reductions;
    find_program(rt);
    TESS_GOTO(tess_stream_create(mem, 1, rt->kernels, &rt->stream), runtime);
    TESS_GOTO(load_tuning(rt, options->tuning), stream);
    TESS_GOTO(tess_runtime_find_job(rt, options), tuning);
    rt->row = &rt->job.rows[rt->rank];
    TESS_GOTO(tess_runtime_join(rt, options->config_hash), job);
    set_limits(rt, options);
    tess_recorder_begin(rt);
    TESS_GOTO(make_world(rt), joined);
    TESS_GOTO(keep_asked_trace(rt), world);
    TESS_GOTO(open_keep(rt), world);
    if (rt->launched) {
        /* A terminal sends ctrl-C to the whole process group. The launcher answers it: ranks see a request to stop. */
        struct sigaction action;
        if (sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
            signal(SIGINT, SIG_IGN);
    }
    *out = rt;
    return TESS_OK;

world:
    tess_team_destroy(&rt->team);
joined:
    tess_runtime_part(rt);
    tess_recorder_end(rt);
job:
    tess_job_close(&rt->job, rt->owns_fd);
    tess_mem_free(mem, rt->processes);
tuning:
    tess_tuning_free(&rt->tuning);
stream:
    tess_stream_destroy(&rt->stream);
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
    bool orderly = rt->team->broken == TESS_OK;
    tess_team_destroy(&rt->team);
    tess_runtime_part(rt);
    if (rt->over_mpi)
        tess_hosts_leave(rt);
    tess_recorder_end(rt);
    tess_keep_close(&rt->keep);
    tess_job_close(&rt->job, rt->owns_fd);
    if (rt->observer.self != NULL)
        rt->observer.end(rt, rt->observer.self, orderly);
    tess_mem *mem = rt->mem;
    tess_tuning_free(&rt->tuning);
    tess_stream_destroy(&rt->stream);
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
    if (!COMM_IS_GUARDED)
        return;
    tess_trace_event event = {.step = step, .detail = detail, .root = -1, .op = TESS_TRACE_PHASE};
    if (rt->observer.self != NULL)
        rt->observer.phase_over(rt->observer.self);
    if (step >= 0 && step != atomic_load_explicit(&rt->row->step, memory_order_relaxed))
        event.count = tess_os_process_starved_ns((int)getpid());
    uint64_t now_ns = tess_os_now_ns();
    memcpy(event.phase, phase, strnlen(phase, sizeof(event.phase) - 1));
    tess_trace_emit(rt->ring, &event, now_ns);
    tess_board_phase(rt->row, phase, step, detail, now_ns);
    if (rt->observer.self != NULL)
        rt->observer.phase(rt, phase, step, detail);
}

void tess_runtime_progress(tess_runtime *rt, const tess_progress *progress)
{
    tess_job_row *row = rt->row;
    uint64_t loss;
    memcpy(&loss, &progress->loss, sizeof(loss));
    atomic_store_explicit(&row->n_tokens, (uint64_t)progress->n_tokens, memory_order_relaxed);
    atomic_store_explicit(&row->loss, loss, memory_order_relaxed);
    atomic_store_explicit(&row->step_ns, (uint64_t)(progress->step_s * 1e9), memory_order_relaxed);
    for (int i = 0; i < TESS_PROGRESS_PHASES; i++)
        atomic_fetch_add_explicit(&row->phase_ns[i], (uint64_t)(progress->phase_s[i] * 1e9), memory_order_relaxed);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        atomic_store_explicit(&row->pool_bytes[pool], tess_mem_stats(rt->mem, (tess_pool)pool).bytes,
                              memory_order_relaxed);
    /* Last: who sees the step sees what belongs to it. */
    atomic_store_explicit(&row->n_steps, (uint64_t)progress->n_steps, memory_order_release);
}

/* What is given back from here on is given back without the others, who do not know of it: to wait for them would be to
 * wait for the deadline. */
static void leave_teams(tess_runtime *rt)
{
    for (tess_team *team = rt->teams; team != NULL; team = team->next) {
        tess_team_lock(team);
        tess_team_break(team, TESS_E_CANCELLED, rt->rank);
        tess_team_unlock(team);
    }
}

void tess_runtime_report(tess_runtime *rt, const char *message)
{
    /* The first word is the rank's own: it blames itself. */
    tess_board_error(rt->row, message, rt->row->error[0] == '\0' ? rt->rank : -1);
    leave_teams(rt);
}

void tess_runtime_report_of(tess_runtime *rt, int rank, const char *message)
{
    tess_board_error(rt->row, message, rank == rt->rank ? -1 : rank);
}

void tess_runtime_warn(tess_runtime *rt, const char *message)
{
    int64_t step = atomic_load_explicit(&rt->row->step, memory_order_relaxed);
    tess_notices_add(&rt->job.header->notices, TESS_NOTICE_WARNING, rt->rank, step, message);
}

void tess_runtime_report_status(tess_runtime *rt, tess_status status)
{
    int32_t none = TESS_OK;
    atomic_compare_exchange_strong(&rt->row->status, &none, (int32_t)status);
}

int64_t tess_runtime_life(const tess_runtime *rt)
{
    return 1 + (int64_t)atomic_load(&rt->job.header->epoch);
}

bool tess_runtime_stop_requested(const tess_runtime *rt)
{
    return atomic_load_explicit(&rt->job.header->stop, memory_order_relaxed) == JOB_STOP_NOW;
}

bool tess_runtime_leave_requested(const tess_runtime *rt)
{
    return atomic_load_explicit(&rt->job.header->stop, memory_order_relaxed) == JOB_STOP_AFTER_SAVE;
}

void tess_runtime_request_stop(tess_runtime *rt)
{
    atomic_store(&rt->job.header->stop, JOB_STOP_NOW);
}

void tess_runtime_observe(tess_runtime *rt, const comm_observer *observer)
{
    rt->observer = *observer;
    rt->submit = observer->submit;
}

void *tess_runtime_observer(const tess_runtime *rt)
{
    return rt->observer.self;
}
