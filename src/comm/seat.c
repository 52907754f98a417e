#include "comm/seat.h"

#include <signal.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/core/variables.h"
#include "base/os/objects.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "comm/comm_impl.h"
#include "comm/device_windows.h"
#include "comm/hosts/choice.h"
#include "job/persist/persist.h"

static const char *option_or_variable(const char *option, tess_variable variable)
{
    const char *value = option != NULL && option[0] != '\0' ? option : tess_variable_value(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static tess_status make_world(tess_runtime *rt)
{
    int *ranks;
    TESS_TRY(TESS_NEW(rt->mem, rt->world, "ranks of the world", &ranks));
    for (int r = 0; r < rt->world; r++)
        ranks[r] = r;
    tess_status status = tess_team_attach(rt, "world", ranks, rt->world, rt->rank, tess_hash_text("world"),
                                          rt->job.header->world_team, &rt->team);
    if (status != TESS_OK)
        tess_mem_free(rt->mem, ranks);
    return status;
}

/* Counts the ranks that share this rank's cores. mpirun may have bound each rank to its own core. With
 * TESS_BACKEND_MPI, several hosts may be one machine. */
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

/* If more ranks than this share a core, a yield passes through all of them, and most of its time is spent on
 * switching. */
enum { MOST_YIELDING = 16 };

static void set_limits(tess_runtime *rt, const tess_runtime_options *options)
{
    int cores = tess_os_cores(), sharers = count_sharers(rt), n_threads = options->n_threads;
    rt->n_threads = n_threads > 0 ? n_threads : cores / sharers > 1 ? cores / sharers : 1;
    /* Chooses how long a rank polls before it yields or sleeps. If each rank has a core, a short poll is faster than
     * a sleep. If there are fewer cores, polling takes the core from the awaited rank, and yielding gives it up.
     *
     * Measured: a barrier of 8 ranks on 2 cores takes 9 us with yields, and 30 to 40 with sleeps. A barrier of 2
     * ranks on 2 cores (mean of 10,000; median of 10 to 12 interleaved runs) with other work on the cores takes 80
     * us with 2000 polls, 42 with 1000, 24 with 500, 16 with 300, and 10 with 150. With idle cores, the number makes
     * no difference. 300 polls still cover ranks that come slightly apart. */
    rt->n_spins = sharers <= cores ? 300 : 1;
    rt->n_yields = sharers <= cores || sharers > MOST_YIELDING * cores ? 0 : 20;
    /* Messages of other hosts do not wake a waiting rank, so it must poll for them. */
    rt->sleep_ns = rt->transport->longest_sleep_ns * (rt->transport->poll == NULL ? comm_patience(rt->world) : 1);
}

tess_status tess_runtime_join_job(const tess_runtime_options *options, tess_runtime **out)
{
    *out = NULL;
    TESS_CHECK(options->n_threads >= 0 && options->comm_timeout_s >= 0, TESS_E_INVALID,
               "tess_runtime_create: %d threads, a deadline of %g s: neither may be negative", options->n_threads,
               options->comm_timeout_s);
    tess_mem *mem = NULL;
    tess_runtime *rt;
    tess_status status;
    TESS_TRY(tess_mem_create(&mem));
    TESS_GOTO(TESS_NEW(mem, 1, "runtime", &rt), pools);
    rt->mem = mem;
    atomic_flag_clear(&rt->list_lock);
    atomic_flag_clear(&rt->teams_lock);
    rt->timeout_s = options->comm_timeout_s > 0 ? options->comm_timeout_s : 600;
    rt->native_reductions = options->native_reductions;
    tess_object program;
    tess_object_program(&program);
    rt->program_begin = program.begin;
    rt->program_end = program.end;
    TESS_GOTO(tess_kernels_offer_of(options->kernels, &rt->offer), runtime);
    const char *tuning = option_or_variable(options->tuning, TESS_VAR_TUNING);
    TESS_GOTO(tuning != NULL ? tess_tuning_load(mem, tuning, &rt->tuning) : TESS_OK, runtime);
    TESS_GOTO(tess_runtime_find_job(rt, options), tuning);
    rt->row = &rt->job.rows[rt->rank];
    TESS_GOTO(tess_runtime_join(rt, options->config_hash), job);
    set_limits(rt, options);
    tess_recorder_begin(rt);
    TESS_GOTO(tess_stream_create(mem, 1, rt->kernels, &rt->stream), joined);
    TESS_GOTO(make_world(rt), stream);
    const char *folder = option_or_variable(NULL, TESS_VAR_TRACE);
    TESS_GOTO(folder != NULL ? tess_runtime_keep_trace(rt, folder) : TESS_OK, world);
    if (rt->launched) {
        /* Ignores signals that a terminal sends to the whole process group: ctrl-C, and SIGHUP when it closes. The
         * launcher handles them, and ranks see a request to stop. */
        static const int of_terminal[] = {SIGINT, SIGHUP};
        struct sigaction action;
        for (int i = 0; i < 2; i++)
            if (sigaction(of_terminal[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL)
                signal(of_terminal[i], SIG_IGN);
            else if (of_terminal[i] == SIGINT && action.sa_handler != SIG_IGN)
                atomic_store(&rt->row->heeds, JOB_HEEDS_INTERRUPTS);
    }
    *out = rt;
    return TESS_OK;

world:
    tess_team_destroy(&rt->team);
stream:
    tess_stream_destroy(&rt->stream);
joined:
    tess_runtime_part(rt);
    tess_recorder_end(rt);
job:
    tess_persist_close(&rt->persist);
    tess_persist_close(&rt->persist_disk);
    tess_job_close(&rt->job, rt->owns_fd);
    tess_mem_free(mem, rt->processes);
tuning:
    tess_tuning_free(&rt->tuning);
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
    tess_runtime_forget_device(rt);
    bool orderly = rt->team->broken == TESS_OK;
    tess_team_destroy(&rt->team);
    tess_runtime_part(rt);
    if (rt->transport->leave != NULL)
        rt->transport->leave(rt);
    tess_recorder_end(rt);
    tess_persist_close(&rt->persist);
    tess_persist_close(&rt->persist_disk);
    if (rt->observer.self != NULL)
        rt->observer.end(rt, rt->observer.self, orderly);
    tess_job_close(&rt->job, rt->owns_fd);
    tess_mem *mem = rt->mem;
    tess_tuning_free(&rt->tuning);
    tess_stream_destroy(&rt->stream);
    tess_mem_free(mem, rt->processes);
    tess_mem_free(mem, rt);
    tess_mem_destroy(&mem);
}

void tess_runtime_report(tess_runtime *rt, const char *message)
{
    /* Reports the rank's first error on the board. The rank blames itself, unless another rank has met the error. */
    const bool is_agreed = rt->agreed[0] != '\0' && tess_text_ends_with(message, rt->agreed);
    tess_board_error(rt->row, message, is_agreed ? rt->agreed_rank : rt->row->error[0] == '\0' ? rt->rank : -1);
    /* Breaks the teams, so that memory can be freed without the other ranks. They do not take part, and waiting for
     * them would last until the deadline. */
    for (tess_team *team = rt->teams; team != NULL; team = team->next) {
        tess_team_lock(team);
        tess_team_break(team, TESS_E_CANCELLED, rt->rank);
        tess_team_unlock(team);
    }
}
