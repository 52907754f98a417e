/* A ladder of settings that need less and less memory. Its first rungs are activation checkpointing: of a part of
 * each layer, of some layers, of all layers. The next rungs move data to disk. All of these cost only time and keep
 * the run's bits. The last rungs use a smaller micro-batch at the same global batch. This changes the order in which
 * the gradient is summed, and so the last bits of the run; the caller must report it. */
#ifndef TESS_CONTROL_RECOVER_LADDER_H
#define TESS_CONTROL_RECOVER_LADDER_H

#include <stddef.h>
#include <stdint.h>

#include "tessera/types.h"

typedef enum tess_ladder_recompute { /* descending by memory */
                                     TESS_LADDER_NONE,
                                     TESS_LADDER_SELECTIVE,
                                     TESS_LADDER_EVERY_N,
                                     TESS_LADDER_FULL
} tess_ladder_recompute;

/* Data that can be moved to disk, in the order of the rungs. */
enum {
    TESS_LADDER_ACTIVATIONS = 1,
    TESS_LADDER_OPTIMIZER = 2,
    TESS_LADDER_PARAMS = 4, /* parameters and gradients */
    TESS_LADDER_DISK_END = 8
};

typedef enum tess_ladder_change {
    TESS_LADDER_RECOMPUTED,
    TESS_LADDER_OFFLOADED,
    TESS_LADDER_SHRUNK
} tess_ladder_change;

typedef struct tess_ladder {
    tess_ladder_recompute recompute;
    int64_t every_n;                   /* EVERY_N: every n-th layer is recomputed */
    int64_t local_batch, global_batch; /* batch sizes in rows */
    int64_t least_batch;               /* rows; a smaller local_batch is not allowed; 0 after begin: any is allowed */
    unsigned may_offload;              /* data that can be moved to disk and has not been yet; 0 after begin */
    unsigned offloaded;                /* data that rungs have moved to disk */
    bool chose;                        /* the original configuration says what a layer recomputes */
    int n_rungs;                       /* number of rungs climbed so far */
    tess_ladder_change newest;         /* the change of the newest rung */
    bool same_bits;                    /* the run's bits are the same as with the original configuration */
} tess_ladder;

enum { TESS_LADDER_OVERRIDES = 10, TESS_LADDER_TEXT = 80 };

/* Starts from the present configuration. Batches are in rows, and both > 0. */
void tess_ladder_begin(tess_ladder *ladder, tess_ladder_recompute recompute, int64_t every_n, int64_t local_batch,
                       int64_t global_batch);

/* Climbs one rung. Returns false if no rung is left; nothing has then changed. */
bool tess_ladder_climb(tess_ladder *ladder);

/* Writes the settings of the rungs climbed so far, as "section.key=value". Returns their number. */
int tess_ladder_overrides(const tess_ladder *ladder, char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT]);

/* Describes the newest rung's change. Returns text. */
const char *tess_ladder_report(const tess_ladder *ladder, char *text, size_t size);

#endif
