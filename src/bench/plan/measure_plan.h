/* Runs a few steps of a configuration and compares them with the plan. */
#ifndef TESS_BENCH_PLAN_MEASURE_PLAN_H
#define TESS_BENCH_PLAN_MEASURE_PLAN_H

#include <jansson.h>

#include "plan/plan.h"

typedef struct tess_measured_step {
    double step_s;                    /* median */
    double cpu_s;                     /* median of the processor time of rank 0's first thread */
    double phase_s[TESS_PHASE_COUNT]; /* means over steps and ranks */
    double pool[TESS_POOL_COUNT];     /* peak bytes of rank 0 */
    double exchanged_bytes;           /* received by all ranks in a step */
} tess_measured_step;

/* Runs `n_steps` steps, and two before them, on ranks of this host, with artificial tokens. */
tess_status tess_measure_step(const tess_plan_request *request, int n_steps, tess_measured_step *step);

/* Returns rows {name, predicted, measured, error, unit} for the step, its phases and the pools of rank 0, as a new
 * reference. */
json_t *tess_measured_json(const tess_plan *plan, const tess_memory_of_rank *rank0, const tess_measured_step *step);

#endif
