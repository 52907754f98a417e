/* Settings that need less memory, one rung after the other. First activation checkpointing, which costs only time and
 * keeps the run's bits. After its last rung a smaller micro-batch at the same global batch: that changes the order of
 * the gradient's sum, and so the run's last bits; the caller must report it. */
#ifndef TESS_RECOVER_LADDER_H
#define TESS_RECOVER_LADDER_H

#include <stddef.h>
#include <stdint.h>

#include "tessera/types.h"

typedef enum tess_ladder_recompute { /* by the memory used, most first */
                                     TESS_LADDER_NONE,
                                     TESS_LADDER_EVERY_N,
                                     TESS_LADDER_FULL
} tess_ladder_recompute;

typedef struct tess_ladder {
    tess_ladder_recompute recompute;
    int64_t every_n;                   /* EVERY_N: every n-th layer is recomputed */
    int64_t local_batch, global_batch; /* rows */
    int64_t least_batch;               /* rows: a smaller local_batch is no rung; 0 after begin: none is too small */
    int n_rungs;                       /* climbed so far */
    bool same_bits;                    /* the bits are those of the original configuration */
} tess_ladder;

enum { TESS_LADDER_OVERRIDES = 4, TESS_LADDER_TEXT = 64 };

/* Starts from the present configuration. Batches in rows, both > 0. */
void tess_ladder_begin(tess_ladder *ladder, tess_ladder_recompute recompute, int64_t every_n, int64_t local_batch,
                       int64_t global_batch);

/* Climbs one rung. False: there is none left, nothing has changed. */
bool tess_ladder_climb(tess_ladder *ladder);

/* The settings of the rungs climbed so far, as "section.key=value". Returns their number. */
int tess_ladder_overrides(const tess_ladder *ladder, char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT]);

/* Describes the newest rung's change. Returns text. */
const char *tess_ladder_report(const tess_ladder *ladder, char *text, size_t size);

#endif
