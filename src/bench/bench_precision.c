/* `tessera bench precision` measures what narrower numbers save and what they cost. The same steps run in each
 * precision. Then the weights and gradients of the float32 run are cast to the formats of hardware, to measure what
 * is lost. */
#include <math.h>
#include <stdio.h>

#include "bench/bench.h"
#include "bench/samples.h"
#include "bench/step/step_run.h"
#include "device/fp8.h"

/* ---- The precisions ---- */
static const struct {
    const char *name;
    tess_precision param, state;
    tess_optimizer_kind optimizer;
    bool fp8, gathers_fp8;
} runs[] = {{"float32", TESS_PRECISION_F32, TESS_PRECISION_F32, TESS_ADAMW, false, false},
            {"bfloat16", TESS_PRECISION_BF16, TESS_PRECISION_F32, TESS_ADAMW, false, false},
            {"float16", TESS_PRECISION_F16, TESS_PRECISION_F32, TESS_ADAMW, false, false},
            {"bfloat16, fp8 products", TESS_PRECISION_BF16, TESS_PRECISION_F32, TESS_ADAMW, true, false},
            {"bfloat16, fp8 gathered", TESS_PRECISION_BF16, TESS_PRECISION_F32, TESS_ADAMW, true, true},
            {"bfloat16, bfloat16 state", TESS_PRECISION_BF16, TESS_PRECISION_BF16, TESS_ADAMW, false, false},
            {"bfloat16, 8-bit state", TESS_PRECISION_BF16, TESS_PRECISION_F32, TESS_ADAMW_8BIT, false, false}};
enum { N_RUNS = sizeof(runs) / sizeof(runs[0]) };

/* ---- Casts ---- */
enum { WHOLE_TENSOR = 0, CAST_BLOCK = 128, N_TENSORS = 2 };

typedef struct cast_format {
    const char *name;
    double bytes;
    float largest;
    int fp8; /* value of tess_fp8; -1: a 16-bit format */
    tess_dtype dtype;
    bool scaled;
    int64_t block; /* number of elements that share a scale, if there is one; WHOLE_TENSOR: all elements */
} cast_format;

static const cast_format formats[] = {
    {"bfloat16", 2, 0x1.fep127f, -1, TESS_BF16, false, 0},
    {"float16", 2, 65504, -1, TESS_F16, false, 0},
    {"fp8 E4M3", 1, TESS_E4M3_MAX, TESS_E4M3, TESS_U8, false, 0},
    {"fp8 E4M3, scale a tensor", 1, TESS_E4M3_MAX, TESS_E4M3, TESS_U8, true, WHOLE_TENSOR},
    {"fp8 E4M3, scale a block", 1 + 4.0 / CAST_BLOCK, TESS_E4M3_MAX, TESS_E4M3, TESS_U8, true, CAST_BLOCK},
    {"fp8 E5M2", 1, TESS_E5M2_MAX, TESS_E5M2, TESS_U8, false, 0},
    {"fp8 E5M2, scale a tensor", 1, TESS_E5M2_MAX, TESS_E5M2, TESS_U8, true, WHOLE_TENSOR},
    {"fp8 E5M2, scale a block", 1 + 4.0 / CAST_BLOCK, TESS_E5M2_MAX, TESS_E5M2, TESS_U8, true, CAST_BLOCK},
};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

typedef struct cast_losses {
    int64_t n, n_overflow, n_underflow; /* n_overflow: too large for the format; n_underflow: not 0, but cast to 0 */
    double error, square;               /* sums of squares: of the changes by the cast, and of the values */
} cast_losses;

static float cast(const cast_format *f, float x)
{
    if (f->fp8 >= 0)
        return tess_fp8_to_float(tess_float_to_fp8(x, (tess_fp8)f->fp8), (tess_fp8)f->fp8);
    return f->dtype == TESS_BF16 ? tess_bf16_to_float(tess_float_to_bf16(x)) : tess_f16_to_float(tess_float_to_f16(x));
}

static void cast_block(const cast_format *f, const float *x, int64_t n, cast_losses *losses)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    float scale = f->scaled && most > 0 ? most / f->largest : 1;
    for (int64_t i = 0; i < n; i++) {
        float y = cast(f, x[i] / scale) * scale;
        losses->n++;
        losses->n_underflow += x[i] != 0 && y == 0;
        losses->n_overflow += fabsf(x[i] / scale) > f->largest;
        if (!isfinite(y))
            continue;
        losses->error += ((double)x[i] - (double)y) * ((double)x[i] - (double)y);
        losses->square += (double)x[i] * (double)x[i];
    }
}

static void cast_all(const cast_format *f, const float *x, int64_t n, cast_losses *losses)
{
    int64_t block = f->block == WHOLE_TENSOR ? n : f->block;
    for (int64_t i = 0; i < n; i += block)
        cast_block(f, x + i, n - i < block ? n - i : block, losses);
}

/* ---- A run ---- */
typedef struct precision_result {
    step_result step;
    cast_losses losses[N_TENSORS][N_FORMATS]; /* losses of the weights and gradients of rank 0 */
} precision_result;

