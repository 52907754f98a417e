/* The points (nn/points.h) of a team of ranks that share a model: boxes of matrices move between them.
 *
 * On one host each rank writes what it holds into memory that all of them read, meets the others once, and takes what
 * it wants from there: two copies. Over hosts parts are packed for one all_to_all_v. */
#ifndef TESS_PARALLEL_TENSOR_TENSOR_POINTS_H
#define TESS_PARALLEL_TENSOR_TENSOR_POINTS_H

#include "device/stream.h"
#include "nn/points.h"
#include "tessera/comm.h"

typedef struct tess_tensor tess_tensor;

/* Serves exchanges of which no rank holds more than `most` bytes; all ranks pass the same `most`. `stream`: the
 * executor's, whose device has the matrices. Both are borrowed until destroy. Collective, as destroy is. */
tess_status tess_tensor_create(tess_mem *mem, tess_team *team, tess_stream *stream, size_t most, tess_tensor **tensor);
void tess_tensor_destroy(tess_tensor **tensor);

/* Valid until destroy. An exchange is TESS_E_INVALID for more than `most` bytes, and else fails as collectives do: a
 * rank that does not come is named by the guard, and those who wait for it give up at the team's deadline. */
tess_points tess_tensor_points(tess_tensor *tensor);

/* Bytes that this rank has got from others. */
uint64_t tess_tensor_received(const tess_tensor *tensor);

/* Bytes of the comm pool that tensors of `degree` ranks on one host take: on the team's first rank. */
size_t tess_tensor_shared_bytes(int degree, size_t most);

#endif
