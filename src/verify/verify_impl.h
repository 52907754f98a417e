/* One of the two runs: its configuration, and the shared memory that holds its results. */
#ifndef TESS_VERIFY_VERIFY_IMPL_H
#define TESS_VERIFY_VERIFY_IMPL_H

#include <stdatomic.h>

#include "job/job_memory.h"
#include "plan/placements.h"
#include "tessera/fsdp.h"
#include "verify/verify.h"

typedef struct run_tensor {
    char name[TESS_VERIFY_NAME];
    tess_shape shape; /* one dimension or more, like boxes */
    int64_t offset;   /* index of its first element among the elements of all tensors */
} run_tensor;

/* The digest of one tensor after one step: sums of hashes of elements with their indices. So neither the order of
 * addition nor the partition of the tensor changes it. */
typedef struct run_digest {
    _Atomic uint64_t weights, grads;           /* counts every element once, on its primary rank */
    _Atomic uint64_t held_weights, held_grads; /* counts every copy of an element */
} run_digest;

typedef struct run_shard {
    tess_box held, primary; /* boxes, as in tess_shard */
    /* it has no master weights (tess_param_desc.narrow), and is distributed in the same way for every strategy */
    bool narrow;
    uint64_t weights; /* hash of the held values after the last step */
} run_shard;

typedef struct run_header {
    int32_t status; /* status of rank 0 */
    char message[1024];
    char kernels[32];
    double loss[TESS_VERIFY_MAX_STEPS], grad_norm[TESS_VERIFY_MAX_STEPS];
    tess_verify_delta deltas[]; /* (ranks, n_tensors, 2): gradients, weights */
} run_header;

/* The number and the peak memory of the rank at one place of the mesh. */
typedef struct run_peak {
    int32_t rank;                          /* number in the job, which messages name (parallelism.rank_order) */
    int64_t bytes[TESS_POOL_COUNT], codes; /* codes: bytes of tess_fsdp_codes_bytes */
} run_peak;

typedef enum run_values { RUN_NO_VALUES, RUN_WRITES_VALUES, RUN_COMPARES_VALUES } run_values;

/* A run. The parent creates it before it forks the ranks, so all of them have the same pointers. */
typedef struct verify_run {
    tess_config config; /* configuration that was checked for `ranks` */
    int ranks, n_tensors;
    int64_t steps;
    const char *kernels; /* name of the kernel table; NULL: the best one of the CPU */
    bool with_faults;    /* config.fault applies to this run */
    run_values values;   /* values of the last step: */
    int values_fd; /* file with the gradients of all tensors, then the weights of all tensors, by run_tensor.offset */

    tess_param_placements planned; /* the parts of tensors that ranks must hold; memory of the parent */

    void *shared; /* memory that holds all following arrays */
    size_t shared_bytes;
    run_header *header;
    run_tensor *tensors; /* (n_tensors) */
    run_digest *digests; /* (steps, n_tensors) */
    run_shard *shards;   /* (places, n_tensors) */
    run_peak *peaks;     /* (places) */
} verify_run;

/* Returns the digest of a tensor after `step`. Steps count from 1. */
static inline run_digest *verify_digest_of(const verify_run *run, int64_t step, int tensor)
{
    return &run->digests[(step - 1) * run->n_tensors + tensor];
}

/* Allocates the shared memory. Free it with verify_run_unmap. */
tess_status verify_run_open(verify_run *run);
void verify_run_unmap(verify_run *run);
/* Also frees the configuration and the plan. */
void verify_run_close(verify_run *run);

enum { LAYOUT, ONE }; /* indices of a pair of runs */

/* Defined in verify.c. The first opens the run of a layout, whose configuration need not be checked yet. The second
 * opens the run of one rank, with the same batch and arithmetic. The third compares two runs that have ended, and plans
 * the layout's. */
tess_status verify_open_layout(tess_mem *mem, const tess_verify_plan *plan, const tess_config *config,
                               verify_run *layout);
tess_status verify_open_one(tess_mem *mem, const tess_verify_plan *plan, const tess_config *checked, verify_run *one);
tess_status verify_take_results(tess_mem *mem, verify_run runs[2], tess_verify_result *result);

/* Runs the steps. An error message gives the root cause. */
tess_status verify_run_steps(verify_run *run);

/* Defined in verify_shards.c. The first finds errors in the parts and copies of a tensor that ranks hold ("": none).
 * The second returns the bytes of all parameters on the rank that must hold most. */
tess_status verify_check_shards(tess_mem *mem, const verify_run *layout, int tensor, char text[TESS_VERIFY_TEXT]);
int64_t verify_most_planned(const verify_run *layout);

/* Defined in verify_rank.c. The main function of a rank; `context` is the verify_run. Returns the exit code. */
int verify_rank_main(void *context);
/* Returns the sum of the hashes of `part`, a part of the shard. `values` holds the shard's values, which count as
 * float32. */
uint64_t verify_hash(const tess_shard *shard, const tess_box *part, const void *values, tess_dtype dtype);

#endif
