/* Chooses training.local_batch_size=auto: the largest micro-batch with which a run fits into its memory.
 *
 * A micro-batch is a leaf of the tree that sums gradients, so its size decides the bits of a run. It is chosen once,
 * before the first step, and a checkpoint stores it. */
#ifndef TESS_PLAN_BATCH_CHOICE_H
#define TESS_PLAN_BATCH_CHOICE_H

#include "config/config.h"
#include "nn/model_config.h"

typedef struct tess_batch_search {
    const tess_config *config;      /* borrowed; training.local_batch_size is open */
    const tess_model_config *model; /* borrowed */
    int n_ranks;
    double room;                               /* bytes */
    bool sizes_step;                           /* `check` sets training.global_batch_size */
    tess_status (*check)(tess_config *config); /* checks what the task demands; NULL: no task */
    /* Returns the bytes of the room that a run of `config` takes. TESS_E_INVALID: there is no such run. */
    tess_status (*need)(void *self, const tess_config *config, double *bytes);
    void *self;
} tess_batch_search;

typedef struct tess_batch_choice {
    int64_t rows;      /* rows of the largest micro-batch that fits; if none fits, of the smallest that is allowed */
    double bytes;      /* bytes that a run takes with it */
    bool fits;         /* false: not even the smallest fits */
    int64_t next_rows; /* rows of the next larger one that was tried and does not fit; 0: there is none */
    double next_bytes;
} tess_batch_choice;

/* Finds the largest micro-batch that fits. If training.global_batch_size is given, the size divides it, and it gives
 * no rank more rows, or a pipeline fewer micro-batches than stages, than a smaller size would.
 * TESS_E_INVALID: no size is allowed, for the reason in the message. */
tess_status tess_batch_choose(tess_mem *mem, const tess_batch_search *search, tess_batch_choice *found);

#endif
