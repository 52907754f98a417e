/* Weights of ranks that train become those of ranks that only draw.
 *
 * A copy of the model is one run of bytes, parameter after parameter in the dtype that units are gathered in. It
 * travels in buckets of a fixed size, which begin and end anywhere. Those who train gather unit after unit into a
 * bucket, while the one before is on its way; each has receivers of its own to serve. A receiver writes into the copy
 * that it does not draw with, whenever it finds time, and takes it for the next rollout once every unit has the digest
 * that the sender has found:
 *
 *     trainers    gather 0 | gather 1      | gather 2      | digests
 *     wire                 | bucket 0      | bucket 1      | bucket 2 | digests
 *     receivers   draw with the copy before ........................ | compare, take
 *
 * Messages are those of `all`, so that a rank that is lost or keeps others waiting is named as everywhere. */
#ifndef TESS_RL_SYNC_WEIGHT_SYNC_H
#define TESS_RL_SYNC_WEIGHT_SYNC_H

#include "engine/engine.h"

typedef struct tess_weight_sender tess_weight_sender;
typedef struct tess_weight_receiver tess_weight_receiver;

enum { TESS_WEIGHT_SYNC_BUCKETS = 2 }; /* under way */

/* The same on all ranks. */
typedef struct tess_weight_sync {
    tess_team *all;      /* borrowed: those who train, then those who receive */
    int n_trainers;      /* receiver i, rank n_trainers + i of `all`, is served by trainer i % n_trainers */
    size_t bucket_bytes; /* at least 64 */
} tess_weight_sync;

/* The trainer that serves receiver i. */
static inline int tess_weight_sync_source(const tess_weight_sync *sync, int i)
{
    return i % sync->n_trainers;
}

/* ---- Those who train ---- */
/* The engine is borrowed; its team consists of the first n_trainers ranks of `all`, in the same order, and layers are
 * whole. Two buckets are taken from the comm pool where there is a receiver to serve. */
tess_status tess_weight_sender_create(tess_engine *engine, const tess_weight_sync *sync, tess_weight_sender **sender);
/* Cancels what is under way. */
void tess_weight_sender_destroy(tess_weight_sender **sender);
/* Sends the present weights; returns once the receivers have them all. *bytes: that this rank has sent. Between steps.
 * Collective over the engine's team, while every receiver receives. Errors of messages and of gathers. */
tess_status tess_weights_send(tess_weight_sender *sender, int64_t *bytes);

/* ---- Those who receive ---- */
/* Two copies of the model in `dtype`, the engine's, from the params pool. The model is borrowed. */
tess_status tess_weight_receiver_create(tess_mem *mem, const tess_model *model, tess_dtype dtype,
                                        const tess_weight_sync *sync, tess_weight_receiver **receiver);
void tess_weight_receiver_destroy(tess_weight_receiver **receiver);
/* Weights are on their way: begins to receive them. */
tess_status tess_weights_receive(tess_weight_receiver *receiver);
/* Takes in what has come meanwhile, without waiting. Nothing is under way: nothing. */
tess_status tess_weights_receive_some(tess_weight_receiver *receiver);
/* Waits for all that is under way. */
tess_status tess_weights_receive_rest(tess_weight_receiver *receiver);
/* The same; the new copy becomes the present one. `step` is for the message. TESS_E_MISMATCH: a unit has
 * another digest than the sender's; names the rank and the unit, and the copy before stays. */
tess_status tess_weights_take(tess_weight_receiver *receiver, int64_t step);
/* (n_params) of the present copy, until the next one is taken; NULL: none was taken yet. */
const void *const *tess_weights_present(const tess_weight_receiver *receiver);

#endif
