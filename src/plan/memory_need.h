/* Predicts how much memory a training will take, by pool and rank, before any of it is allocated. The prediction
 * uses the same layouts and rules as the allocation. Weights, gradients, moments, gathered copies and windows are
 * exact. So are activations and the kernels' work space for rows that one text fills; shorter texts may need less.
 * Offloaded state has a window in memory, which is counted as if it were always full. Ranks of a pipeline have the
 * layers of their stages, and as many slots of activations as the schedule has micro-batches in progress. */
#ifndef TESS_PLAN_MEMORY_NEED_H
#define TESS_PLAN_MEMORY_NEED_H

#include "engine/engine.h"

struct tess_memory_plan;
struct tess_memory_of_rank;
typedef tess_status (*tess_memory_rank_fn)(tess_mem *mem, const tess_model *model, const struct tess_memory_plan *plan,
                                           int rank, struct tess_memory_of_rank *of_rank);

/* Everything that determines the memory of a training, in addition to its model. */
typedef struct tess_memory_plan {
    const tess_config *config; /* borrowed; read when stages are cut */
    tess_fsdp_policy policy;
    tess_optimizer_options optimizer;
    tess_executor_options activations; /* options of the executor that runs a pass */
    int passes;
    int degree[TESS_AXES]; /* number of ranks along each axis */
    int n_local;           /* number of ranks on a host */
    int n_threads;         /* threads of a rank; 0: an equal share of the host's cores */
    const char *kernels;   /* name of the kernel table; NULL: this host's best */
    bool resident;         /* shards are in a device's memory, and the host has copies */
    int64_t local_batch, global_batch, seq_len;
    bool saves_beside;           /* count the optional second copy of the saved state */
    int n_drawing;               /* number of ranks of a host that only draw (rollout.ranks) */
    tess_memory_rank_fn of_task; /* predicts all memory of the task on a rank; NULL: the task is training only */
} tess_memory_plan;

/* Makes the plan of a configuration, which has passed tess_config_check_step. */
tess_memory_plan tess_memory_plan_of(const tess_config *config, int n_local);

enum { TESS_MEMORY_STAGES = 64 };

typedef struct tess_memory_need {
    double rank[TESS_POOL_COUNT]; /* bytes of the rank that needs most, without `copies` */
    double copies; /* bytes of gathered parameters: in the comm pool of the first rank of a host that shares them */
    double host;   /* bytes of all ranks on the host that needs most, including ranks that only draw */
    double task;   /* part of `host`: bytes that the task takes in addition to training */
    double disk[TESS_POOL_COUNT]; /* offload: bytes of that rank on disk; they are not memory */
    /* Largest number of bytes of `disk` in memory at a time (comm pool); not in `rank` */
    double resident;
    double host_disk;                /* bytes on disk of all ranks on the host that needs most */
    char stages[TESS_MEMORY_STAGES]; /* stages of that rank, "stages 0, 3 of 4"; "": no pipeline */
} tess_memory_need;

/* The bytes that one rank will have in each pool. Memory that ranks share is counted for the first of them. */
typedef struct tess_memory_of_rank {
    double pool[TESS_POOL_COUNT];
    /* offload: the part of `pool` that is on disk; a window of it is in memory (comm pool) */
    double disk[TESS_POOL_COUNT];
    double work;      /* work space of the kernels, a part of the activations */
    double held;      /* additional bytes in the comm pool while all units are held (held_weights.h) */
    double n_primary; /* elements that the rank writes to disk */
    tess_fsdp_unit_costs units;
    int64_t n_blocks;               /* number of blocks in these units */
    double device[TESS_POOL_COUNT]; /* bytes of the device's memory if it has the shards; without work space */
    char stages[TESS_MEMORY_STAGES];
} tess_memory_of_rank;

/* Adds up all pools of the rank's device. */
double tess_memory_of_device(const tess_memory_of_rank *rank);
/* Predicts the bytes that training takes on a rank's device if its shards are there. A tess_device_need_fn. */
tess_status tess_memory_device_need(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                    double *bytes);

/* Predicts the memory of all ranks. Needs some KiB of `mem` while it runs.
 * TESS_E_INVALID: the pipeline cannot be cut like this, or its schedule needs another number of micro-batches */
tess_status tess_memory_predict(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                tess_memory_need *need);

/* Predicts the memory of one rank that trains, with exactly the rows that it has. */
tess_status tess_memory_predict_rank(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, int rank,
                                     tess_memory_of_rank *out);

/* Predicts the memory of a rank that only draws: two copies of the weights, keys and values, activations of a pass
 * and its logits. */
void tess_memory_of_drawing(const tess_model *model, const tess_config *config, tess_memory_of_rank *rank);

/* Checks that the ranks of a host fit into `room` bytes. `room_of` names the owner of that room, such as "this
 * host".
 * TESS_E_INVALID: they need more. The message has the figures, and the settings, smaller numbers of ranks or larger
 * numbers of hosts with which it would fit. */
tess_status tess_memory_check(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, double room,
                              const char *room_of);

/* tess_memory_check for this host and its free memory. n_local ranks of it train, and n_drawing only draw. `of_task`
 * is that of the plan. */
tess_status tess_memory_check_here(tess_mem *mem, const tess_model_config *model, const tess_config *config,
                                   int n_local, int n_drawing, tess_memory_rank_fn of_task);

#endif
