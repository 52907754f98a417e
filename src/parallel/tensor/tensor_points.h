/* Implements the exchange points (nn/points.h) of a team of ranks that share a model: boxes of matrices move between
 * the ranks (comm/box_move.h). */
#ifndef TESS_PARALLEL_TENSOR_TENSOR_POINTS_H
#define TESS_PARALLEL_TENSOR_TENSOR_POINTS_H

#include "device/stream.h"
#include "nn/points.h"
#include "tessera/comm.h"

typedef struct tess_tensor tess_tensor;

/* Creates the points for exchanges in which no rank holds more than `most` bytes; all ranks pass the same `most`.
 * `stream` belongs to the executor, and its device has the matrices. If that is not the host, the team's runtime must
 * know it (tess_runtime_use_device). Both are borrowed until destroy. Collective, as destroy is. */
tess_status tess_tensor_create(tess_mem *mem, tess_team *team, tess_stream *stream, size_t most, tess_tensor **tensor);
void tess_tensor_destroy(tess_tensor **tensor);
/* Returns the bytes that they take of a device with memory of its own: see tess_box_room_device_bytes. */
size_t tess_tensor_device_bytes(const tess_team *team, size_t most);

/* Returns the interface for the executor, valid until destroy. An exchange of more than `most` bytes is
 * TESS_E_INVALID. Otherwise it fails as collectives do: the guard names a rank that does not come, and the ranks
 * that wait give up at the team's deadline. */
tess_points tess_tensor_points(tess_tensor *tensor);

/* Returns the bytes that this rank has received from others. */
uint64_t tess_tensor_received(const tess_tensor *tensor);

#endif
