/* `tessera bench step`: a training step of a named model, by the engine of `tessera train` on made-up tokens. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/objects.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "bench/bench.h"
#include "bench/measuring_ranks.h"
#include "bench/samples.h"
#include "bench/step_models.h"
#include "bench/step_tokens.h"
#include "parallel/fsdp/fsdp_engine.h"
#include "train/engine.h"

enum { MAX_STEPS = 1000 };

typedef struct step_plan {
    tess_config config; /* of the whole job, checked */
    tess_model_config model;
    const char *kernels; /* NULL: the best */
    int ranks, threads;  /* threads of a rank; 0: cores divided by ranks */
    int n_warm_up, n_steps;
    double begin_s; /* when the command was started, on the monotonic clock */
} step_plan;

typedef struct step_result {
    char kernels[16];
    int threads;                        /* of a rank */
    int64_t n_params, n_tokens;         /* target tokens of a step */
    double flops_per_token, peak_flops; /* peak of all ranks together */
    double first_step_s;                /* from the start of the command to the end of the first step */
    double first_loss, first_grad_norm, last_loss, last_grad_norm;
    double step_s[MAX_STEPS]; /* (n_steps) */
    tess_step_times mean;     /* over timed steps and ranks; bytes are those of all ranks together */
    int64_t peak_bytes[TESS_POOL_COUNT], rank0_bytes[TESS_POOL_COUNT]; /* of all ranks together; of rank 0 */
} step_result;

/* ---- Tokens ---- */

typedef struct token_source {
    int64_t rows, seq_len, vocab; /* of a micro-batch */
    int32_t *ids, *pos, *targets, *cu_seqlens;
} token_source;

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

/* One block, `ids`, holds the four arrays. */
static tess_status open_tokens(tess_mem *mem, const step_plan *plan, token_source *s)
{
    const tess_config *c = &plan->config;
    *s = (token_source){
        .rows = c->training.local_batch_size, .seq_len = c->training.seq_len, .vocab = plan->model.vocab_size};
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

static tess_status run_step(tess_engine *e, token_source *tokens, int i, const step_plan *plan, step_result *result)
{
    tess_engine_report report;
    tess_batch_source source = tess_engine_source(e, tokens, next_tokens);
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
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        result->mean.phase_s[phase] += report.times.phase_s[phase];
    result->mean.hidden_s += report.times.hidden_s;
    result->mean.gathered_bytes += report.times.gathered_bytes;
    result->mean.reduced_bytes += report.times.reduced_bytes;
    result->mean.exchanged_bytes += report.times.exchanged_bytes;
    return TESS_OK;
}

/* Turns this rank's sums over steps into means of a step over all ranks; bytes are sums over the ranks. */
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
    TESS_TRY(open_tokens(e->mem, plan, &tokens));
    tess_status status = TESS_OK;
    for (int i = 0; i < plan->n_warm_up + plan->n_steps && status == TESS_OK; i++)
        status = run_step(e, &tokens, i, plan, result);
    tess_mem_free(e->mem, tokens.ids);
    return status;
}

static tess_status run_rank(tess_runtime *rt, const void *of, void *to)
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
    result->n_params = tess_model_count(e->whole);
    result->flops_per_token = tess_model_flops_per_token(e->whole, plan->config.training.seq_len);
    result->peak_flops = e->peak_flops;
    result->threads = tess_runtime_threads(rt);
    snprintf(result->kernels, sizeof(result->kernels), "%s", tess_stream_kernels(e->stream)->name);
    tess_engine_destroy(&e);
    return status;
}

/* ---- The command ---- */

static tess_status make_plan(tess_mem *mem, const tess_bench_options *options, step_plan *plan)
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
    c->training.local_batch_size = options->step.micro;
    c->training.passes = options->step.passes;
    c->training.seq_len = options->step.seq;
    c->training.mixed_precision_param = options->step.precision;
    c->lr_scheduler.warmup_steps = 0;
    c->lr_scheduler.decay_type = TESS_SCHEDULE_CONSTANT; /* so that losses do not depend on --steps */
    c->activation_checkpoint.mode = options->step.recompute;
    c->parallelism.shard_strategy = options->step.strategy;
    c->parallelism.tensor_parallel_degree = options->step.tp;
    c->parallelism.pipeline_parallel_degree = options->step.pp;
    return tess_config_check_step(c, plan->ranks);
}

