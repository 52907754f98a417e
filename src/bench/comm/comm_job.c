#include "bench/comm/comm_job.h"

#include <math.h>
#include <string.h>

#include "base/os/os.h"
#include "bench/bench_memory.h"
#include "comm/device_windows.h"
#include "control/launch/launcher.h"
#include "bench/measuring_ranks.h"

enum { MEMORY_BYTES = 32 << 20, MEMORY_TURNS = 3 };

static tess_status sample(const comm_op *op, const comm_call *call, double *slowest_s)
{
    int n = comm_plan_operations(call->bytes);
    TESS_TRY(tess_barrier(call->team, NULL));
    double begin_s = tess_os_now_s();
    for (int i = 0; i < n; i++)
        TESS_TRY(op->call(call));
    *slowest_s = tess_os_now_s() - begin_s;
    return tess_bench_reduce_s(call->team, TESS_MAX, slowest_s);
}

static tess_status measure(const comm_op *op, const comm_call *call, comm_time *time)
{
    double samples[COMM_PLAN_SAMPLES], spent_s = 0, took_s;
    int n = 0;
    TESS_TRY(sample(op, call, &took_s)); /* warm-up */
    while (comm_plan_goes_on(n, spent_s)) {
        TESS_TRY(sample(op, call, &took_s));
        samples[n++] = took_s / comm_plan_operations(call->bytes) * 1e6;
        spent_s += took_s;
    }
    *time = (comm_time){.median_us = tess_bench_median(samples, n), .min_us = tess_bench_min(samples, n)};
    return TESS_OK;
}

/* Allocates buffers on the device. Sums over ranks are done in place, because then they use windows. */
static tess_status alloc_on_device(const comm_case *which, tess_team *team, bool window, size_t bytes, comm_call *call)
{
    if (window)
        TESS_TRY(tess_device_window_alloc(team, TESS_POOL_COMM, bytes, "in", &call->in));
    else
        TESS_TRY(tess_device_alloc(which->device, TESS_POOL_COMM, bytes, "in", &call->in));
    call->out = call->in;
    return which->op->kind == TESS_TRACE_ALL_REDUCE
               ? TESS_OK
               : tess_device_alloc(which->device, TESS_POOL_COMM, bytes, "out", &call->out);
}

static void free_on_device(const comm_case *which, bool window, comm_call *call)
{
    if (call->out != call->in)
        tess_device_free(which->device, call->out);
    if (window)
        tess_device_window_free(call->team, call->in);
    else
        tess_device_free(which->device, call->in);
}

static tess_status alloc_buffers(const comm_case *which, tess_team *team, bool window, size_t bytes, comm_call *call)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(team));
    *call = (comm_call){.team = team, .dtype = which->dtype};
    if (which->device != NULL)
        return alloc_on_device(which, team, window, bytes, call);
    if (window)
        TESS_TRY(tess_window_alloc(team, TESS_POOL_COMM, bytes, "in", &call->in));
    else
        TESS_TRY(tess_mem_alloc(mem, TESS_POOL_COMM, bytes, "in", &call->in));
    if (window && which->op->shares)
        TESS_TRY(tess_shared_alloc(team, TESS_POOL_COMM, bytes, "out", &call->out));
    else if (window)
        TESS_TRY(tess_window_alloc(team, TESS_POOL_COMM, bytes, "out", &call->out));
    else
        TESS_TRY(tess_mem_alloc(mem, TESS_POOL_COMM, bytes, "out", &call->out));
    memset(call->in, 0, bytes);
    if (!which->op->shares || tess_team_rank(team) == 0)
        memset(call->out, 0, bytes);
    return tess_barrier(team, NULL);
}

static void free_buffers(const comm_case *which, bool window, comm_call *call)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(call->team));
    if (which->device != NULL) {
        free_on_device(which, window, call);
        return;
    }
    if (!window) {
        tess_mem_free(mem, call->in);
        tess_mem_free(mem, call->out);
        return;
    }
    tess_window_free(call->team, call->in);
    if (which->op->shares)
        tess_shared_free(call->team, call->out);
    else
        tess_window_free(call->team, call->out);
}

tess_status comm_job_measure(const comm_case *which, tess_team *team, bool window, comm_time *times)
{
    size_t most = 4096;
    comm_call call;
    for (int i = 0; i < which->n_sizes; i++)
        most = which->bytes[i] > most ? which->bytes[i] : most;
    TESS_TRY(alloc_buffers(which, team, window, 2 * most, &call));
    for (int i = 0; i < which->n_sizes; i++) {
        comm_time time;
        call.bytes = which->bytes[i];
        TESS_TRY(measure(which->op, &call, &time));
        if (tess_team_rank(team) == 0)
            times[i] = time;
    }
    free_buffers(which, window, &call);
    return TESS_OK;
}

/* Measures memory bandwidth on all ranks at once, as in a collective. */
static tess_status measure_memory(tess_team *team, double *bytes_per_s)
{
    static const tess_bench_traffic kinds[] = {TESS_BENCH_COPY, TESS_BENCH_TRIAD};
    tess_bench_arrays *arrays;
    TESS_TRY(tess_bench_arrays_create(tess_runtime_mem(tess_team_runtime(team)), 1, MEMORY_BYTES, &arrays));
    for (int i = 0; i < 2 * MEMORY_TURNS; i++) {
        TESS_TRY(tess_barrier(team, NULL));
        int64_t rate = (int64_t)tess_bench_traffic_rate(arrays, kinds[i % 2]);
        TESS_TRY(tess_all_reduce(team, &rate, &rate, 1, TESS_I64, TESS_SUM, NULL));
        if (tess_team_rank(team) == 0)
            *bytes_per_s = fmax(*bytes_per_s, (double)rate);
    }
    tess_bench_arrays_destroy(&arrays);
    return TESS_OK;
}

static tess_status run(tess_runtime *rt, const void *plan, void *result)
{
    const comm_case *which = plan;
    comm_result *times = result;
    tess_team *team = tess_runtime_team(rt);
    if (which->op->sized)
        TESS_TRY(measure_memory(team, &times->memory_bytes_per_s));
    TESS_TRY(comm_job_measure(which, team, true, times->window));
    return which->op->sized ? comm_job_measure(which, team, false, times->private) : TESS_OK;
}

tess_status comm_job_ours(const comm_case *which, comm_result *result)
{
    const tess_bench_ranks ranks = {.n = which->ranks, .bind = true, .run = run, .plan = which};
    TESS_TRY_CTX(tess_bench_ranks_run(&ranks, result, sizeof(*result)), "measuring %s on %d ranks", which->op->name,
                 which->ranks);
    return TESS_OK;
}
