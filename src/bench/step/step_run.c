#include "bench/step/step_run.h"

#include <stdio.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "bench/measuring_ranks.h"
#include "bench/step/step_models.h"
#include "bench/step/step_tokens.h"
#include "tessera/fsdp.h"
#include "plan/memory_need.h"

/* ---- Tokens ---- */

typedef struct token_source {
    int64_t rows, seq_len, vocab; /* sizes of a micro-batch */
    int64_t n_rows;               /* rows per step */
    int32_t *ids, *pos, *targets, *cu_seqlens;
    step_documents documents; /* memory NULL: all rows are full */
} token_source;

static tess_status next_documents(void *self, int64_t index, tess_batch *batch)
{
    token_source *s = self;
    int64_t first = index * s->rows % s->n_rows;
    int64_t n = step_documents_rows(&s->documents, first, s->rows, s->ids, s->pos, s->targets, s->cu_seqlens);
    *batch = (tess_batch){.n_tokens = s->rows * s->seq_len,
                          .n_seqs = n,
                          .ids = s->ids,
                          .pos = s->pos,
                          .targets = s->targets,
                          .cu_seqlens = s->cu_seqlens};
    return TESS_OK;
}

static tess_status next_tokens(void *self, int64_t index, tess_batch *batch)
{
    token_source *s = self;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t t = 0; t < s->seq_len; t++) {
            int64_t at = r * s->seq_len + t, row = index * s->rows + r;
            s->ids[at] = step_token(row, t, s->vocab);
            s->targets[at] = step_token(row, t + 1, s->vocab);
        }
    *batch = (tess_batch){.n_tokens = s->rows * s->seq_len,
                          .n_seqs = s->rows,
                          .ids = s->ids,
                          .pos = s->pos,
                          .targets = s->targets,
                          .cu_seqlens = s->cu_seqlens};
    return TESS_OK;
}

/* Allocates the four arrays in one block, `ids`. */
static tess_status open_tokens(tess_mem *mem, const step_plan *plan, token_source *s)
{
    const tess_config *c = &plan->config;
    *s = (token_source){
        .rows = c->training.local_batch_size, .seq_len = c->training.seq_len, .vocab = plan->model.vocab_size};
    s->n_rows = c->training.global_batch_size;
    int64_t n = s->rows * s->seq_len;
    TESS_TRY(TESS_NEW(mem, (size_t)(4 * n + 1), "tokens", &s->ids));
    s->pos = s->ids + n;
    s->targets = s->pos + n;
    s->cu_seqlens = s->targets + n;
    for (int64_t i = 0; i < n; i++)
        s->pos[i] = (int32_t)(i % s->seq_len);
    for (int64_t r = 0; r <= s->rows; r++)
        s->cu_seqlens[r] = (int32_t)(r * s->seq_len);
    return plan->shape.n > 0 ? step_documents_open(mem, &plan->shape, s->seq_len, s->vocab, &s->documents) : TESS_OK;
}

/* ---- Steps ---- */

static tess_status run_step(tess_engine *e, token_source *tokens, int i, const step_plan *plan, step_result *result)
{
    tess_engine_report report;
    tess_batch_source source = tess_engine_source(e, tokens, plan->shape.n > 0 ? next_documents : next_tokens);
    const double cpu_s = tess_os_thread_cpu_s();
    TESS_TRY(tess_engine_step(e, &source, &report));
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
    result->cpu_s[i - plan->n_warm_up] = tess_os_thread_cpu_s() - cpu_s;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        result->mean.phase_s[phase] += report.times.phase_s[phase];
    result->mean.hidden_s += report.times.hidden_s;
    result->mean.gathered_bytes += report.times.gathered_bytes;
    result->mean.reduced_bytes += report.times.reduced_bytes;
    result->mean.exchanged_bytes += report.times.exchanged_bytes;
    return TESS_OK;
}

