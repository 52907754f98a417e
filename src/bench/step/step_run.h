/* Runs training steps on artificial tokens, for benches that measure them. */
#ifndef TESS_BENCH_STEP_STEP_RUN_H
#define TESS_BENCH_STEP_STEP_RUN_H

#include "bench/bench_options.h"
#include "bench/step/step_documents.h"
#include "engine/engine.h"

enum { STEP_RUN_MOST = 1000 };

typedef struct step_plan {
    tess_config config; /* configuration of the whole job, checked */
    tess_model_config model;
    const char *kernels; /* name of the kernel table; NULL: the best */
    int ranks, threads;  /* threads per rank; 0: cores divided by ranks */
    int n_warm_up, n_steps;
    step_shape shape; /* shape of its documents; step_shape_rows() gives the rows per step */
    double begin_s;   /* time at which the command was started, on the monotonic clock */
} step_plan;

typedef struct step_result {
    char kernels[16], device[96]; /* kernels: tables of rank 0; device: the device and its kernels; "": the host */
    int threads;                  /* threads per rank */
    int64_t n_params, n_tokens;   /* n_tokens: target tokens per step */
    double flops_per_token, peak_flops; /* peak_flops: of all ranks together */
    double first_step_s;                /* time from the start of the command to the end of the first step */
    double first_loss, first_grad_norm, last_loss, last_grad_norm;
    double step_s[STEP_RUN_MOST]; /* (n_steps) */
    double cpu_s[STEP_RUN_MOST];  /* (n_steps) processor time of the first thread of rank 0 */
    tess_step_times mean;         /* mean over timed steps and ranks; bytes are those of all ranks together */
    /* peak of all ranks together, and bytes of rank 0 */
    int64_t peak_bytes[TESS_POOL_COUNT], rank0_bytes[TESS_POOL_COUNT];
} step_result;

/* Makes the plan that the options of `tessera bench step` describe. Free it with step_plan_free, also after a failure.
 * TESS_E_INVALID: the message names the option. */
tess_status step_plan_make(tess_mem *mem, const tess_bench_options *options, step_plan *plan);
void step_plan_free(step_plan *plan);

/* Runs the steps on the ranks of a job. `look` (may be NULL) is called with the engine after the last step.
 * Collective. */
typedef void (*step_look)(const tess_engine *engine, void *self);
tess_status step_run(tess_runtime *runtime, const step_plan *plan, step_look look, void *self, step_result *result);

/* Starts the plan's ranks. Each calls `run`, which gets the plan; NULL: step_run. Writes `size` bytes of the result of
 * rank 0. */
tess_status step_measure(const step_plan *plan,
                         tess_status (*run)(tess_runtime *runtime, const void *plan, void *result), void *result,
                         size_t size);
/* Returns the sum over all pools of the peaks of all ranks together. */
double step_peak_bytes(const step_result *result);

#endif
