/* `tessera bench step` measures a training step of a named model, with the engine of `tessera train` on artificial
 * tokens. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/objects.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "bench/bench.h"
#include "bench/samples.h"
#include "bench/step/step_run.h"

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
    if (r->device[0] != '\0')
        TESS_TRY(tess_bench_report_fact(report, "device", "%s", r->device));
    TESS_TRY(tess_bench_report_fact(report, "peak", "%.3f TFLOP/s of all ranks, %s", r->peak_flops * 1e-12,
                                    strncmp(r->device, "cuda", 4) == 0 ? "as stated" : "registers only"));
    TESS_TRY(
        tess_bench_report_fact(report, "step 1", "loss %.17g, gradient norm %.17g", r->first_loss, r->first_grad_norm));
    char last[32];
    snprintf(last, sizeof(last), "step %d", plan->n_warm_up + plan->n_steps);
    return tess_bench_report_fact(report, last, "loss %.17g, gradient norm %.17g", r->last_loss, r->last_grad_norm);
}

/* Names a row, by which runs are compared: "gpt2-124m 8x1024/4 bf16 2x1 full". Passes and degrees are included if
 * there are several. */
static void name_row(const tess_bench_options *options, const step_plan *plan, const step_result *r, char *name,
                     size_t size)
{
    char several[96] = "", device[64];
    const tess_config *c = &plan->config;
    snprintf(device, sizeof(device), "%s%.*s", r->device[0] != '\0' ? " " : "", (int)strcspn(r->device, ":"),
             r->device);
    int degrees[TESS_AXES];
    size_t at = 0;
    tess_axes_degrees(&c->parallelism, degrees);
    if (c->training.passes > 1)
        at = tess_text_add(several, sizeof(several), at, " %lld passes", (long long)c->training.passes);
    for (int axis = TESS_AXES - 1; axis >= 0; axis--)
        if (tess_axis_kind_of(axis) == TESS_AXIS_OF_MODEL && degrees[axis] > 1)
            at = tess_text_add(several, sizeof(several), at, " %d %s", degrees[axis], tess_axis_name(axis));
    if (degrees[TESS_AXIS_CP] > 1)
        tess_text_add(several, sizeof(several), at, " %s%s",
                      tess_context_method_name(c->parallelism.context_parallel_method),
                      c->parallelism.context_parallel_load_balancer == TESS_BALANCER_ZIGZAG ? "" : " contiguous");
    snprintf(name, size, "%s %lldx%lld/%lld %s %dx%d %s%s%s%s", tess_object_file_name(options->step.model),
             (long long)c->training.global_batch_size, (long long)c->training.seq_len,
             (long long)c->training.local_batch_size,
             c->training.mixed_precision_param == TESS_PRECISION_BF16 ? "bf16" : "fp32", plan->ranks, r->threads,
             tess_strategy_name((tess_strategy)c->parallelism.shard_strategy),
             c->activation_checkpoint.mode == TESS_RECOMPUTE_FULL ? " recompute" : "", several, device);
}

static tess_status speed(const tess_bench_options *options, const step_plan *plan, const step_result *r,
                         tess_bench_report *report)
{
    char name[256];
    double bytes = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        bytes += (double)r->peak_bytes[pool];
    double median = tess_bench_median(r->step_s, plan->n_steps), rate = (double)r->n_tokens / median;
    name_row(options, plan, r, name, sizeof(name));
    TESS_TRY(tess_bench_report_table(
        report, "step: medians; cpu: processor time of a thread; first: exec to its end",
        "<time[ms], >tokens[1/s], >rate[TFLOP/s], >MFU[%], <best[ms], <cpu[ms], <first[s], <memory[MiB]"));
    const double values[] = {median * 1e3,
                             rate,
                             rate * r->flops_per_token * 1e-12,
                             100 * rate * r->flops_per_token / r->peak_flops,
                             tess_bench_min(r->step_s, plan->n_steps) * 1e3,
                             tess_bench_median(r->cpu_s, plan->n_steps) * 1e3,
                             r->first_step_s,
                             bytes / 0x1p20};
    return tess_bench_report_row(report, name, values);
}

static tess_status phases(const step_result *r, tess_bench_report *report)
{
    const tess_step_times *t = &r->mean;
    TESS_TRY(tess_bench_report_table(report, "phases: means; bytes of all ranks",
                                     "time[ms], share[%], bytes[GB], rate[GB/s]"));
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

/* Adds the communication during which ranks computed nothing, and the waits that were hidden. */
static tess_status overlap(const step_result *r, tess_bench_report *report)
{
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
    TESS_TRY(tess_bench_report_table(report, "communication", "time[ms], share[%]"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        TESS_TRY(tess_bench_report_row(report, rows[i].name,
                                       (double[]){rows[i].s * 1e3, all > 0 ? 100 * rows[i].s / all : NAN}));
    return TESS_OK;
}

static tess_status memory(const step_result *r, tess_bench_report *report)
{
    TESS_TRY(tess_bench_report_table(report, "memory at the peak", "all ranks[MiB], rank 0[MiB]"));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        char name[64];
        snprintf(name, sizeof(name), "memory of %s", tess_pool_name((tess_pool)pool));
        if (r->peak_bytes[pool] > 0)
            TESS_TRY(tess_bench_report_row(
                report, name, (double[]){(double)r->peak_bytes[pool] / 0x1p20, (double)r->rank0_bytes[pool] / 0x1p20}));
    }
    return TESS_OK;
}

static tess_status measure(const tess_bench_options *options, const step_plan *plan, tess_bench_report *report)
{
    step_result result = {0};
    TESS_TRY(step_measure(plan, NULL, &result, sizeof(result)));
    TESS_TRY(facts(options, plan, &result, report));
    TESS_TRY(speed(options, plan, &result, report));
    TESS_TRY(phases(&result, report));
    TESS_TRY(overlap(&result, report));
    return memory(&result, report);
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report)
{
    TESS_AUTO(step_plan_free) step_plan plan = {.begin_s = tess_os_now_s() - tess_os_age_of_process_s((int)getpid())};
    TESS_TRY(step_plan_make(mem, options, &plan));
    return measure(options, &plan, report);
}

const tess_bench tess_bench_step = {"step", "a training step of a named model: speed, phases, memory", run, NULL};
