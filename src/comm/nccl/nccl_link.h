/* A link lets ranks exchange GPU memory through NCCL. It carries messages only and sums nothing, so the callers
 * determine the bits. No call waits longer than the link's deadline, even if a rank never comes.
 *
 * One thread at a time may use a link. All members must make their calls in the same order. */
#ifndef TESS_COMM_NCCL_NCCL_LINK_H
#define TESS_COMM_NCCL_NCCL_LINK_H

#include <stdbool.h>

#include "comm/nccl/nccl_library.h"
#include "device/device.h"

typedef struct tess_nccl_link tess_nccl_link;

/* The parameters of a member that joins a link. */
typedef struct tess_nccl_seat {
    const char *name; /* name of the team, for messages */
    int rank, size;   /* this member's rank, in [0, size), and the number of members */
    nccl_id id;       /* the same for all */
    double deadline_s;
    /* Called every few milliseconds of a wait that has lasted `waited_s`. A result other than TESS_OK ends the wait
     * with that status, for example if the board shows that a rank was lost. NULL: the wait is never interrupted. */
    tess_status (*look)(void *self, double waited_s);
    void *self;
} tess_nccl_seat;

/* A transfer of device memory to or from a member. If `bytes` is 0, there is no message. */
typedef struct tess_nccl_message {
    void *data; /* if `sends`, the memory is only read */
    size_t bytes;
    int peer;
    bool sends;
} tess_nccl_message;

/* Creates a new id for one link. One member creates it and gives it to the others. A thread of that member's process
 * serves the id over the network until the link is made, so the process must stay alive. Errors: those of
 * tess_nccl_open, and TESS_E_IO if no network can be used. */
tess_status tess_nccl_id_create(nccl_id *id);

/* Whether the device can have links. Errors: those of tess_nccl_open, and TESS_E_INVALID: it is not an NVIDIA GPU. */
tess_status tess_nccl_check(tess_device *device);

/* Whether a thread may begin to create and use links while others of its links connect or send. Older libraries keep
 * the state of one unfinished group in a thread. Errors: those of tess_nccl_check, and TESS_E_UNSUPPORTED: the library
 * is older than 2.27.3. */
tess_status tess_nccl_check_overlap(tess_device *device);

/* Begins to create a link. Collective over the members, which tess_nccl_settled or tess_nccl_wait awaits. `device`: an
 * NVIDIA device, borrowed. A GPU has one member, unless NCCL_HOSTID makes members appear to be on different hosts. On
 * failure, *link is NULL and NCCL has released everything. Errors: those of tess_nccl_check, and of NCCL, with
 * advice. */
tess_status tess_nccl_link_create(tess_mem *mem, tess_device *device, const tess_nccl_seat *seat,
                                  tess_nccl_link **link);

/* Enqueues n messages as one exchange on `stream`, which must belong to the link's device. The messages do not wait
 * for each other, so their order in the array is free. Each message sent must be received by the peer with the same
 * size. Several messages between two members keep their order.
 *
 * The host never waits for the data. Until the enqueued work has run, the stream may read sent memory and write
 * received memory. What was begun before must have settled, and until this has, nothing else may be enqueued on the
 * stream. */
tess_status tess_nccl_begin(tess_nccl_link *link, tess_stream *stream, const tess_nccl_message *messages, int n);

/* *settled: the link is created, or the exchange is enqueued. At the first message between two members, that is when
 * all peers have called. Also reports an error of NCCL in the enqueued work, so call it while the host waits for the
 * stream. After an error the enqueued work is abandoned, and only tess_nccl_link_destroy may be called.
 * TESS_E_PEER_LOST: a connection broke. */
tess_status tess_nccl_settled(tess_nccl_link *link, bool *settled);
/* Waits until what was begun has settled. Errors: those of tess_nccl_settled, of seat->look, and TESS_E_TIMEOUT: not
 * all members came by the deadline (the caller knows which). */
tess_status tess_nccl_wait(tess_nccl_link *link);

/* Destroys the link. If `orderly`, it is collective: waits for the enqueued work and for the members, at most until
 * the deadline. Otherwise, and after any error, the enqueued work is abandoned, and exchanges of the peers fail or
 * time out. */
void tess_nccl_link_destroy(tess_nccl_link **link, bool orderly);

#endif
