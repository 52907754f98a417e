/* Ranks that exchange bytes of GPU memory through NCCL: messages only, so nothing is summed here, and bits are the
 * callers'. No call waits longer than the link's deadline, even if a rank never comes.
 *
 * One thread at a time uses a link; all members make their calls in one order. */
#ifndef TESS_COMM_NCCL_NCCL_LINK_H
#define TESS_COMM_NCCL_NCCL_LINK_H

#include <stdbool.h>

#include "comm/nccl/nccl_library.h"
#include "device/device.h"

typedef struct tess_nccl_link tess_nccl_link;

/* The facts that a member gives of itself. */
typedef struct tess_nccl_seat {
    const char *name; /* name of the team, for messages */
    int rank, size;   /* rank among the members, in [0, size) */
    nccl_id id;       /* the same for all members */
    double deadline_s;
    /* Called every few milliseconds of a wait that has lasted `waited_s`: anything but TESS_OK ends it with this
     * status, as when the board says that a rank was lost. NULL: nothing is asked. */
    tess_status (*look)(void *self, double waited_s);
    void *self;
} tess_nccl_seat;

/* Bytes of device memory to a member, or from it. 0 bytes are no message. */
typedef struct tess_nccl_message {
    void *data; /* not written where `sends` */
    size_t bytes;
    int peer;
    bool sends;
} tess_nccl_message;

/* A new id, for one link: one member makes it and gives it to the others. It keeps a thread that the members reach over
 * the network until the link is made, so its process must be a member, and stay. Errors: as tess_nccl_open, and
 * TESS_E_IO where no network can be used. */
tess_status tess_nccl_id_create(nccl_id *id);

/* Collective over the members. `device`: one of NVIDIA's, borrowed; a GPU has one member, unless NCCL_HOSTID makes them
 * seem to be of different hosts. On failure *link is NULL, and NCCL has released everything.
 * TESS_E_TIMEOUT: not all members came (the caller knows who); TESS_E_PEER_LOST: a connection broke; TESS_E_INVALID:
 * the device is not one of NVIDIA's; as tess_nccl_open; else of NCCL's, with what to do. */
tess_status tess_nccl_link_create(tess_mem *mem, tess_device *device, const tess_nccl_seat *seat,
                                  tess_nccl_link **link);

/* Enqueues n messages on `stream`, of the link's device, as one exchange: none waits for another, so any order of them
 * is right. Each message that one member sends is one that its peer receives, of as many bytes; several between two
 * members keep their order. Returns once they are enqueued, which takes until all peers have come at a pair's first
 * message; the host does not wait for the bytes. Sent memory is the stream's to read, and received memory its to
 * write, until what is enqueued here has run. After an error the link only takes tess_nccl_link_destroy. */
tess_status tess_nccl_exchange(tess_nccl_link *link, tess_stream *stream, const tess_nccl_message *messages, int n);

/* The same in two parts, for a caller that may not wait: begin, then ask until *settled. Nothing else is enqueued on
 * the stream, and no exchange of the link begun, before that. */
tess_status tess_nccl_begin(tess_nccl_link *link, tess_stream *stream, const tess_nccl_message *messages, int n);
tess_status tess_nccl_settled(tess_nccl_link *link, bool *settled);

/* Whether NCCL has met an error of what was enqueued: to be asked while the host waits for the stream. */
tess_status tess_nccl_link_check(tess_nccl_link *link);

/* `orderly`: collective, waits for what is enqueued and for the members, at most until the deadline. Otherwise, and
 * after any error, what is enqueued is given up, and the peers' exchanges fail or wait for their deadline. */
void tess_nccl_link_destroy(tess_nccl_link **link, bool orderly);

#endif
