#include "bench/comm_job.h"

#include <math.h>
#include <string.h>

#include "base/os/os.h"
#include "bench/memory.h"
#include "launch/launcher.h"

enum { MEMORY_BYTES = 32 << 20, MEMORY_TURNS = 3 };

/* What a rank finds in the memory that it shares with the command. */
typedef struct job {
    const comm_question *question;
    comm_answer *answer;
} job;

static tess_status slowest(tess_team *team, double mine_s, double *slowest_s)
{
    int64_t ns = (int64_t)(mine_s * 1e9);
    TESS_TRY(tess_all_reduce(team, &ns, &ns, 1, TESS_I64, TESS_MAX, NULL));
    *slowest_s = (double)ns * 1e-9;
    return TESS_OK;
}

static tess_status sample(const comm_op *op, const comm_call *call, double *slowest_s)
{
    int n = comm_plan_operations(call->bytes);
    TESS_TRY(tess_barrier(call->team, NULL));
    double begin_s = tess_os_now_s();
    for (int i = 0; i < n; i++)
        TESS_TRY(op->call(call));
    return slowest(call->team, tess_os_now_s() - begin_s, slowest_s);
}

static tess_status measure(const comm_op *op, const comm_call *call, comm_time *time)
{
    double samples[COMM_PLAN_SAMPLES], spent_s = 0, took_s;
    int n = 0;
    TESS_TRY(sample(op, call, &took_s)); /* warms up */
    while (comm_plan_goes_on(n, spent_s)) {
        TESS_TRY(sample(op, call, &took_s));
        samples[n++] = took_s / comm_plan_operations(call->bytes) * 1e6;
        spent_s += took_s;
    }
    double median = comm_plan_median(samples, n);
    *time = (comm_time){.median_us = median, .min_us = samples[0]};
    return TESS_OK;
}

static tess_status take(const comm_question *q, tess_team *team, bool window, size_t bytes, comm_call *call)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(team));
    *call = (comm_call){.team = team, .dtype = q->dtype};
    if (window)
        TESS_TRY(tess_window_alloc(team, TESS_POOL_COMM, bytes, "in", &call->in));
    else
        TESS_TRY(tess_mem_alloc(mem, TESS_POOL_COMM, bytes, "in", &call->in));
    if (window && q->op->shares)
        TESS_TRY(tess_shared_alloc(team, TESS_POOL_COMM, bytes, "out", &call->out));
    else if (window)
        TESS_TRY(tess_window_alloc(team, TESS_POOL_COMM, bytes, "out", &call->out));
    else
        TESS_TRY(tess_mem_alloc(mem, TESS_POOL_COMM, bytes, "out", &call->out));
    memset(call->in, 0, bytes);
    if (!q->op->shares || tess_team_rank(team) == 0)
        memset(call->out, 0, bytes);
    return tess_barrier(team, NULL);
}

static void give(const comm_question *q, bool window, comm_call *call)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(call->team));
    if (!window) {
        tess_mem_free(mem, call->in);
        tess_mem_free(mem, call->out);
        return;
    }
    tess_window_free(call->team, call->in);
    if (q->op->shares)
        tess_shared_free(call->team, call->out);
    else
        tess_window_free(call->team, call->out);
}

tess_status comm_job_measure(const comm_question *q, tess_team *team, bool window, comm_time *times)
{
    size_t most = 4096;
    comm_call call;
    for (int i = 0; i < q->n_sizes; i++)
        most = q->bytes[i] > most ? q->bytes[i] : most;
    TESS_TRY(take(q, team, window, comm_op_buffer_bytes(most), &call));
    for (int i = 0; i < q->n_sizes; i++) {
        comm_time time;
        call.bytes = q->bytes[i];
        TESS_TRY(measure(q->op, &call, &time));
        if (tess_team_rank(team) == 0)
            times[i] = time;
    }
    give(q, window, &call);
    return TESS_OK;
}

/* All ranks at once, as a collective has it. */
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

static tess_status run(const job *j, tess_runtime *rt)
{
    tess_team *team = tess_runtime_team(rt);
    if (j->question->op->sized)
        TESS_TRY(measure_memory(team, &j->answer->memory_bytes_per_s));
    TESS_TRY(comm_job_measure(j->question, team, true, j->answer->window));
    return j->question->op->sized ? comm_job_measure(j->question, team, false, j->answer->private) : TESS_OK;
}

static int rank_main(void *context)
{
    const job *j = context;
    tess_runtime *rt;
    tess_status status = tess_runtime_create(NULL, &rt);
    if (status != TESS_OK)
        return 1;
    if (j->question->ranks <= tess_os_cores())
        tess_os_bind(tess_runtime_rank(rt)); /* as mpirun does; else a scheduler may keep two ranks on one core */
    status = run(j, rt);
    if (status != TESS_OK)
        tess_runtime_report(rt, tess_error_message());
    tess_runtime_destroy(&rt);
    return status == TESS_OK ? 0 : 1;
}

tess_status comm_job_ours(const comm_question *question, comm_answer *answer)
{
    void *shared;
    TESS_TRY(tess_os_share("bench", sizeof(comm_answer), &shared));
    job j = {question, shared};
    tess_launch_result result;
    tess_status status = tess_launch_function(question->ranks, rank_main, &j, 5, 0, &result);
    if (status == TESS_OK && result.exit_code != 0)
        status = TESS_FAIL(TESS_E_INTERNAL, "measuring %s on %d ranks: %s", question->op->name, question->ranks,
                           result.report);
    *answer = *(comm_answer *)shared;
    tess_os_unmap_shared(shared, sizeof(comm_answer));
    return status;
}
