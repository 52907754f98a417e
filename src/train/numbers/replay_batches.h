/* The micro-batches of one step on this rank, kept so that the step can be computed again. */
#ifndef TESS_TRAIN_NUMBERS_REPLAY_BATCHES_H
#define TESS_TRAIN_NUMBERS_REPLAY_BATCHES_H

#include "train/engine.h"

typedef struct tess_replay_batches {
    tess_mem *mem;
    int64_t max_tokens; /* of a micro-batch */
    const tess_batch_source *from;
    tess_batch *batches; /* (capacity); each owns one block, which `ids` begins; NULL: not yet */
    int64_t n, capacity;
    int64_t next; /* to be given again */
} tess_replay_batches;

/* Passes on what `from` (borrowed) gives and keeps a copy; what was kept before is gone. */
tess_batch_source tess_replay_batches_record(tess_replay_batches *kept, const tess_batch_source *from);
/* Gives the kept ones again, from the first. */
tess_batch_source tess_replay_batches_again(tess_replay_batches *kept);
void tess_replay_batches_free(tess_replay_batches *kept);

#endif