/* ---- The report ---- */

static tess_status facts(const tess_bench_options *options, const step_plan *plan, const step_result *r,
                         tess_bench_report *report)
{
    char params[32];
    const tess_config *c = &plan->config;
    TESS_TRY(tess_bench_report_fact(report, "model", "%s, %s parameters", options->step.model,
                                    tess_format_count((double)r->n_params, params, sizeof(params))));
    TESS_TRY(tess_bench_report_fact(report, "job", "%d rank%s x %d thread%s, sharding %s, %s, kernels %s, recompute %s",
                                    plan->ranks, plan->ranks > 1 ? "s" : "", r->threads, r->threads > 1 ? "s" : "",
                                    tess_strategy_name((tess_strategy)c->parallelism.shard_strategy),
                                    c->training.mixed_precision_param == TESS_PRECISION_BF16 ? "bf16" : "fp32",
                                    r->kernels,
                                    c->activation_checkpoint.mode == TESS_RECOMPUTE_FULL ? "full" : "none"));
    TESS_TRY(tess_bench_report_fact(
        report, "batch", "%lld rows of %lld tokens a step, in micro-batches of %lld, in %lld pass%s each",
        (long long)c->training.global_batch_size, (long long)c->training.seq_len,
        (long long)c->training.local_batch_size, (long long)c->training.passes, c->training.passes == 1 ? "" : "es"));
    TESS_TRY(
        tess_bench_report_fact(report, "peak", "%.3f TFLOP/s of all ranks, registers only", r->peak_flops * 1e-12));
    TESS_TRY(
        tess_bench_report_fact(report, "step 1", "loss %.17g, gradient norm %.17g", r->first_loss, r->first_grad_norm));
    char last[32];
    snprintf(last, sizeof(last), "step %d", plan->n_warm_up + plan->n_steps);
    return tess_bench_report_fact(report, last, "loss %.17g, gradient norm %.17g", r->last_loss, r->last_grad_norm);
}

/* "gpt2-124m 8x1024/4 bf16 2x1 full": runs are compared by it. Passes and degrees are in it where there are several. */
static void name_row(const tess_bench_options *options, const step_plan *plan, const step_result *r, char *name,
                     size_t size)
{
    char several[96] = "";
    const tess_config *c = &plan->config;
    const struct {
        const char *what;
        int64_t n;
    } parts[] = {{"passes", c->training.passes},
                 {"tp", c->parallelism.tensor_parallel_degree},
                 {"pp", c->parallelism.pipeline_parallel_degree}};
    for (size_t i = 0, at = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].n > 1)
            at = tess_text_add(several, sizeof(several), at, " %lld %s", (long long)parts[i].n, parts[i].what);
    snprintf(name, size, "%s %lldx%lld/%lld %s %dx%d %s%s%s", tess_object_file_name(options->step.model),
             (long long)c->training.global_batch_size, (long long)c->training.seq_len,
             (long long)c->training.local_batch_size,
             c->training.mixed_precision_param == TESS_PRECISION_BF16 ? "bf16" : "fp32", plan->ranks, r->threads,
             tess_strategy_name((tess_strategy)c->parallelism.shard_strategy),
             c->activation_checkpoint.mode == TESS_RECOMPUTE_FULL ? " recompute" : "", several);
}

static tess_status speed(const tess_bench_options *options, const step_plan *plan, const step_result *r,
                         tess_bench_report *report)
{
    static const tess_bench_column columns[] = {
        {"time", "ms", TESS_BENCH_LOWER},       {"tokens", "1/s", TESS_BENCH_HIGHER},
        {"rate", "TFLOP/s", TESS_BENCH_HIGHER}, {"MFU", "%", TESS_BENCH_HIGHER},
        {"best", "ms", TESS_BENCH_LOWER},       {"first", "s", TESS_BENCH_LOWER},
        {"memory", "MiB", TESS_BENCH_LOWER},
    };
    char name[256];
    double bytes = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        bytes += (double)r->peak_bytes[pool];
    double median = tess_bench_median(r->step_s, plan->n_steps), rate = (double)r->n_tokens / median;
    name_row(options, plan, r, name, sizeof(name));
    TESS_TRY(tess_bench_report_table(report, "step: medians; first: exec to its end", columns, 7));
    const double values[] = {median * 1e3,
                             rate,
                             rate * r->flops_per_token * 1e-12,
                             100 * rate * r->flops_per_token / r->peak_flops,
                             tess_bench_min(r->step_s, plan->n_steps) * 1e3,
                             r->first_step_s,
                             bytes / 0x1p20};
    return tess_bench_report_row(report, name, values);
}

