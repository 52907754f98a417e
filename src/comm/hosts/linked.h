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
    uint8_t *buffer; /* device memory that is a window of the team */
    size_t bytes;    /* number of its bytes that rounds use; equal on all ranks */
    const ondevice_window *window;
    tess_nccl_message *messages;
    int n_messages, room;
    uint64_t done[HOSTS_DEVICE_STAGES]; /* stages that this rank has completed in total, as in its counter */
} hosts_linked;

/* ---- pair.c ---- */
/* Begins to create a link between members of the team. Connecting fails after half the team's timeout. So a rank whose
 * part has already failed, and which waits for the others, is not the first to time out. */
tess_status hosts_link_create(tess_team *team, int rank, int size, const nccl_id *id, tess_nccl_link **link);

static inline hosts_linked_work *linked_of(const tess_work *work)
{
    return &((hosts_work *)tess_work_state(work))->linked;
}

/* ---- linked_kernels.c ---- */
/* Chooses the number of elements in a round so that its data fits in the buffer. */
void hosts_linked_plan(const tess_work *work);
/* Begins a round: packs or adds data for other hosts, and begins the exchange. `second`: the gathering exchange of
 * an all_reduce. */
tess_status hosts_linked_begin(tess_work *work, uint64_t round, bool second);
/* Second half of a reduction round: adds the partial sums that the first exchange received. */
tess_status hosts_linked_finish(tess_work *work, uint64_t round);
/* Second half of a gather round, called when the messages of all siblings have arrived. */
tess_status hosts_linked_take(tess_work *work, uint64_t round);

/* Whether blocks go from rank to rank, in one exchange. */
static inline bool hosts_linked_is_straight(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_ALL_TO_ALL_V;
}

static inline bool hosts_linked_sums(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES || work->fp.kind == TESS_TRACE_ALL_REDUCE;
}

static inline bool hosts_linked_gathers(const tess_work *work)
{
    return work->fp.kind != TESS_TRACE_REDUCE_SCATTER_PIECES && !hosts_linked_is_straight(work);
}

#endif