/* Turns this rank's sums over steps into means per step over all ranks. Bytes are summed over the ranks. */
static tess_status average(tess_engine *e, int n_steps, tess_step_times *times)
{
    double n = n_steps, n_all = n * e->at.world;
    times->total_s = 0;
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        TESS_TRY(tess_bench_reduce_s(e->team, TESS_SUM, &times->phase_s[phase]));
        times->phase_s[phase] /= n_all;
        times->total_s += times->phase_s[phase];
    }
    TESS_TRY(tess_bench_reduce_s(e->team, TESS_SUM, &times->hidden_s));
    times->hidden_s /= n_all;
    int64_t bytes[] = {(int64_t)times->gathered_bytes, (int64_t)times->reduced_bytes, (int64_t)times->exchanged_bytes};
    TESS_TRY(tess_all_reduce(e->team, bytes, bytes, 3, TESS_I64, TESS_SUM, NULL));
    times->gathered_bytes = (double)bytes[0] / n;
    times->reduced_bytes = (double)bytes[1] / n;
    times->exchanged_bytes = (double)bytes[2] / n;
    return TESS_OK;
}

static tess_status run_steps(tess_engine *e, const step_plan *plan, step_result *result)
{
    token_source tokens;
    tess_status status = open_tokens(e->mem, plan, &tokens);
    for (int i = 0; i < plan->n_warm_up + plan->n_steps && status == TESS_OK; i++)
        status = run_step(e, &tokens, i, plan, result);
    step_documents_close(e->mem, &tokens.documents);
    tess_mem_free(e->mem, tokens.ids);
    return status;
}

tess_status step_run(tess_runtime *rt, const step_plan *plan, step_look look, void *self, step_result *result)
{
    TESS_AUTO(tess_engine_destroy) tess_engine *e = NULL;
    const tess_engine_options options = {.device_need = tess_memory_device_need};
    TESS_TRY(tess_engine_create(rt, &plan->config, &plan->model, &options, &e));
    TESS_TRY(run_steps(e, plan, result));
    TESS_TRY(average(e, plan->n_steps, &result->mean));
    if (look != NULL)
        look(e, self);
    tess_engine_peaks(e, result->rank0_bytes);
    TESS_TRY(
        tess_all_reduce(e->team, result->rank0_bytes, result->peak_bytes, TESS_POOL_COUNT, TESS_I64, TESS_SUM, NULL));
    result->n_params = tess_model_count(e->whole);
    result->flops_per_token = tess_model_flops_per_token(e->whole, plan->config.training.seq_len);
    result->peak_flops = e->compute.team_flops;
    result->threads = tess_runtime_threads(rt);
    snprintf(result->kernels, sizeof(result->kernels), "%s", tess_stream_kernels(e->stream)->name);
    if (e->compute.apart)
        snprintf(result->device, sizeof(result->device), "%s, kernels %s",
                 tess_device_get_properties(e->compute.device)->name, tess_stream_kernels(e->compute.stream)->name);
    return TESS_OK;
}

/* ---- The plan ---- */
/* Checks the plan. Refuses, with the names of this command's options, what the engine would refuse with those of a
 * configuration. */
