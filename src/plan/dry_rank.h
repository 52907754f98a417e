/* Builds a rank of a run dry (comm/dry/dry_runtime.h) and lets it run one step: the same code as the run's, which
 * computes and moves nothing. What it has allocated is the memory that the rank will take, and what it has recorded is
 * what a step moves. */
#ifndef TESS_PLAN_DRY_RANK_H
#define TESS_PLAN_DRY_RANK_H

#include "comm/volume.h"
#include "plan/memory_need.h"

typedef struct tess_dry_report {
    double host[TESS_POOL_COUNT];   /* bytes of the host's memory at the peak, without MISC */
    double disk[TESS_POOL_COUNT];   /* bytes on disk (offload) */
    double device[TESS_POOL_COUNT]; /* bytes of the device's memory at the peak, without work space of kernels */
    bool resides;                   /* shards are in the device's memory */
    double work;                    /* work space of the host's kernels, a part of the activations */
    double resident;                /* largest number of bytes of `disk` in memory at a time; not in `host` */
    double engine_host[TESS_POOL_COUNT], engine_disk[TESS_POOL_COUNT]; /* bytes of the engine alone between steps */
    double saved;                                                      /* bytes of the state that a save copies */
    int64_t n_units, largest_unit, n_blocks;
    char stages[TESS_MEMORY_STAGES];
    tess_volume volume;     /* operations of the step, if plan->moves */
    double exchanged_bytes; /* received from ranks with the same layer in the step; not in `volume` */
    double counted_bytes;   /* also counts rings and experts, as a run does that reports what it exchanged */
} tess_dry_report;

/* Counts the peaks of a dry rank's pools, on the host and on the device that it computes on. */
void tess_dry_count(const tess_mem *mem, const tess_compute *compute, tess_dry_report *report);

/* The number of threads of a rank, by the rule with which the runtime divides cores. */
int tess_dry_threads(const tess_memory_plan *plan);

/* Runs rank `rank` of the plan dry. `host` counts what the first of a host's ranks counts for all that share it, where
 * this rank is the first.
 * TESS_E_INVALID: the configuration does not fit the model or the number of ranks
 * TESS_E_NOMEM: the process may not reserve enough addresses */
tess_status tess_dry_rank(const tess_memory_plan *plan, const tess_model_config *model, int rank,
                          tess_dry_report *report);

#endif
