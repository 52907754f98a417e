/* One training job of measuring: ranks that are started, run steps of `tessera train`'s engine on made-up tokens, and
 * end. */
#ifndef TESS_BENCH_STEP_JOB_H
#define TESS_BENCH_STEP_JOB_H

#include "nn/config.h"
#include "train/config.h"
#include "train/step_times.h"

enum { STEP_JOB_MAX_STEPS = 1000 };

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
    double step_s[STEP_JOB_MAX_STEPS]; /* (n_steps) */
    tess_step_times mean;              /* of all timed steps and ranks; bytes are those of all ranks together */
    int64_t peak_bytes[TESS_POOL_COUNT], rank0_bytes[TESS_POOL_COUNT]; /* of all ranks together; of rank 0 */
} step_result;

/* Starts `ranks` processes as `tessera train -n` does. */
tess_status step_job_run(const step_plan *plan, step_result *result);

/* Token `t` (0 .. seq_len) of the run's row number `row`, below `vocab`: what any other program can compute, too.
 * Targets are the tokens one further on, so a row has seq_len + 1. */
static inline int32_t step_job_token(int64_t row, int64_t t, int64_t vocab)
{
    uint32_t hash = (uint32_t)(row * 1000003 + t) * 2654435761u;
    return (int32_t)(((uint64_t)(hash ^ hash >> 16) * (uint64_t)vocab) >> 32);
}

#endif
