/* How much memory a training will take, before any of it is taken: by pool and rank, from the layouts and rules by
 * which it is allocated. Weights, gradients, moments, gathered copies and windows are exact. So are activations and the
 * kernels' work space of rows that one text fills: shorter texts may need less of it. Of what is offloaded memory has a
 * window, which is counted as if it were always full. Ranks of a pipeline have the layers of their stages, and as many
 * slots of activations as the schedule keeps under way. */
#ifndef TESS_PLAN_MEMORY_NEED_H
#define TESS_PLAN_MEMORY_NEED_H

#include "engine/engine.h"

struct tess_memory_plan;
struct tess_memory_of_rank;
typedef tess_status (*tess_memory_rank_fn)(tess_mem *mem, const tess_model *model, const struct tess_memory_plan *plan,
                                           int rank, struct tess_memory_of_rank *of_rank);

/* The facts that the memory of a training depends on, besides its model. */
typedef struct tess_memory_plan {
    const tess_config *config; /* borrowed; read when stages are cut */
    tess_fsdp_policy policy;
    tess_optimizer_options optimizer;
    tess_executor_options activations; /* options of the executor that runs a pass */
    int passes;
    int n_stages; /* ranks of a pipeline */
    int n_tp;     /* ranks that share a layer */
    int n_shards, n_replicas;
    int n_local;         /* ranks on a host */
    int n_threads;       /* threads of a rank; 0: an equal share of the host's cores */
    const char *kernels; /* name of the kernel table; NULL: this host's best */
    bool resident;       /* shards lie in the memory of a device, and the host has copies */
    int64_t local_batch, global_batch, seq_len;
    bool saves_beside;           /* count the second copy of what is saved, which is optional */
    int n_drawing;               /* ranks of a host that only draw (rollout.ranks) */
    tess_memory_rank_fn of_task; /* predicts all memory that the task takes on a rank; NULL: training alone */
} tess_memory_plan;

/* `config` has passed tess_config_check_step. */
tess_memory_plan tess_memory_plan_of(const tess_config *config, int n_local);

enum { TESS_MEMORY_STAGES = 64 };

typedef struct tess_memory_need {
    double rank[TESS_POOL_COUNT]; /* bytes of the rank that needs most, without `copies` */
    double copies; /* gathered parameters: in the comm pool of the first rank of a host that shares them */
    double host;   /* bytes of all ranks on the host that needs most, including ranks that only draw */
    double task;   /* part of `host`: bytes that its ranks take in addition to training */
    double disk[TESS_POOL_COUNT];    /* offload: bytes of that rank on disk, which are no memory */
    double resident;                 /* most bytes of `disk` in memory at a time (comm pool); not in `rank` */
    double host_disk;                /* bytes on disk of all ranks on the host that needs most */
    char stages[TESS_MEMORY_STAGES]; /* stages of that rank, "stages 0, 3 of 4"; "": no pipeline */
} tess_memory_need;

/* The bytes that one rank will have in each pool. The first of the ranks that share memory has all of it. */
typedef struct tess_memory_of_rank {
    double pool[TESS_POOL_COUNT];
    double disk[TESS_POOL_COUNT]; /* offload: part of `pool` on disk; memory has a window of it (comm pool) */
    double work;                  /* work space of the kernels, a part of the activations */
    double held;                  /* additional bytes of comm while all units are held (held_weights.h) */
    double n_primary;             /* elements that the rank writes to disk */
    tess_fsdp_unit_costs units;
    int64_t n_blocks;               /* blocks in these units */
    double device[TESS_POOL_COUNT]; /* bytes of the device's memory if it has the shards; without work space */
    char stages[TESS_MEMORY_STAGES];
} tess_memory_of_rank;

/* Adds up all pools of the rank's device. */
double tess_memory_of_device(const tess_memory_of_rank *rank);
/* The bytes that training alone takes on the device of a rank whose shards lie there: a tess_device_need_fn. */
tess_status tess_memory_device_need(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                    double *bytes);

/* Takes some KiB of `mem` for as long as it runs. TESS_E_INVALID: the pipeline cannot be cut so, or its schedule needs
 * other numbers of micro-batches. */
tess_status tess_memory_predict(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                tess_memory_need *need);

/* The same of one rank that trains, with the rows that are its own. */
tess_status tess_memory_predict_rank(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, int rank,
                                     tess_memory_of_rank *out);

/* The memory of a rank that only draws: two copies of the weights, keys and values, activations of a pass and its
 * logits. */
void tess_memory_of_drawing(const tess_model *model, const tess_config *config, tess_memory_of_rank *rank);

/* TESS_E_INVALID: the ranks of a host need more than `room`. The message has the figures, and which settings, fewer
 * ranks or more hosts would make it fit. `room_of`: what has that room, such as "this host". */
tess_status tess_memory_check(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, double room,
                              const char *room_of);

/* The same for a rank's own host, as it is now. n_local ranks of it train, and n_drawing only draw. `of_task`: as the
 * plan has it. */
tess_status tess_memory_check_here(tess_mem *mem, const tess_model_config *model, const tess_config *config,
                                   int n_local, int n_drawing, tess_memory_rank_fn of_task);

#endif
