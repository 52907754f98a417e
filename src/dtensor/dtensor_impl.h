/* Private to this folder. spec.c: who holds what. moves.c: what a change of placements moves. redistribute.c moves it.
 * dtensor.c makes tensors and answers questions. operations.c computes with them, map_local.c lets others do so. */
#ifndef TESS_DTENSOR_DTENSOR_IMPL_H
#define TESS_DTENSOR_DTENSOR_IMPL_H

#include "tessera/dtensor.h"

enum { DTENSOR_MAX_OPERANDS = 16 };

struct tess_dtensor {
    tess_mesh *mesh;
    tess_mem *mem;
    tess_spec spec;
    tess_dtype dtype;
    tess_box box;
    void *data; /* the box's elements, row-major */
};

/* Sizes and this rank's coordinates of a mesh, by axis. */
typedef struct mesh_point {
    int sizes[TESS_MESH_MAX_AXES], at[TESS_MESH_MAX_AXES];
} mesh_point;

mesh_point mesh_point_of(const tess_mesh *mesh);

static inline bool place_is(tess_place place, tess_place_kind kind, int dim)
{
    return place.kind == kind && (kind != TESS_SHARD || place.dim == dim);
}

/* The axes that cut dimension `dim`, in the order in which they cut. Returns their number. */
int spec_stack(const tess_spec *spec, int dim, int stack[TESS_MESH_MAX_AXES]);

/* `spec` after a move: where the target is a shard, the axis cuts after all others. */
tess_spec spec_after(const tess_spec *spec, const tess_move *move);

/* A tensor without a check of its arguments; all elements 0. */
tess_status dtensor_new(tess_mesh *mesh, const tess_spec *spec, tess_dtype dtype, tess_dtensor **out);

size_t dtensor_bytes(const tess_dtensor *tensor); /* bytes of this rank's box */

/* Copies what the boxes of both have in common. */
void dtensor_copy_common(const tess_dtensor *from, tess_dtensor *to);

/* Rank r of the team has the elements of had[r] and gets those of gets[r], of what any rank has; boxes with no elements
 * are fine. `in` and `out` hold this rank's boxes. *bytes: got from others. Collective over `team`. */
tess_status dtensor_send_boxes(tess_team *team, tess_mem *mem, int n_dims, tess_dtype dtype, const tess_box *had,
                               const void *in, const tess_box *gets, void *out, size_t *bytes);

#endif
