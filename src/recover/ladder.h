/* Settings that need less memory, one rung after the other. First what costs time alone, activation checkpointing: the
 * bits stay those of the run. When all of it is used: a smaller micro-batch at the same global batch, which is another
 * order of the gradient's sum and so another run in its last bits; whoever climbs says so. */
#ifndef TESS_RECOVER_LADDER_H
#define TESS_RECOVER_LADDER_H

#include <stddef.h>
#include <stdint.h>

#include "tessera/types.h"

typedef enum tess_ladder_recompute { /* by the memory that is left in use, most first */
                                     TESS_LADDER_NONE,
                                     TESS_LADDER_EVERY_N,
                                     TESS_LADDER_FULL
} tess_ladder_recompute;

typedef struct tess_ladder {
    tess_ladder_recompute recompute;
    int64_t every_n;                   /* EVERY_N: every n-th layer runs again */
    int64_t local_batch, global_batch; /* rows */
    int n_rungs;                       /* climbed so far */
    bool same_bits;                    /* as the run began with */
} tess_ladder;

enum { TESS_LADDER_OVERRIDES = 4, TESS_LADDER_TEXT = 64 };

/* Where the configuration stands. Batches in rows, both > 0. */
void tess_ladder_begin(tess_ladder *ladder, tess_ladder_recompute recompute, int64_t every_n, int64_t local_batch,
                       int64_t global_batch);

/* One rung up. False: there is none left, nothing has changed. */
bool tess_ladder_climb(tess_ladder *ladder);

/* What the rungs climbed so far set, as "section.key=value". Returns their number. */
int tess_ladder_overrides(const tess_ladder *ladder, char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT]);

/* What the newest rung has changed, in words. Returns text. */
const char *tess_ladder_report(const tess_ladder *ladder, char *text, size_t size);

#endif
