/* Collectives over shared memory: each is a table of functions, and shm_exchange.c runs it. */
#ifndef TESS_COMM_SHM_SHM_IMPL_H
#define TESS_COMM_SHM_SHM_IMPL_H

#include <string.h>

#include "comm/shm/meeting.h"
#include "comm/reduce.h"

/* The paths by which peers read the data that a rank shows. Ranks choose the path from each other's posts, so all
 * choose the same. */
enum {
    SHM_NOTHING, /* the operation is complete once all have met */
    SHM_INLINE,  /* few bytes, copied next to the post */
    SHM_DIRECT,  /* the buffers are in the job's memory */
    SHM_REACHED, /* private memory, which the system copies from process to process */
    SHM_STAGED   /* private memory, copied through stages in rounds */
};

/* The functions of a collective. Every rank (or only the root) shows blocks of n elements, and copies what it needs
 * from the blocks of others. Rounds, phases and paths are common to all collectives. */
typedef struct shm_collective {
    bool block_per_rank; /* a rank shows one block for each rank; otherwise one block for all */
    bool root_shows;     /* only the root shows data */
    bool may_be_inline;
    bool never_direct;  /* peers cannot read the buffer in place */
    bool never_reached; /* the parts are too small and too many for a system call each */
    /* Writes data that needs no meeting, before others can see the post. May be NULL. */
    void (*post)(tess_work *work, tess_post *post);
    /* Called after the meeting: sets sizes that depend on others' posts. Sets `path` to SHM_NOTHING if nothing is
     * left to do. May be NULL. */
    tess_status (*meet)(tess_work *work);
    /* Copies the round's elements of all blocks to `to`; NULL: the blocks are equal, and stored one after the other. */
    void (*show)(tess_work *work, uint8_t *to);
    /* Computes, for large payloads, this rank's part of the round, which `take` on every rank then reads. May be
     * NULL. */
    void (*fold)(tess_work *work);
    void (*take)(tess_work *work);
} shm_collective;

extern const shm_collective shm_all_gather, shm_reduce_scatter, shm_all_reduce, shm_broadcast, shm_all_to_all,
    shm_all_to_all_v, shm_gather, shm_scatter, shm_barrier, shm_all_gather_pieces, shm_reduce_scatter_pieces;

static inline uint8_t *shm_inline(const tess_work *work, int rank)
{
    return tess_control_inline(work->team->control, work->team->size, work->fp.sequence, rank);
}

/* Returns the size of an element in the data that ranks show. */
static inline size_t shm_element(const tess_work *work)
{
    return tess_dtype_size(work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES ? work->in_dtype : work->dtype);
}

static inline bool shm_shows(const tess_work *work, int rank)
{
    return !shm_of(work)->collective->root_shows || rank == work->root;
}

static inline size_t shm_blocks(const tess_work *work)
{
    return shm_of(work)->collective->block_per_rank ? (size_t)work->team->size : 1;
}

/* Copies the round's elements of all blocks to `to` (meeting.c). */
void shm_show(tess_work *work, uint8_t *to);

/* Returns the distance in bytes between blocks in the copy. */
static inline size_t shm_stride(const tess_work *work)
{
    return (shm_of(work)->path == SHM_INLINE ? work->n : shm_of(work)->per_round) * shm_element(work);
}

/* Returns the whole buffer of a peer, mapped in this process (SHM_DIRECT). */
static inline const uint8_t *shm_in(const tess_work *work, int rank)
{
    return work->team->runtime->job.base + shm_post(work, rank)->in_offset;
}

static inline uint8_t *shm_stage(const tess_work *work, int rank, int area)
{
    return tess_control_stage(work->team->control, work->team->size, rank, area);
}

/* Returns the round's first element of a rank's block, if blocks are equal. This rank's own block is read in place. */
static inline const uint8_t *shm_peer(const tess_work *work, int rank, int block)
{
    if (rank == work->team->rank)
        return work->in + ((size_t)block * work->n + shm_of(work)->first) * shm_element(work);
    if (shm_of(work)->path == SHM_DIRECT)
        return shm_in(work, rank) + ((size_t)block * work->n + shm_of(work)->first) * shm_element(work);
    const uint8_t *base =
        shm_of(work)->path == SHM_INLINE ? shm_inline(work, rank) : shm_stage(work, rank, shm_of(work)->area);
    return base + (size_t)block * shm_stride(work);
}

/* ---- reach.c ---- */
/* Calls tess_reach. If it fails, the work stops until the peer's end is known or the deadline passes. */
void shm_reach(tess_work *work, void *to, int rank, uint64_t address, size_t bytes);
/* Whether all ranks may read each other's private memory, and the operation is large enough. */
bool shm_can_reach(const tess_work *work);
/* Computes out = the reduction of elements [first, first + n) of every rank's `in`. */
void shm_reach_reduce(tess_work *work, size_t first, size_t n, uint8_t *out);

/* Whether this rank writes more than a cache holds. */
static inline bool shm_streams(size_t bytes)
{
    return bytes >= REDUCE_STREAM_BYTES;
}

/* Copies the round's elements of a block to their place. */
static inline void shm_take_block(tess_work *work, uint8_t *to, int rank, int block)
{
    if (shm_of(work)->path == SHM_REACHED && rank != work->team->rank) {
        size_t element = shm_element(work);
        uint64_t from = shm_post(work, rank)->in_address + (size_t)block * work->n * element;
        shm_reach(work, to, rank, from, work->n * element);
        return;
    }
    const uint8_t *from = shm_peer(work, rank, block);
    if (to != from)
        tess_work_note(work, tess_copy(tess_work_stream(work), to, from, shm_of(work)->count * shm_element(work),
                                       shm_streams(work->out_bytes)));
}

#endif
