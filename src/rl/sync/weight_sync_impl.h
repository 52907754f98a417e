/* Private header of weight transfers, also used by their test: the layout of a copy, and the receiver. */
#ifndef TESS_RL_SYNC_WEIGHT_SYNC_IMPL_H
#define TESS_RL_SYNC_WEIGHT_SYNC_IMPL_H

#include "base/mem/scoped.h"
#include "rl/sync/weight_sync.h"

enum {
    WEIGHT_SYNC_TAG = 0x5753, /* tag of these messages, which no other messages of `all` use */
    WEIGHT_SYNC_SLOTS = TESS_WEIGHT_SYNC_BUCKETS
};

/* The offsets of parameters in a copy. Frozen parameters are in separate buckets, before all others. */
typedef struct weight_layout {
    const tess_model *model;
    size_t *at, *size; /* (n_params) at: offsets in bytes, multiples of 64 */
    size_t bytes, bucket_bytes;
    int64_t n_buckets, n_frozen; /* number of buckets, and of those that have only frozen parameters */
} weight_layout;

enum { WEIGHT_SYNC_COPIES = 2 }; /* copies of a receiver; frozen parameters are sent once for each copy */

struct tess_weight_receiver {
    tess_weight_sync sync;
    int source;
    weight_layout layout;
    char *copy[WEIGHT_SYNC_COPIES];
    const void **w[WEIGHT_SYNC_COPIES]; /* (n_params) */
    int present;                        /* -1: none */
    bool is_receiving;
    int64_t n_taken;          /* transfers */
    int64_t n_posted, n_come; /* buckets */
    tess_work *works[WEIGHT_SYNC_SLOTS], *digests_work;
    uint64_t *digests; /* (n_units) digests as the sender computed them */
};

/* ---- weight_layout.c ---- */
tess_status weight_layout_create(tess_scope *scope, const tess_model *model, tess_dtype dtype, size_t bucket_bytes,
                                 weight_layout *layout);
/* Returns the first bucket of transfer number `n` (from 0). */
int64_t weight_layout_first_bucket(const weight_layout *layout, int64_t n);
/* Returns the size of a bucket; the last one is smaller. */
size_t weight_layout_bucket_size(const weight_layout *layout, int64_t bucket);
/* Returns the digest of unit `unit`, whose parameters are at `w`. */
uint64_t weight_layout_digest(const weight_layout *layout, int unit, const void *const *w);

#endif
