/* A work is a requested operation. A hook between request and start lets an observer of the runtime (src/inject) see
 * each operation and each phase first. */
#ifndef TESS_COMM_WORK_H
#define TESS_COMM_WORK_H

#include "comm/leaf_sum.h"
#include "comm/pieces.h"
#include "job/fingerprint.h"

typedef struct comm_counts {
    const size_t *in_counts, *in_offsets, *out_counts, *out_offsets;
} comm_counts;

typedef struct comm_pieces {
    const tess_piece *pieces;
    size_t n;
} comm_pieces;

/* State of an operation on device memory (comm/ondevice). */
typedef struct comm_on_device {
    bool is;    /* the operation is on device memory */
    bool waits; /* the operation waits for this rank's own device */
    int step;
    struct ondevice_message *message; /* a message that has begun: its events and memory; otherwise NULL */
} comm_on_device;

struct tess_work {
    tess_work *next;
    tess_team *team;
    const struct comm_backend
        *backend; /* the backend that starts and advances the work: the team's, or the one for device memory */
    comm_on_device device;
    tess_fingerprint fp;
    tess_status status;
    bool done;
    bool is_short;       /* complete when all ranks have met */
    uint64_t event;      /* number of the operation's event in the ring */
    uint64_t received;   /* bytes that the operation brings from other ranks */
    uint64_t started_ns; /* time when all ranks had met; 0: not yet, or the work is short */
    bool blocks;         /* the caller waits */
    bool detached;       /* no caller waits for the work: it is released when done */

    const uint8_t *in; /* NULL: this rank shows nothing */
    uint8_t *out;
    size_t in_bytes, out_bytes; /* sizes of the two buffers */
    size_t n;                   /* number of elements in one block */
    tess_dtype dtype, in_dtype;
    tess_op op;
    int root; /* root or peer */
    bool accumulate;
    const tess_leaf_step *steps; /* steps of reduce_scatter_pieces; NULL: `out` gets the sum over all ranks */
    int n_steps;
    comm_counts counts;
    comm_pieces pieces;

    const struct comm_link *link; /* link of a send or receive; otherwise NULL */
};

/* Returns the state of the backend or the link, stored after the work (comm_backend.work_bytes). It is zero at
 * first. */
static inline void *tess_work_state(const tess_work *work)
{
    return (void *)(uintptr_t)(work + 1);
}

/* Returns the steps of a reduce_scatter_pieces. `sum`: memory for the single step of a plain sum. */
static inline const tess_leaf_step *tess_work_steps(const tess_work *work, int n_ranks, tess_leaf_step *sum, int *n)
{
    *sum = (tess_leaf_step){.n = n_ranks, .y = (float *)(void *)work->out, .accumulate = work->accumulate};
    *n = work->steps != NULL ? work->n_steps : 1;
    return work->steps != NULL ? work->steps : sum;
}

/* ---- work.c ---- */
/* Creates a work of the team, filled with defaults. The team is locked until tess_work_submit. Fails if the team is
 * broken. */
tess_status tess_work_begin(tess_team *team, tess_trace_op kind, const void *call_site, tess_work **work);
/* Starts the work and returns the handle; if `handle` is NULL, waits for it. Faults are injected here. */
tess_status tess_work_submit(tess_work *work, tess_work **handle);
/* Like tess_work_submit, without faults. */
tess_status tess_work_post(tess_work *work, tess_work **handle);
static inline bool tess_work_is_message(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_SEND || work->fp.kind == TESS_TRACE_RECV;
}

/* Completes a work that was begun and not posted. The caller sees it as done; peers never see it. */
tess_status tess_work_pretend(tess_work *work, tess_work **handle);
/* Begins and posts another operation like `request`, which is a copy of a work. `detached`: no caller waits for it. */
tess_status tess_work_repeat(const tess_work *request, bool detached, tess_work **handle);

/* ---- team.c ---- */
/* Returns another team of the same size that is not broken; NULL: there is none. */
tess_team *tess_team_find_alike(const tess_team *team);
uint64_t tess_team_hash(const tess_team *team);

/* ---- Observers (runtime.c) ---- */
typedef struct comm_observer {
    void *self;
    /* Called in place of tess_work_post. */
    tess_status (*submit)(tess_work *work, tess_work **handle);
    /* phase_over: called when the current phase has ended. phase: called when the next phase has begun. */
    void (*phase_over)(void *self);
    void (*phase)(tess_runtime *runtime, const char *phase, int64_t step, int64_t detail);
    /* Called when the runtime ends, in good order or not. Frees self. */
    void (*end)(tess_runtime *runtime, void *self, bool orderly);
} comm_observer;

/* Sets the observer, which is copied. May be called once in a runtime's life. */
void tess_runtime_observe(tess_runtime *runtime, const comm_observer *observer);
void *tess_runtime_observer(const tess_runtime *runtime); /* returns the observer's self; NULL: no observer */

#endif
