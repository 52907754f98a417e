/* Moves boxes of a tensor between the ranks of a team, in memory of the host or of the runtime's device.
 *
 * With a room, ranks of one host pack what they have into memory that all of them read, meet once, and copy the parts
 * that they want from there. On a device the memory is a window (comm/device_windows.h), so no byte passes through the
 * host. In all other cases the parts go in one all_to_all_v: over several hosts, between devices that cannot read each
 * other's memory, and without a room. */
#ifndef TESS_COMM_BOX_MOVE_H
#define TESS_COMM_BOX_MOVE_H

#include "device/stream.h"
#include "tessera/comm.h"

/* Rank r of the team has the elements of had[r], and receives those elements of gets[r] that any rank has. Boxes may be
 * empty. `in` and `out` do not overlap, except that the elements of `in` may already be at their places in `out`. */
typedef struct tess_box_move {
    int n_dims;                  /* at least 1 */
    size_t element;              /* bytes */
    const tess_box *had, *gets;  /* (size of the team) */
    const void *in;              /* had[this rank], row-major */
    void *out;                   /* gets[this rank], row-major */
    int64_t in_pitch, out_pitch; /* elements between two rows of the last dimension; 0: no gap */
} tess_box_move;

typedef struct tess_box_room tess_box_room;

/* Creates a room for moves in which no rank has more than `most` bytes, which must be equal on all ranks. `stream`
 * copies the elements. It is borrowed until destroy. If its device is not the host, it must be the one that
 * tess_runtime_use_device named. Collective, as destroy is. */
tess_status tess_box_room_create(tess_team *team, tess_stream *stream, size_t most, tess_box_room **room);
void tess_box_room_destroy(tess_box_room **room);
/* Returns the bytes that such a room takes of a device with memory of its own, if ranks of one host read each other's
 * GPUs. */
size_t tess_box_room_device_bytes(const tess_team *team, size_t most);

/* Moves the boxes. `room` NULL: `in` and `out` are memory of the host. On a device the stream of the room may still
 * have to do the copies when this returns. *received: bytes from other ranks. Collective over the team.
 * TESS_E_INVALID: a rank has more bytes than the room was created for. */
tess_status tess_move_boxes(tess_team *team, tess_box_room *room, const tess_box_move *move, size_t *received);

#endif
