/* Transfers weights from trainers to ranks that only draw.
 *
 * A copy of the model is one run of bytes, parameter after parameter, in the dtype in which units are gathered. It
 * is sent in buckets of a fixed size, which may begin and end within a parameter. A trainer gathers units into one
 * bucket while the previous bucket is sent; each trainer serves its own receivers. A receiver writes into the copy
 * that it does not use, between its passes. It uses that copy for the next rollout if every unit has the digest that
 * the sender computed:
 *
 *     trainers    gather 0 | gather 1      | gather 2      | digests
 *     wire                 | bucket 0      | bucket 1      | bucket 2 | digests
 *     receivers   draw with the copy before ........................ | compare, take
 *
 * Messages go through the team `all`, so the guard names a lost or late rank as in every other operation. */
#ifndef TESS_RL_SYNC_WEIGHT_SYNC_H
#define TESS_RL_SYNC_WEIGHT_SYNC_H

#include "engine/engine.h"

typedef struct tess_weight_sender tess_weight_sender;
typedef struct tess_weight_receiver tess_weight_receiver;

enum { TESS_WEIGHT_SYNC_BUCKETS = 2 }; /* under way */

/* The roles of a transfer, equal on all ranks. */
typedef struct tess_weight_sync {
    tess_team *all;      /* borrowed; first the trainers, then the receivers */
    int n_trainers;      /* receiver i, rank n_trainers + i of `all`, is served by trainer i % n_trainers */
    size_t bucket_bytes; /* size of a bucket, 64 or more */
} tess_weight_sync;

/* Returns the trainer that serves receiver i. */
static inline int tess_weight_sync_source(const tess_weight_sync *sync, int i)
{
    return i % sync->n_trainers;
}

/* ---- Those who train ---- */
/* The engine is borrowed; its team consists of the first n_trainers ranks of `all`, in any order, and layers
 * are whole. A trainer with a receiver takes two buckets from the comm pool. */
tess_status tess_weight_sender_create(tess_engine *engine, const tess_weight_sync *sync, tess_weight_sender **sender);
/* Cancels transfers under way, and frees the sender. */
void tess_weight_sender_destroy(tess_weight_sender **sender);
/* Sends the present weights; returns when the receivers have all of them. *bytes: number of bytes that this rank has
 * sent. Call it between steps. Collective over the engine's team, while every receiver receives. Errors are those of
 * messages and gathers. */
tess_status tess_weights_send(tess_weight_sender *sender, int64_t *bytes);

/* ---- Those who receive ---- */
/* Creates a receiver with two copies of the model from the params pool, in the engine's `dtype`. The model is
 * borrowed. */
tess_status tess_weight_receiver_create(tess_mem *mem, const tess_model *model, tess_dtype dtype,
                                        const tess_weight_sync *sync, tess_weight_receiver **receiver);
void tess_weight_receiver_destroy(tess_weight_receiver **receiver);
/* Begins to receive weights, after a message has announced them. */
tess_status tess_weights_receive(tess_weight_receiver *receiver);
/* Receives buckets that have arrived, without waiting. Does nothing if no transfer is under way. */
tess_status tess_weights_receive_some(tess_weight_receiver *receiver);
/* Waits until the transfer under way is complete. */
tess_status tess_weights_receive_rest(tess_weight_receiver *receiver);
/* Waits in the same way, and makes the new copy the present one. `step` is for messages. TESS_E_MISMATCH: a unit's
 * digest differs from the sender's; the message names the rank and the unit, and the old copy stays in use. */
tess_status tess_weights_take(tess_weight_receiver *receiver, int64_t step);
/* Returns (n_params) addresses in the present copy, valid until the next one is taken. NULL: none was taken yet. */
const void *const *tess_weights_present(const tess_weight_receiver *receiver);
/* Returns those in the copy into which the next transfer goes. */
const void *const *tess_weights_next(const tess_weight_receiver *receiver);

#endif
