/* Implements the ring between ranks that divide tokens (tess_ring_points in nn/points.h): leaves are messages between
 * two ranks, which move while the ranks compute. */
#ifndef TESS_PARALLEL_TENSOR_RING_POINTS_H
#define TESS_PARALLEL_TENSOR_RING_POINTS_H

#include "device/stream.h"
#include "nn/points.h"
#include "tessera/comm.h"

typedef struct tess_ring tess_ring;

/* Creates the ring with two buffers of `bytes` each, the same number on all ranks. `stream` belongs to the executor;
 * its device has the buffers. If that is not the host, the team's runtime must know it (tess_runtime_use_device). Both
 * are borrowed until destroy. Collective, as destroy is. */
tess_status tess_ring_create(tess_mem *mem, tess_team *team, tess_stream *stream, size_t bytes, tess_ring **ring);
void tess_ring_destroy(tess_ring **ring);
/* Returns the bytes that such a ring takes of a device with memory of its own. Pure. */
size_t tess_ring_device_bytes(size_t bytes);

/* Returns the interface for the executor, valid until destroy. It fails as messages do: if a leaf does not come before
 * the team's deadline, the error names the leaf and the rank that has not sent it. */
tess_ring_points tess_ring_get_points(tess_ring *ring);

/* The leaves that this rank has received. */
typedef struct tess_ring_traffic {
    uint64_t bytes, leaves;
    uint64_t in_time; /* leaves that had come when they were needed */
} tess_ring_traffic;
tess_ring_traffic tess_ring_get_traffic(const tess_ring *ring);

#endif
