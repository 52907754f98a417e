/* A team's control area in the job's shared memory, where its ranks meet. It contains nothing that is private to one
 * process. */
#ifndef TESS_COMM_SHM_CONTROL_H
#define TESS_COMM_SHM_CONTROL_H

#include <stdatomic.h>

#include "job/fingerprint.h"

enum {
    CONTROL_SLOTS = 32, /* number of operations with posts at a time */
    /* maximum number of operations in flight per rank: fewer than half of the slots, so that a post is never
     * overwritten while a slower rank still has to compare it */
    CONTROL_IN_FLIGHT = 15,
    CONTROL_INLINE = 16384,       /* bytes that a rank can show next to its post, in a team of any size */
    CONTROL_INLINE_PER_RANK = 24, /* bytes for each rank of the team, if that gives more */
    CONTROL_STAGE = 512 << 10,    /* minimum bytes of private memory that a rank shows at a time */
    CONTROL_STAGE_PER_RANK = 512, /* bytes for each rank of the team, if that gives more: 64 elements of 8 bytes */
    /* number of stages of a rank: two alternate, one is for partial results, one is private */
    CONTROL_AREAS = 4
};

#define CONTROL_PRIVATE UINT64_MAX /* offset of memory that peers cannot read */

/* One rank's part in one operation. */
typedef struct tess_post {
    _Alignas(64) tess_fingerprint fingerprint;
    uint64_t in_offset, out_offset;   /* offsets of its buffers in the job's memory, or CONTROL_PRIVATE */
    uint64_t in_address, out_address; /* addresses of the buffers in its own process */
    uint32_t shown;                   /* 1: the data is next to this post */
    uint32_t site;                    /* tess_fingerprint_site */
    uint64_t beside;                  /* number of bytes next to this post */
    uint64_t digest;                  /* digest of the fingerprint; fingerprints are read only if digests differ */
    _Atomic uint64_t arrivals;        /* total number of arrivals of this rank in this slot */
} tess_post;

/* Ranks pass the phases of an operation together. Phase k is over when `arrivals` has grown by k times the team's
 * size. */
typedef struct tess_slot {
    _Alignas(64) _Atomic uint64_t arrivals;
} tess_slot;

typedef struct tess_control {
    uint64_t bytes;            /* size of the whole area */
    _Atomic uint32_t n_left;   /* number of ranks that have destroyed their handle; the last one frees the area */
    _Atomic uint32_t given_up; /* 1 + team rank of the first rank that cancelled; 0: none */
    _Alignas(64) tess_slot slots[CONTROL_SLOTS];
    /* Followed by these arrays, each aligned: posts (slots, ranks), inline (slots, ranks), channels (ranks, ranks),
     * stages (ranks, areas) */
} tess_control;

/* Returns the size of the area for a team of `size` ranks: 2.5 MiB of address space for each rank, 1.5 GiB for 600
 * ranks. The channels take 8 bytes for each pair of ranks. Untouched pages cost nothing: slots without short
 * operations, unused channels, and stages if buffers are shared. */
uint64_t tess_control_bytes(int size);

/* Returns the number of bytes that a rank can show next to its post. */
static inline uint64_t tess_control_inline_bytes(int size)
{
    uint64_t rows = ((uint64_t)size * CONTROL_INLINE_PER_RANK + 63) / 64 * 64;
    return rows > CONTROL_INLINE ? rows : CONTROL_INLINE;
}

/* Returns the size of a stage. */
static inline uint64_t tess_control_stage_bytes(int size)
{
    uint64_t blocks = (uint64_t)size * CONTROL_STAGE_PER_RANK;
    return blocks > CONTROL_STAGE ? blocks : CONTROL_STAGE;
}

tess_post *tess_control_post(tess_control *control, int size, uint64_t sequence, int rank);
uint8_t *tess_control_inline(tess_control *control, int size, uint64_t sequence, int rank);
uint8_t *tess_control_stage(tess_control *control, int size, int rank, int area);
/* Returns the entry of the channel from one rank to another: its offset in the job's memory; 0: not created yet. */
_Atomic uint64_t *tess_control_channel(tess_control *control, int size, int from, int to);

#endif
