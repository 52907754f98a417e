/* What a rank asks a team for, and what stands between the asking and the doing: whoever observes a runtime
 * (src/inject) sees each operation here before anybody else does, and each phase. */
#ifndef TESS_COMM_WORK_H
#define TESS_COMM_WORK_H

#include "comm/pieces.h"
#include "job/fingerprint.h"

typedef struct comm_counts {
    const size_t *in_counts, *in_offsets, *out_counts, *out_offsets;
} comm_counts;

typedef struct comm_pieces {
    const tess_piece *pieces;
    size_t n;
} comm_pieces;

struct tess_work {
    tess_work *next;
    tess_team *team;
    tess_fingerprint fp;
    tess_status status;
    bool done;
    bool is_short;       /* it is complete as soon as all have come */
    uint64_t event;      /* its number in the ring */
    uint64_t started_ns; /* all have come; 0: not yet, or it is short */
    bool blocks;         /* who asked for it waits */
    bool detached;       /* nobody waits on it: it goes when it is done */

    const uint8_t *in; /* what this rank shows, NULL: nothing */
    uint8_t *out;
    size_t in_bytes, out_bytes; /* extents of the two */
    size_t n;                   /* elements of one block */
    tess_dtype dtype, in_dtype;
    tess_op op;
    int root; /* or the peer */
    bool accumulate;
    comm_counts counts;
    comm_pieces pieces;

    const struct comm_link *link; /* of a send or receive */
};

/* What its backend or its link keeps of it lies behind it (comm_backend.work_bytes), in zeroes at first. */
static inline void *tess_work_state(const tess_work *work)
{
    return (void *)(uintptr_t)(work + 1);
}

/* ---- work.c ---- */
/* A fresh work of the team, filled with defaults; the team is locked until tess_work_submit. Fails when the team is
 * broken. */
tess_status tess_work_begin(tess_team *team, tess_trace_op kind, const void *call_site, tess_work **work);
/* Starts it and gives the handle, or waits when `handle` is NULL; with the faults that are to be injected. */
tess_status tess_work_submit(tess_work *work, tess_work **handle);
/* The same without. */
tess_status tess_work_post(tess_work *work, tess_work **handle);
static inline bool tess_work_is_message(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_SEND || work->fp.kind == TESS_TRACE_RECV;
}

/* Ends a work that was begun and not posted: for who asked for it it is done, and nobody else hears of it. */
tess_status tess_work_pretend(tess_work *work, tess_work **handle);
/* Begins and posts what `request` is a copy of. `detached`: nobody waits on it. */
tess_status tess_work_repeat(const tess_work *request, bool detached, tess_work **handle);

/* ---- team.c ---- */
/* Another team of as many ranks that is not broken; NULL: there is none. */
tess_team *tess_team_find_alike(const tess_team *team);
uint64_t tess_team_hash(const tess_team *team);

/* ---- Observers (runtime.c) ---- */
typedef struct comm_observer {
    void *self;
    /* In place of tess_work_post. */
    tess_status (*submit)(tess_work *work, tess_work **handle);
    /* The phase under way is over; the next one has begun. */
    void (*phase_over)(void *self);
    void (*phase)(tess_runtime *runtime, const char *phase, int64_t step, int64_t detail);
    /* The runtime ends, in good order or not: frees self. */
    void (*end)(tess_runtime *runtime, void *self, bool orderly);
} comm_observer;

/* Copied; once in a runtime's life. */
void tess_runtime_observe(tess_runtime *runtime, const comm_observer *observer);
void *tess_runtime_observer(const tess_runtime *runtime); /* its self; NULL: nobody observes */

#endif
