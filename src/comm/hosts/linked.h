/* Operations on memory of GPUs over several hosts. Ranks meet as always. Then messages go from GPU to GPU through NCCL,
 * between a rank and its handlers (hosts_impl.h), and siblings read each other's windows: sums cross as partials of
 * the canonical tree, so the bits are those of one host.
 *
 * A rank's buffer is a window of the team. In a round of a gather it holds the rank's own block's elements, and after
 * them those of the ranks that it handles; in one of a sum the partials that it sends, then those that it gets. An
 * all_reduce has both. Siblings inform each other by counters what is ready, what has landed and what was read. */
#ifndef TESS_COMM_HOSTS_LINKED_H
#define TESS_COMM_HOSTS_LINKED_H

#include "comm/hosts/hosts_impl.h"
#include "comm/nccl/nccl_link.h"
#include "comm/ondevice/ondevice.h"

enum { HOSTS_LINK_BYTES = 64 << 20 };

typedef struct hosts_linked {
    tess_nccl_link *link;
    uint8_t *buffer; /* memory of the device, a window of the team */
    size_t bytes;    /* bytes of it that rounds use: the same on all ranks */
    const ondevice_window *window;
    tess_nccl_message *messages;
    int n_messages, room;
    uint64_t done[HOSTS_DEVICE_STAGES]; /* by this rank, ever: as its counter says */
} hosts_linked;

static inline hosts_linked_work *linked_of(const tess_work *work)
{
    return &((hosts_work *)tess_work_state(work))->linked;
}

/* ---- linked_kernels.c ---- */
/* Chooses the elements of a round, so that the buffer holds them. */
void hosts_linked_plan(const tess_work *work);
/* Begins a round: packs or adds for others, and begins the exchange. `second`: the exchange of an all_reduce that
 * gathers. */
tess_status hosts_linked_begin(tess_work *work, uint64_t round, bool second);
/* Second half of a reduction round: adds the partial sums that the first exchange received. */
tess_status hosts_linked_finish(tess_work *work, uint64_t round);
/* Second half of a round of a gather, when all siblings' messages have landed. */
tess_status hosts_linked_take(tess_work *work, uint64_t round);

static inline bool hosts_linked_sums(const tess_work *work)
{
    return work->fp.kind != TESS_TRACE_ALL_GATHER && work->fp.kind != TESS_TRACE_ALL_GATHER_PIECES;
}

static inline bool hosts_linked_gathers(const tess_work *work)
{
    return work->fp.kind != TESS_TRACE_REDUCE_SCATTER_PIECES;
}

#endif