static tess_status check_plan(const step_plan *plan)
{
    const tess_config *c = &plan->config;
    const long long rows = (long long)c->training.global_batch_size, micro = (long long)c->training.local_batch_size;
    const long long passes = (long long)c->training.passes, seq = (long long)c->training.seq_len;
    const long long tp = (long long)c->parallelism.tensor_parallel_degree,
                    pp = (long long)c->parallelism.pipeline_parallel_degree,
                    cp = (long long)c->parallelism.context_parallel_degree;
    const long long most = (long long)tess_model_config_max_length(&plan->model);
    TESS_CHECK(rows % micro == 0, TESS_E_INVALID, "--micro: %lld rows of a step are not a multiple of %lld", rows,
               micro);
    TESS_CHECK(passes <= micro, TESS_E_INVALID, "--passes: %lld, but a micro-batch has %lld row%s (--micro)", passes,
               micro, micro == 1 ? "" : "s");
    TESS_CHECK(passes == 1 || pp == 1, TESS_E_INVALID, "--passes: %lld, but with --pp a micro-batch has one", passes);
    TESS_CHECK(seq <= most, TESS_E_INVALID, "--seq: rows of %lld tokens, but the model allows 1 to %lld", seq, most);
    TESS_CHECK(plan->ranks % (tp * pp * cp) == 0, TESS_E_INVALID,
               "-n: %d ranks are not a multiple of --tp %lld x --pp %lld x --cp %lld", plan->ranks, tp, pp, cp);
    return TESS_OK;
}

tess_status step_plan_make(tess_mem *mem, const tess_bench_options *options, step_plan *plan)
{
    bool folder;
    tess_config *c = &plan->config;
    TESS_CHECK(options->common.repeat == 0, TESS_E_INVALID, "--repeat: a step's measurements are its --steps");
    TESS_TRY(tess_config_parse(mem, "", 0, "defaults", c));
    TESS_TRY(step_model_config(options->step.model, &plan->model, &folder));
    if (folder)
        snprintf(c->model.path, sizeof(c->model.path), "%s", options->step.model);
    plan->ranks = (int)options->step.ranks;
    plan->threads = (int)options->common.threads;
    plan->kernels = options->common.table[0] != '\0' ? options->common.table : NULL;
    plan->n_steps = options->common.quick ? 1 : (int)options->step.steps;
    plan->n_warm_up = options->common.quick ? 1 : 2;
    c->training.steps = plan->n_warm_up + plan->n_steps;
    c->training.global_batch_size = options->step.batch;
    c->training.local_batch_size = options->step.micro > 0   ? options->step.micro
                                   : options->step.batch < 4 ? options->step.batch
                                                             : 4;
    c->training.passes = options->step.passes;
    c->training.seq_len = options->step.seq;
    c->training.mixed_precision_param = options->step.precision;
    c->lr_scheduler.warmup_steps = 0;
    c->lr_scheduler.decay_type = TESS_SCHEDULE_CONSTANT; /* losses must not depend on --steps */
    c->activation_checkpoint.mode = options->step.recompute;
    c->parallelism.shard_strategy = options->step.strategy;
    c->job.device = options->step.device;
    c->parallelism.tensor_parallel_degree = options->step.tp;
    c->parallelism.pipeline_parallel_degree = options->step.pp;
    c->parallelism.context_parallel_degree = options->step.cp;
    c->parallelism.context_parallel_method = options->step.cp_method;
    c->parallelism.context_parallel_load_balancer = options->step.cp_order;
    c->training.context_leaves = options->step.leaves > 0 ? options->step.leaves
                                 : options->step.cp > 1   ? 2 * options->step.cp
                                                          : 1;
    TESS_TRY(check_plan(plan));
    return tess_config_check_step(c, plan->ranks);
}

void step_plan_free(step_plan *plan)
{
    tess_config_free(&plan->config);
}

static tess_status run_rank(tess_runtime *rt, const void *plan, void *result)
{
    return step_run(rt, plan, NULL, NULL, result);
}

tess_status step_measure(const step_plan *plan,
                         tess_status (*run)(tess_runtime *runtime, const void *plan, void *result), void *result,
                         size_t size)
{
    const tess_bench_ranks ranks = {.n = plan->ranks,
                                    .options = {.n_threads = plan->threads, .kernels = plan->kernels},
                                    .run = run != NULL ? run : run_rank,
                                    .plan = plan};
    return tess_bench_ranks_run(&ranks, result, size);
}

double step_peak_bytes(const step_result *result)
{
    double bytes = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        bytes += (double)result->peak_bytes[pool];
    return bytes;
}
