/* The weights of a rank that only draws, and what it hears of those who train. Newer weights come while it draws with
 * the present ones. */
#ifndef TESS_RL_RL_COPY_H
#define TESS_RL_RL_COPY_H

#include "rl/rl_messages.h"

struct rl_copy {
    tess_weight_sync sync;
    int source; /* the trainer that is heard */
    tess_model *model;
    tess_stream *stream; /* stream of the host */
    tess_compute compute;
    tess_weight_receiver *receiver;
    rl_message message; /* the newest one, once `incoming` is done */
    tess_work *incoming;
    bool is_coming;                 /* newer weights are */
    int64_t step, next_step;        /* steps behind the present weights, -1: there are none; behind the newer ones */
    uint64_t weights, next_weights; /* digests */
};

/* r->copy, without weights yet. Freed by rl_copy_free, also after an error. */
tess_status rl_copy_create(rl *r);
/* Begins to receive the next message: a caller that waits for copy->incoming gets it. */
tess_status rl_copy_listen(rl_copy *copy);
/* copy->message says that weights follow: begins to receive them, and listens. */
tess_status rl_copy_begin(rl_copy *copy);
/* The newer weights become the present ones. */
tess_status rl_copy_take(rl_copy *copy);

#endif
