/* Settings that need less memory, one rung after the other. First activation checkpointing, a part of each layer, then
 * layers, then all of them, which costs only time and keeps the run's bits; then what may lie on a disk, which does,
 * too. After the last of these a smaller micro-batch at the same global batch: that changes the order of the gradient's
 * sum, and so the run's last bits; the caller must report it. */
#ifndef TESS_CONTROL_RECOVER_LADDER_H
#define TESS_CONTROL_RECOVER_LADDER_H

#include <stddef.h>
#include <stdint.h>

#include "tessera/types.h"

typedef enum tess_ladder_recompute { /* most memory first */
                                     TESS_LADDER_NONE,
                                     TESS_LADDER_SELECTIVE,
                                     TESS_LADDER_EVERY_N,
                                     TESS_LADDER_FULL
} tess_ladder_recompute;

/* Things that can lie on disk, in the order of the rungs. */
enum {
    TESS_LADDER_ACTIVATIONS = 1,
    TESS_LADDER_OPTIMIZER = 2,
    TESS_LADDER_PARAMS = 4, /* and gradients */
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
    int64_t local_batch, global_batch; /* rows */
    int64_t least_batch;               /* rows: a smaller local_batch is no rung; 0 after begin: none is too small */
    unsigned may_offload;              /* things that can be put on disk and are not yet; 0 after begin */
    unsigned offloaded;                /* things that rungs have put on disk */
    bool chose;                        /* the original configuration says what a layer recomputes */
    int n_rungs;                       /* climbed so far */
    tess_ladder_change newest;         /* the change of the newest rung */
    bool same_bits;                    /* the bits are those of the original configuration */
} tess_ladder;

enum { TESS_LADDER_OVERRIDES = 10, TESS_LADDER_TEXT = 80 };

/* Starts from the present configuration. Batches in rows, both > 0. */
void tess_ladder_begin(tess_ladder *ladder, tess_ladder_recompute recompute, int64_t every_n, int64_t local_batch,
                       int64_t global_batch);

/* Climbs one rung. False: no rung is left, and nothing has changed. */
bool tess_ladder_climb(tess_ladder *ladder);

/* The settings of the rungs climbed so far, as "section.key=value". Returns their number. */
int tess_ladder_overrides(const tess_ladder *ladder, char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT]);

/* Describes the newest rung's change. Returns text. */
const char *tess_ladder_report(const tess_ladder *ladder, char *text, size_t size);

#endif
