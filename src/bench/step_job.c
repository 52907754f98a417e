#include "bench/step_job.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "launch/launcher.h"
#include "bench/measuring_ranks.h"
#include "tessera/comm.h"
#include "train/engine.h"

/* ---- Tokens ---- */

typedef struct token_source {
    tess_mem *mem;
    int64_t rows, seq_len, vocab; /* of a micro-batch */
    int32_t *ids, *pos, *targets, *cu_seqlens;
} token_source;

static tess_status next_tokens(void *self, int64_t index, tess_batch *batch)
{
    token_source *s = self;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t t = 0; t < s->seq_len; t++) {
            int64_t at = r * s->seq_len + t, row = index * s->rows + r;
            s->ids[at] = step_job_token(row, t, s->vocab);
            s->targets[at] = step_job_token(row, t + 1, s->vocab);
        }
    *batch = (tess_batch){.n_tokens = s->rows * s->seq_len,
                          .n_seqs = s->rows,
                          .ids = s->ids,
                          .pos = s->pos,
                          .targets = s->targets,
                          .cu_seqlens = s->cu_seqlens};
    return TESS_OK;
}

static void close_tokens(token_source *s)
{
    tess_mem_free(s->mem, s->ids);
    *s = (token_source){.mem = s->mem};
}

/* One block for the four arrays. */
static tess_status open_tokens(tess_mem *mem, const step_plan *plan, token_source *s)
{
    const tess_config *c = &plan->config;
    *s = (token_source){.mem = mem,
                        .rows = c->training.local_batch_size,
                        .seq_len = c->training.seq_len,
                        .vocab = plan->model.vocab_size};
    int64_t n = s->rows * s->seq_len;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)(3 * n + s->rows + 1), sizeof(int32_t), "tokens",
                                  (void **)&s->ids));
    s->pos = s->ids + n;
    s->targets = s->pos + n;
    s->cu_seqlens = s->targets + n;
    for (int64_t i = 0; i < n; i++)
        s->pos[i] = (int32_t)(i % s->seq_len);
    for (int64_t r = 0; r <= s->rows; r++)
        s->cu_seqlens[r] = (int32_t)(r * s->seq_len);
    return TESS_OK;
}

/* ---- Steps ---- */

static void add_times(tess_step_times *sum, const tess_step_times *times)
{
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        sum->phase_s[phase] += times->phase_s[phase];
    sum->total_s += times->total_s;
    sum->hidden_s += times->hidden_s;
    sum->gathered_bytes += times->gathered_bytes;
    sum->reduced_bytes += times->reduced_bytes;
}

/* One step; where the ranks end it together. */
static tess_status run_step(tess_engine *e, const tess_batch_source *source, int i, const step_plan *plan,
                            step_result *result)
{
    tess_engine_report report;
    TESS_TRY(tess_engine_step(e, source, &report));
    if (i == 0) {
        result->first_step_s = tess_os_now_s() - plan->begin_s;
        result->first_loss = report.loss;
        result->first_grad_norm = report.grad_norm;
    }
    result->last_loss = report.loss;
    result->last_grad_norm = report.grad_norm;
    result->n_tokens = report.n_tokens;
    if (i < plan->n_warm_up)
        return TESS_OK;
    result->step_s[i - plan->n_warm_up] = report.times.total_s;
    add_times(&result->mean, &report.times);
    return TESS_OK;
}

static tess_status sum_ns(tess_team *team, double *seconds)
{
    int64_t ns = (int64_t)(*seconds * 1e9);
    TESS_TRY(tess_all_reduce(team, &ns, &ns, 1, TESS_I64, TESS_SUM, NULL));
    *seconds = (double)ns * 1e-9;
    return TESS_OK;
}

/* Sums over ranks and steps become means of a step; bytes stay sums over the ranks. */
static tess_status average(tess_engine *e, int n_steps, tess_step_times *times)
{
    double n = n_steps, n_all = n * e->world;
    times->total_s = 0;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        TESS_TRY(sum_ns(e->team, &times->phase_s[phase]));
        times->phase_s[phase] /= n_all;
        times->total_s += times->phase_s[phase];
    }
    TESS_TRY(sum_ns(e->team, &times->hidden_s));
    times->hidden_s /= n_all;
    int64_t bytes[2] = {(int64_t)times->gathered_bytes, (int64_t)times->reduced_bytes};
    TESS_TRY(tess_all_reduce(e->team, bytes, bytes, 2, TESS_I64, TESS_SUM, NULL));
    times->gathered_bytes = (double)bytes[0] / n;
    times->reduced_bytes = (double)bytes[1] / n;
    return TESS_OK;
}

static tess_status run_steps(tess_engine *e, const step_plan *plan, step_result *result)
{
    token_source tokens;
    tess_batch_source source = {&tokens, next_tokens};
    TESS_TRY(open_tokens(e->mem, plan, &tokens));
    tess_status status = TESS_OK;
    for (int i = 0; i < plan->n_warm_up + plan->n_steps && status == TESS_OK; i++)
        status = run_step(e, &source, i, plan, result);
    close_tokens(&tokens);
    return status;
}

static tess_status measure(tess_runtime *rt, const void *of, void *to)
{
    const step_plan *plan = of;
    step_result *result = to;
    tess_engine *e;
    TESS_TRY(tess_engine_create(rt, &plan->config, &plan->model, NULL, &e));
    tess_status status = run_steps(e, plan, result);
    if (status == TESS_OK)
        status = average(e, plan->n_steps, &result->mean);
    tess_engine_peaks(e, result->rank0_bytes);
    if (status == TESS_OK)
        status = tess_all_reduce(e->team, result->rank0_bytes, result->peak_bytes, TESS_POOL_COUNT, TESS_I64, TESS_SUM,
                                 NULL);
    result->n_params = tess_model_count(e->model);
    result->flops_per_token = tess_model_flops_per_token(e->model, plan->config.training.seq_len);
    result->peak_flops = e->peak_flops;
    result->threads = tess_runtime_threads(rt);
    snprintf(result->kernels, sizeof(result->kernels), "%s", e->stream->kernels->name);
    tess_engine_destroy(&e);
    return status;
}

tess_status step_job_run(const step_plan *plan, step_result *result)
{
    const tess_bench_ranks ranks = {.n = plan->ranks,
                                    .options = {.n_threads = plan->threads, .kernels = plan->kernels},
                                    .run = measure,
                                    .plan = plan};
    return tess_bench_ranks_run(&ranks, result, sizeof(*result));
}
