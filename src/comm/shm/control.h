/* A team's control area in the job's shared memory: where its ranks meet. Nothing here is private to one process. */
#ifndef TESS_COMM_SHM_CONTROL_H
#define TESS_COMM_SHM_CONTROL_H

#include <stdatomic.h>

#include "job/fingerprint.h"

enum {
    CONTROL_SLOTS = 32,     /* operations with posts at a time */
    CONTROL_IN_FLIGHT = 15, /* at most, per rank: fewer than half of the slots, so that a post is never overwritten
                               while a slower rank still has to compare it */
    CONTROL_INLINE = 16384, /* bytes that a rank can show with its post, in a team of any size */
    CONTROL_INLINE_PER_RANK = 24, /* the same for each rank of the team, where that is more */
    CONTROL_STAGE = 512 << 10,    /* bytes a rank shows at once of private memory, at least */
    CONTROL_STAGE_PER_RANK = 512, /* the same for each rank of the team, where that is more: 64 elements of 8 bytes */
    CONTROL_AREAS = 4             /* stages of a rank: two used alternately, one for partial results, one private */
};

#define CONTROL_PRIVATE UINT64_MAX /* offset of memory that peers cannot read */

/* One rank's part in one operation. */
typedef struct tess_post {
    _Alignas(64) tess_fingerprint fingerprint;
    uint64_t in_offset, out_offset;   /* offsets of its buffers in the job's memory, or CONTROL_PRIVATE */
    uint64_t in_address, out_address; /* addresses of the buffers in its own process */
    uint32_t shown;                   /* 1: what it shows lies next to this post */
    uint32_t site;                    /* tess_fingerprint_site */
    uint64_t beside;                  /* bytes that lie there */
    uint64_t digest;                  /* digest of the fingerprint, which is read only when digests differ */
    _Atomic uint64_t arrivals;        /* arrivals of this rank in this slot, in total */
} tess_post;

/* Ranks pass the phases of an operation together: phase k is over when `arrivals` has grown by k times the team's size.
 */
typedef struct tess_slot {
    _Alignas(64) _Atomic uint64_t arrivals;
} tess_slot;

typedef struct tess_control {
    uint64_t bytes;            /* size of the whole area */
    _Atomic uint32_t n_left;   /* ranks that destroyed their handle; the last one frees the area */
    _Atomic uint32_t given_up; /* 1 + team rank of the first that cancelled */
    _Alignas(64) tess_slot slots[CONTROL_SLOTS];
    /* Posts and the rest follow, each aligned: posts (slots, ranks), inline (slots, ranks), channels (ranks, ranks),
     * stages (ranks, areas)
     */
} tess_control;

/* Bytes for a team of `size` ranks: 2.5 MiB of address space a rank, 1.5 GiB for 600, of which the channels are 8 bytes
 * for each pair of ranks. Untouched pages cost nothing, such as slots without short operations, channels that are not
 * used, and stages where buffers are shared. */
uint64_t tess_control_bytes(int size);

/* Bytes that a rank can show with its post. */
static inline uint64_t tess_control_inline_bytes(int size)
{
    uint64_t rows = ((uint64_t)size * CONTROL_INLINE_PER_RANK + 63) / 64 * 64;
    return rows > CONTROL_INLINE ? rows : CONTROL_INLINE;
}

/* Bytes of a stage. */
static inline uint64_t tess_control_stage_bytes(int size)
{
    uint64_t blocks = (uint64_t)size * CONTROL_STAGE_PER_RANK;
    return blocks > CONTROL_STAGE ? blocks : CONTROL_STAGE;
}

tess_post *tess_control_post(tess_control *control, int size, uint64_t sequence, int rank);
uint8_t *tess_control_inline(tess_control *control, int size, uint64_t sequence, int rank);
uint8_t *tess_control_stage(tess_control *control, int size, int rank, int area);
/* Offset of the channel from one rank to another in the job's memory; 0: not made yet. */
_Atomic uint64_t *tess_control_channel(tess_control *control, int size, int from, int to);

#endif
