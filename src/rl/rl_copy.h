/* The weights of a rank that only draws, and the messages that it receives from the trainers. Newer weights arrive
 * while it draws with the present ones. */
#ifndef TESS_RL_RL_COPY_H
#define TESS_RL_RL_COPY_H

#include "rl/rl_messages.h"

struct rl_copy {
    tess_weight_sync sync;
    int source; /* the trainer whose messages it receives */
    tess_model *model;
    tess_stream *stream; /* host stream */
    tess_compute compute;
    tess_weight_receiver *receiver;
    rl_message message; /* the newest message, once `incoming` is complete */
    tess_work *incoming;
    bool is_coming; /* newer weights are being received */
    int64_t step,
        next_step; /* optimizer steps that made the present weights (-1: there are none), and the newer ones */
    uint64_t weights, next_weights; /* digests */
};

/* Creates a copy, without weights yet. Close it with rl_copy_close, also after an error. */
tess_status rl_copy_open(const tess_config *config, const tess_model_config *model, const tess_weight_sync *sync,
                         rl_copy **copy);
void rl_copy_close(rl_copy **copy);
/* Begins to receive the next message. It is in copy->message after a wait for copy->incoming. */
tess_status rl_copy_listen(rl_copy *copy);
/* Called when copy->message says that weights follow: begins to receive them, and the next message. */
tess_status rl_copy_begin(rl_copy *copy);
/* Makes the newer weights the present ones. */
tess_status rl_copy_take(rl_copy *copy);

#endif
