/* How much memory a training will take, before any of it is taken: by pool and rank, from the layouts and rules by
 * which it is allocated. Weights, gradients, moments, gathered copies and windows are exact. So are activations and the
 * kernels' work space of rows that one text fills: shorter texts may need less of it. Of what is offloaded memory has a
 * window, which is counted as if it were always full. Ranks of a pipeline have the layers of their stages, and as many
 * slots of activations as the schedule keeps under way. */
#ifndef TESS_TRAIN_MEMORY_NEED_H
#define TESS_TRAIN_MEMORY_NEED_H

#include "train/engine.h"

struct tess_memory_plan;
struct tess_memory_of_rank;
typedef tess_status (*tess_memory_rank_fn)(tess_mem *mem, const tess_model *model, const struct tess_memory_plan *plan,
                                           int rank, struct tess_memory_of_rank *of_rank);

/* What the memory of a training depends on, beside its model. */
typedef struct tess_memory_plan {
    const tess_config *config; /* where it cuts stages; borrowed */
    tess_fsdp_policy policy;
    tess_optimizer_options optimizer;
    tess_executor_options activations; /* of a pass */
    int passes;
    int n_stages; /* ranks of a pipeline */
    int n_tp;     /* that share a layer */
    int n_shards, n_replicas;
    int n_local;         /* ranks of a host */
    int n_threads;       /* of a rank; 0: the host's cores, shared out */
    const char *kernels; /* NULL: this host's best */
    bool resident;       /* shards in the memory of a device, of which the host has copies */
    int64_t local_batch, global_batch, seq_len;
    bool saves_beside;           /* count a second copy of what is saved, without which a run can do */
    int n_drawing;               /* ranks of a host that only draw (rollout.ranks) */
    tess_memory_rank_fn of_task; /* of a rank all that its task takes; NULL: training alone */
} tess_memory_plan;

/* `config` has passed tess_config_check_step. */
tess_memory_plan tess_memory_plan_of(const tess_config *config, int n_local);

enum { TESS_MEMORY_STAGES = 64 };

typedef struct tess_memory_need {
    double rank[TESS_POOL_COUNT]; /* bytes of the rank that needs most, without `copies` */
    double copies; /* gathered parameters: in the comm pool of the first rank of a host that shares them */
    double host;   /* of all ranks of a host together, those that only draw with them: of the host that needs most */
    double task;   /* of that, what its ranks take beside training */
    double disk[TESS_POOL_COUNT];    /* offload: bytes of that rank on disk, which are no memory */
    double resident;                 /* the most of them in its memory at a time, in the comm pool; not in `rank` */
    double host_disk;                /* of all ranks of a host together: of the host that needs most */
    char stages[TESS_MEMORY_STAGES]; /* "stages 0, 3 of 4", which that rank has; "": no pipeline */
} tess_memory_need;

/* What one rank will have in each pool. Of memory that ranks share, the first of those who do has all of it. */
typedef struct tess_memory_of_rank {
    double pool[TESS_POOL_COUNT];
    double disk[TESS_POOL_COUNT]; /* offload: of these, bytes on disk, of which memory has a window in the comm pool */
    double work;                  /* of kernels: a part of the activations */
    double held;                  /* comm besides, while all units are held at once (held_weights.h) */
    double n_primary;             /* elements that the rank writes to disk */
    tess_fsdp_unit_costs units;
    int64_t n_blocks;               /* in these */
    double device[TESS_POOL_COUNT]; /* of the device's memory, where it has the shards; without kernels' work space */
    char stages[TESS_MEMORY_STAGES];
} tess_memory_of_rank;

/* All pools of its device. */
double tess_memory_of_device(const tess_memory_of_rank *rank);

/* Takes some KiB of `mem` for as long as it runs. TESS_E_INVALID: the pipeline cannot be cut so, or its schedule needs
 * other numbers of micro-batches. */
tess_status tess_memory_predict(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan,
                                tess_memory_need *need);

/* The same of one rank that trains, with the rows that are its own. */
tess_status tess_memory_predict_rank(tess_mem *mem, const tess_model *model, const tess_memory_plan *plan, int rank,
                                     tess_memory_of_rank *out);

/* What a rank needs that only draws: two copies of the weights, keys and values, activations of a pass and its logits.
 */
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