static tess_status phases(const step_result *r, tess_bench_report *report)
{
    static const tess_bench_column columns[] = {{"time", "ms", TESS_BENCH_NEITHER},
                                                {"share", "%", TESS_BENCH_NEITHER},
                                                {"bytes", "GB", TESS_BENCH_NEITHER},
                                                {"rate", "GB/s", TESS_BENCH_NEITHER}};
    const tess_step_times *t = &r->mean;
    TESS_TRY(tess_bench_report_table(report, "phases: means; bytes of all ranks", columns, 4));
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        double bytes = phase == TESS_PHASE_GATHER   ? t->gathered_bytes
                       : phase == TESS_PHASE_REDUCE ? t->reduced_bytes
                       : phase == TESS_PHASE_WAIT   ? t->exchanged_bytes
                                                    : 0;
        double seconds = t->phase_s[phase], gb = bytes > 0 ? bytes * 1e-9 : NAN;
        TESS_TRY(tess_bench_report_row(
            report, tess_phase_name((tess_phase)phase),
            (double[]){seconds * 1e3, 100 * seconds / t->total_s, gb, seconds > 0 ? gb / seconds : NAN}));
    }
    return tess_bench_report_row(report, "step", (double[]){t->total_s * 1e3, 100, NAN, NAN});
}

/* The communication during which ranks computed nothing, and the waits that were hidden. */
static tess_status overlap(const step_result *r, tess_bench_report *report)
{
    static const tess_bench_column columns[] = {{"time", "ms", TESS_BENCH_NEITHER}, {"share", "%", TESS_BENCH_NEITHER}};
    const tess_step_times *t = &r->mean;
    double moving = t->phase_s[TESS_PHASE_GATHER] + t->phase_s[TESS_PHASE_REDUCE];
    double waiting = t->phase_s[TESS_PHASE_WAIT], hidden = t->hidden_s > 0 ? t->hidden_s : 0;
    double all = moving + waiting + hidden;
    const struct {
        const char *name;
        double s;
    } rows[] = {{"exposed: moving data", moving},
                {"exposed: waiting for peers", waiting},
                {"hidden: waits that lockstep would have had", hidden}};
    TESS_TRY(tess_bench_report_table(report, "communication", columns, 2));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        TESS_TRY(tess_bench_report_row(report, rows[i].name,
                                       (double[]){rows[i].s * 1e3, all > 0 ? 100 * rows[i].s / all : NAN}));
    return TESS_OK;
}

static tess_status memory(const step_result *r, tess_bench_report *report)
{
    static const tess_bench_column columns[] = {{"all ranks", "MiB", TESS_BENCH_NEITHER},
                                                {"rank 0", "MiB", TESS_BENCH_NEITHER}};
    TESS_TRY(tess_bench_report_table(report, "memory at the peak", columns, 2));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        char name[64];
        snprintf(name, sizeof(name), "memory of %s", tess_pool_name((tess_pool)pool));
        if (r->peak_bytes[pool] > 0)
            TESS_TRY(tess_bench_report_row(
                report, name, (double[]){(double)r->peak_bytes[pool] / 0x1p20, (double)r->rank0_bytes[pool] / 0x1p20}));
    }
    return TESS_OK;
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    static step_plan plan;
    static step_result result;
    plan.begin_s = tess_os_now_s() - tess_os_process_age_s();
    TESS_TRY(make_plan(mem, options, &plan));
    const tess_bench_ranks ranks = {.n = plan.ranks,
                                    .options = {.n_threads = plan.threads, .kernels = plan.kernels},
                                    .run = run_rank,
                                    .plan = &plan};
    TESS_TRY(tess_bench_ranks_run(&ranks, &result, sizeof(result)));
    TESS_TRY(facts(options, &plan, &result, report));
    TESS_TRY(speed(options, &plan, &result, report));
    TESS_TRY(phases(&result, report));
    TESS_TRY(overlap(&result, report));
    return memory(&result, report);
}

const tess_bench tess_bench_step = {"step", "a training step of a named model: speed, phases, memory", run, NULL};