static void look(const tess_engine *e, void *self)
{
    precision_result *r = self;
    if (tess_fsdp_see_gradients(e->fsdp) != TESS_OK)
        return;
    for (int i = 0; i < tess_fsdp_shards(e->fsdp); i++) {
        tess_shard shard;
        if (tess_fsdp_shard(e->fsdp, i, &shard) != TESS_OK)
            return;
        const float *const tensors[N_TENSORS] = {shard.master, shard.grad};
        for (int k = 0; k < N_TENSORS; k++)
            for (int f = 0; f < N_FORMATS && tensors[k] != NULL; f++)
                cast_all(&formats[f], tensors[k], tess_shard_count(&shard), &r->losses[k][f]);
    }
}

static tess_status run_rank(tess_runtime *rt, const void *of, void *to)
{
    const step_plan *plan = of;
    precision_result *r = to;
    bool is_float32 = plan->config.training.mixed_precision_param == TESS_PRECISION_F32;
    return step_run(rt, plan, is_float32 ? look : NULL, r, &r->step);
}

static tess_status make_plan(tess_mem *mem, const tess_bench_options *options, int run, step_plan *plan)
{
    tess_bench_options o = *options;
    o.step.precision = (int)runs[run].param;
    snprintf(o.step.model, sizeof(o.step.model), "%s", options->precision.model);
    o.step.ranks = options->precision.ranks;
    o.step.batch = options->precision.batch;
    o.step.micro = options->precision.micro;
    o.step.seq = options->precision.seq;
    o.step.steps = options->precision.steps;
    TESS_TRY(step_plan_make(mem, &o, plan));
    plan->config.optimizer.name = (int)runs[run].optimizer;
    plan->config.optimizer.state_dtype = (int)runs[run].state;
    plan->config.training.fp8 = runs[run].fp8;
    plan->config.training.gather = runs[run].gathers_fp8 ? TESS_GATHER_FP8 : TESS_GATHER_VALUES;
    plan->config.training.loss_scale = runs[run].param == TESS_PRECISION_F16 ? 0 : 1;
    plan->config.training.loss_scale_init = 512;
    if (!options->common.quick)
        plan->n_warm_up = 10;
    plan->config.training.steps = plan->n_warm_up + plan->n_steps;
    return TESS_OK;
}

/* ---- The report ---- */
static tess_status report_run(const char *name, const step_plan *plan, const step_result *r, const step_result *first,
                              tess_bench_report *report)
{
    double median = tess_bench_median(r->step_s, plan->n_steps),
           other = tess_bench_median(first->step_s, plan->n_steps);
    const double values[] = {median * 1e3,
                             r->mean.phase_s[TESS_PHASE_OPTIMIZER] * 1e3,
                             1 / median,
                             other / median,
                             step_peak_bytes(r) / 0x1p20,
                             100 * (1 - step_peak_bytes(r) / step_peak_bytes(first)),
                             r->mean.gathered_bytes / 0x1p20,
                             r->last_loss,
                             fabs(r->last_loss - first->last_loss) / first->last_loss};
    return tess_bench_report_row(report, name, values);
}

static tess_status report_casts(const precision_result *r, tess_bench_report *report)
{
    static const char *const tensors[N_TENSORS] = {"weights", "gradients"};
    TESS_TRY(tess_bench_report_table(report, "casts of the float32 run's last step, rank 0; error: of the norm",
                                     "bytes, overflow[%], underflow[%], error[%]"));
    for (int k = 0; k < N_TENSORS; k++)
        for (int f = 0; f < N_FORMATS; f++) {
            const cast_losses *l = &r->losses[k][f];
            char name[96];
            double n = (double)l->n;
            snprintf(name, sizeof(name), "%s to %s", tensors[k], formats[f].name);
            TESS_TRY(
                tess_bench_report_row(report, name,
                                      (double[]){formats[f].bytes, 100 * (double)l->n_overflow / n,
                                                 100 * (double)l->n_underflow / n, 100 * sqrt(l->error / l->square)}));
        }
    return TESS_OK;
}

static tess_status begin_report(const tess_bench_options *options, const step_plan *plan, tess_bench_report *report)
{
    TESS_TRY(tess_bench_report_fact(report, "job", "%s, %d ranks, %lld rows of %lld tokens, %d + %d steps",
                                    options->precision.model, plan->ranks,
                                    (long long)plan->config.training.global_batch_size,
                                    (long long)plan->config.training.seq_len, plan->n_warm_up, plan->n_steps));
    return tess_bench_report_table(
        report,
        "a step: medians; update: the mean of its optimizer; speed, saved, off (of the last "
        "loss): beside float32",
        "<time[ms], <update[ms], >steps[1/s], speed[x], <memory[MiB], saved[%], <gathered[MiB], "
        "loss, off");
}

static tess_status measure(const tess_bench_options *options, int run, const step_plan *plan,
                           precision_result results[N_RUNS], tess_bench_report *report)
{
    TESS_TRY_CTX(step_measure(plan, run_rank, &results[run], sizeof(results[run])), "%s", runs[run].name);
    if (run == 0)
        TESS_TRY(begin_report(options, plan, report));
    return report_run(runs[run].name, plan, &results[run].step, &results[0].step, report);
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    precision_result results[N_RUNS] = {0};
    for (int i = 0; i < N_RUNS; i++) {
        TESS_AUTO(step_plan_free) step_plan plan = {0};
        TESS_TRY(make_plan(mem, options, i, &plan));
        TESS_TRY(measure(options, i, &plan, results, report));
    }
    return report_casts(&results[0], report);
}

const tess_bench tess_bench_precision = {"precision", "training steps in each precision, and what casts lose", run,
                                         NULL};
