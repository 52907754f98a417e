#include "bench/plan/measure_plan.h"

#include <string.h>

#include "base/mem/scoped.h"
#include "bench/samples.h"
#include "bench/step/step_run.h"

tess_status tess_measure_step(const tess_plan_request *q, int n_steps, tess_measured_step *step)
{
    enum { WARM_UP = 2 };
    TESS_AUTO(step_plan_free)
    step_plan plan = {.ranks = q->n_ranks,
                      .model = *q->model,
                      .threads = (int)q->config->training.threads,
                      .n_warm_up = WARM_UP,
                      .n_steps = n_steps};
    step_result result = {.threads = 0};
    TESS_TRY(tess_config_copy(q->config, &plan.config));
    plan.config.training.steps = WARM_UP + n_steps;
    plan.config.model.path[0] = '\0'; /* random weights take the same time */
    TESS_TRY(step_measure(&plan, NULL, &result, sizeof(result)));
    *step = (tess_measured_step){.step_s = tess_bench_median(result.step_s, n_steps),
                                 .cpu_s = tess_bench_median(result.cpu_s, n_steps),
                                 .exchanged_bytes = result.mean.exchanged_bytes};
    memcpy(step->phase_s, result.mean.phase_s, sizeof(step->phase_s));
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        step->pool[pool] = (double)result.rank0_bytes[pool];
    return TESS_OK;
}

static void add_row(json_t *rows, const char *name, const char *unit, double predicted, double measured)
{
    json_array_append_new(rows,
                          json_pack("{s:s, s:f, s:f, s:f, s:s}", "name", name, "predicted", predicted, "measured",
                                    measured, "error", measured > 0 ? predicted / measured - 1 : 0, "unit", unit));
}

json_t *tess_measured_json(const tess_plan *plan, const tess_memory_of_rank *rank0, const tess_measured_step *step)
{
    json_t *rows = json_array();
    add_row(rows, "step", "ms", plan->time.step_s * 1e3, step->step_s * 1e3);
    add_row(rows, "processor", "ms", (plan->time.step_s - plan->time.bubble_s) * 1e3, step->cpu_s * 1e3);
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
        add_row(rows, tess_phase_name((tess_phase)phase), "ms", plan->time.phase_s[phase] * 1e3,
                step->phase_s[phase] * 1e3);
    for (int pool = 0; pool < TESS_POOL_MISC; pool++)
        if (rank0->pool[pool] > 0 || step->pool[pool] > 0)
            add_row(rows, tess_pool_name((tess_pool)pool), "bytes", rank0->pool[pool], step->pool[pool]);
    return rows;
}
