/* Predicts how much memory a training will take, by pool and rank, before any of it is allocated: the counters of dry
 * ranks (dry_rank.h). They are those of a step whose rows one text fills; shorter texts may need less. Offloaded state
 * has a window in memory, which is counted as if it were always full. */
#ifndef TESS_PLAN_MEMORY_NEED_H
#define TESS_PLAN_MEMORY_NEED_H

#include "engine/engine.h"
#include "plan/dry_task.h"

/* Everything that determines the memory of a training, in addition to its model. */
typedef struct tess_memory_plan {
    const tess_config *config; /* borrowed; it has passed tess_config_check_step */
    int n_local;               /* number of ranks on a host */
    int n_threads;             /* threads of a rank; 0: an equal share of the host's cores */
    const char *kernels;       /* name of the kernel table; NULL: this host's best */
    bool moves;                /* dry ranks run all micro-batches of a step, for the volume (dry_rank.h) */
    bool saves_beside;         /* count the optional second copy of the saved state */
    int n_drawing;             /* number of ranks of a host that only draw (rollout.ranks) */
    const int *hosts;          /* the host of each rank; NULL: ranks are placed on hosts by number */
    const tess_dry_task *task; /* builds objects next to the engine; NULL: there are none */
    struct tess_rehearsal
        *rehearsal;                /* gets the operations of a dry rank's step (comm/rehearsal/rehearsal.h), or NULL */
    struct tess_work_trace *trace; /* gets the work of a dry rank's step (device/dry/work_trace.h), or NULL */
    struct tess_mem_peak *peak;    /* gets what a dry rank has when it has most (base/mem/dry_mem.h), or NULL */
    int64_t most_micros;           /* a dry rank runs at most this many micro-batches of its own; 0: no limit */
    bool gradients_only;           /* a dry rank's step ends before the norm of its gradients */
    bool fills;                    /* dry ranks have memory, so that the trace's timer can run kernels */
    /* The model of all stages (tess_engine_options.whole), which dry ranks share. NULL: each of them creates it */
    const struct tess_model *whole;
} tess_memory_plan;

/* Makes the plan of a configuration. */
tess_memory_plan tess_memory_plan_of(const tess_config *config, int n_local);

enum { TESS_MEMORY_STAGES = 64 };

/* The bytes that one rank will have in each pool. Memory that ranks share is counted for the first of them. */
typedef struct tess_memory_of_rank {
    double pool[TESS_POOL_COUNT];
    double disk[TESS_POOL_COUNT];    /* offload: bytes on disk; they are not memory */
    double resident;                 /* offload: largest number of these bytes in memory at a time, in the comm pool */
    double work;                     /* work space of the host's kernels, a part of the activations */
    int64_t n_units, n_blocks;       /* number of units, and of the blocks in them */
    int64_t largest_unit;            /* bytes of the largest unit's gathered parameters */
    double device[TESS_POOL_COUNT];  /* bytes of the device's memory, without work space of kernels */
    char stages[TESS_MEMORY_STAGES]; /* stages of the rank, "stages 0, 3 of 4"; "": no pipeline */
} tess_memory_of_rank;

typedef struct tess_memory_need {
    tess_memory_of_rank most; /* the rank that needs most */
    double host;              /* bytes of all ranks on the host that needs most, including ranks that only draw */
    double host_disk;         /* bytes on disk of all ranks on the host that needs most */
} tess_memory_need;

double tess_pools_sum(const double pools[TESS_POOL_COUNT]);
/* Appends the pools that are not empty, as "params 1.0 GiB, grads 512 MiB"; returns like tess_text_add. */
size_t tess_pools_format(const double pools[TESS_POOL_COUNT], char *text, size_t size, size_t at);
/* Predicts the bytes that training takes on a rank's device if its shards are there. A tess_device_need_fn. */
tess_status tess_memory_device_need(tess_mem *mem, const tess_config *config, const tess_model *model, int rank,
                                    double *bytes);

/* Predicts the memory of all ranks. Needs some KiB of `mem` while it runs.
 * TESS_E_INVALID: the pipeline cannot be cut like this, or its schedule needs another number of micro-batches */
tess_status tess_memory_predict(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                tess_memory_need *need);

/* The ranks of a plan. Ranks that take the same memory share a dry rank. `model` and `plan` are borrowed.
 * tess_memory_ranks_need returns what a rank needs, until the next call. is_exact false: with Muon, ranks that have
 * different matrices count as equal. */
typedef struct tess_memory_ranks tess_memory_ranks;
tess_status tess_memory_ranks_open(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                   bool is_exact, tess_memory_ranks **ranks);
tess_status tess_memory_ranks_need(tess_memory_ranks *ranks, int rank, const tess_memory_of_rank **need);
void tess_memory_ranks_close(tess_memory_ranks **ranks);

struct tess_dry_report;
/* Returns what a dry rank of the plan needs, in addition to what it counted itself. */
tess_memory_of_rank tess_memory_of_report(const tess_memory_plan *plan, const struct tess_dry_report *dry);

/* Predicts the memory of one rank, with exactly the rows that it has. The ranks after those that train only draw. */
tess_status tess_memory_predict_rank(const tess_model_config *model, const tess_memory_plan *plan, int rank,
                                     tess_memory_of_rank *out);

/* Checks that the ranks of a host fit into `room` bytes. `room_of` names the owner of that room, such as "this
 * host".
 * TESS_E_INVALID: they need more. The message has the figures, and the settings, smaller numbers of ranks or larger
 * numbers of hosts with which it would fit. */
tess_status tess_memory_check(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan, double room,
                              const char *room_of);

/* Lists the settings, smaller numbers of ranks or larger numbers of hosts with which the plan would fit into `room`
 * bytes, by dry ranks: "with -n 2, or with activation_checkpoint.mode=full". of_rank: the room is that of a rank, not
 * that of a host. */
tess_status tess_memory_would_fit(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                  double room, bool of_rank, char *text, size_t size);

/* tess_memory_check for this host and its free memory. `plan` has this host's numbers of ranks. If a limit on the
 * addresses of this process is in the way, a line to `reporter` says that nothing was checked. */
tess_status tess_memory_check_here(tess_mem *mem, const tess_model_config *model, const tess_memory_plan *plan,
                                   const tess_reporter *reporter);

#endif
