/* `tessera bench comm --device` measures collectives on device memory, both with windows that ranks read from each
 * other and through the host. It compares them with a copy on the device. Ranks may share a GPU. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "bench/comm/comm_job.h"
#include "bench/measuring_ranks.h"
#include "comm/device_windows.h"

enum { COPY_BYTES = 64 << 20, COPY_TURNS = 3 };
enum { OF_COPY, BY_HOST };

typedef struct device_plan {
    comm_case which;
    char device[TESS_TEXT_SIZE];
} device_plan;

/* Copies on all ranks at once. Returns the bytes read and written per second, by all ranks together. */
static tess_status measure_copy(tess_team *team, tess_device *device, tess_stream *stream, double *bytes_per_s)
{
    void *from, *to;
    TESS_TRY(tess_device_alloc(device, TESS_POOL_COMM, COPY_BYTES, "from", &from));
    TESS_TRY(tess_device_alloc(device, TESS_POOL_COMM, COPY_BYTES, "to", &to));
    for (int i = 0; i < COPY_TURNS; i++) {
        TESS_TRY(tess_barrier(team, NULL));
        double begin_s = tess_os_now_s();
        TESS_TRY(tess_stream_copy(stream, to, from, COPY_BYTES));
        TESS_TRY(tess_stream_synchronize(stream));
        int64_t rate = (int64_t)(2 * COPY_BYTES / (tess_os_now_s() - begin_s));
        TESS_TRY(tess_all_reduce(team, &rate, &rate, 1, TESS_I64, TESS_SUM, NULL));
        *bytes_per_s = fmax(*bytes_per_s, (double)rate);
    }
    tess_device_free(device, to);
    tess_device_free(device, from);
    return TESS_OK;
}

static tess_status measure(tess_runtime *rt, const comm_case *which, tess_stream *stream, comm_result *times)
{
    tess_team *team = tess_runtime_team(rt);
    TESS_TRY(measure_copy(team, which->device, stream, &times->memory_bytes_per_s));
    TESS_TRY(comm_job_measure(which, team, true, times->window));
    return comm_job_measure(which, team, false, times->private);
}

static tess_status run(tess_runtime *rt, const void *plan_, void *result)
{
    const device_plan *plan = plan_;
    comm_case which = plan->which;
    tess_stream *stream = NULL;
    tess_status status;
    TESS_TRY(tess_device_open(tess_runtime_mem(rt), plan->device, tess_runtime_rank(rt), &which.device));
    if (tess_device_get_properties(which.device)->host_memory)
        TESS_GOTO(TESS_FAIL(TESS_E_INVALID, "--device %s: its memory is the host's; leave --device out", plan->device),
                  device);
    TESS_GOTO(tess_device_stream(which.device, 1, NULL, &stream), device);
    TESS_GOTO(tess_runtime_use_device(rt, which.device, stream), stream);
    status = measure(rt, &which, stream, result);
    tess_runtime_forget_device(rt);
stream:
    tess_stream_destroy(&stream);
device:
    tess_device_close(&which.device);
    return status;
}

static tess_status one_round(comm_bench *b, const comm_case *which, comm_result *ours)
{
    device_plan plan = {.which = *which};
    const tess_bench_ranks ranks = {.n = which->ranks, .run = run, .plan = &plan};
    memcpy(plan.device, b->options->comm.device, sizeof(plan.device));
    TESS_TRY_CTX(tess_bench_ranks_run(&ranks, ours, sizeof(*ours)), "measuring %s on %d ranks", which->op->name,
                 which->ranks);
    for (int i = 0; i < which->n_sizes; i++) {
        double least_us =
            comm_op_traffic(which->op, which->dtype, which->bytes[i], which->ranks) / ours->memory_bytes_per_s * 1e6;
        b->samples[i][COMM_OTHERS + OF_COPY][b->round] = 100 * least_us / ours->window[i].median_us;
        b->samples[i][COMM_OTHERS + BY_HOST][b->round] = ours->private[i].median_us;
    }
    return TESS_OK;
}

static void figures(TESS_UNUSED const comm_bench *b, TESS_UNUSED const comm_case *which, TESS_UNUSED int i,
                    const double *m, double *values)
{
    memcpy(values, m + COMM_OTHERS, 2 * sizeof(values[0]));
}

static const comm_setting on_device = {">of copy[%], by host[us]", one_round, figures};

tess_status comm_device_run(tess_mem *mem, comm_bench *b, const int *ranks, int n_ranks)
{
    char title[128];
    b->setting = &on_device;
    for (int i = 0; i < n_ranks; i++) {
        b->ranks = ranks[i];
        snprintf(title, sizeof(title), "%d ranks with device %s", b->ranks, b->options->comm.device);
        TESS_TRY(comm_bench_table(b, mem, title));
    }
    return TESS_OK;
}
