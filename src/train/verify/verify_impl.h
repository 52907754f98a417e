/* One of the runs that are compared: what its ranks are told, and the memory in which they leave what came of it. */
#ifndef TESS_TRAIN_VERIFY_VERIFY_IMPL_H
#define TESS_TRAIN_VERIFY_VERIFY_IMPL_H

#include <stdatomic.h>

#include "job/job_memory.h"
#include "train/verify/verify.h"

typedef struct run_tensor {
    char name[TESS_VERIFY_NAME];
    int64_t rows, row;
    int64_t offset; /* of its first element, among those of all tensors */
} run_tensor;

/* Of one tensor after one step: sums over rows of the hash of a row and its number, so that it does not matter who adds
 * which. */
typedef struct run_digest {
    _Atomic uint64_t weights, grads;           /* every row once: where it is primary */
    _Atomic uint64_t held_weights, held_grads; /* every row as often as it is held */
} run_digest;

typedef struct run_shard {
    int64_t begin, rows, primary_begin, primary_rows;
    uint64_t weights; /* hash of the rows that it holds, after the last step */
} run_shard;

typedef struct run_header {
    int32_t status; /* of rank 0 */
    char message[1024];
    char kernels[32];
    double loss[TESS_VERIFY_MAX_STEPS], grad_norm[TESS_VERIFY_MAX_STEPS];
    int64_t peak_bytes[JOB_MAX_RANKS][TESS_POOL_COUNT];
    tess_verify_delta deltas[]; /* (ranks, n_tensors, 2): grads, weights */
} run_header;

typedef enum run_values { RUN_NO_VALUES, RUN_WRITES_VALUES, RUN_COMPARES_VALUES } run_values;

/* Made by the parent before its ranks are forked, so that all of them have the pointers. */
typedef struct verify_run {
    tess_config config; /* checked for `ranks` */
    int ranks, n_tensors;
    int64_t steps;
    const char *kernels; /* NULL: the CPU's best */
    bool with_faults;    /* config.fault is meant for this run */
    run_values values;   /* of the last step: */
    int values_fd;       /* gradients of all tensors, then weights of all tensors, by run_tensor.offset */

    void *shared; /* all that follows lies in it */
    size_t shared_bytes;
    run_header *header;
    run_tensor *tensors; /* (n_tensors) */
    run_digest *digests; /* (steps, n_tensors) */
    run_shard *shards;   /* (ranks, n_tensors) */
} verify_run;

/* Of a tensor after `step`, which counts from 1. */
static inline run_digest *verify_digest_of(const verify_run *run, int64_t step, int tensor)
{
    return &run->digests[(step - 1) * run->n_tensors + tensor];
}

/* Shared memory for what the ranks find. Close with verify_run_close. */
tess_status verify_run_open(verify_run *run);
void verify_run_close(verify_run *run);

/* Runs the steps. The message of a failure is the root cause's. */
tess_status verify_run_steps(verify_run *run);

/* verify_rank.c: what each rank does; `context` is the verify_run. Returns the exit code. */
int verify_rank_main(void *context);

#endif
