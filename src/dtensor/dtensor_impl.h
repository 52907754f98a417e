/* Declarations that the files of this folder share.
 *
 *   spec.c          which rank holds which part
 *   moves.c         plans a change of placements as moves
 *   redistribute.c  carries out the moves
 *   dtensor.c       creates tensors and answers questions
 *   operations.c    computes with tensors
 *   map_local.c     runs a caller's function on each rank's part
 *   inspect.c       describes tensors as text and compares replicas */
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

/* The sizes of a mesh and a rank's coordinates in it, by axis. */
typedef struct mesh_point {
    int sizes[TESS_MESH_MAX_AXES], at[TESS_MESH_MAX_AXES];
} mesh_point;

mesh_point mesh_point_of(const tess_mesh *mesh);

static inline bool place_is(tess_place place, tess_place_kind kind, int dim)
{
    return place.kind == kind && (kind != TESS_SHARD || place.dim == dim);
}

/* Lists the axes that cut dimension `dim`, in the order in which they cut. Returns their number. */
int spec_stack(const tess_spec *spec, int dim, int stack[TESS_MESH_MAX_AXES]);

/* Returns `spec` after a move. If the move's target is a shard, its axis cuts after all others. */
tess_spec spec_after(const tess_spec *spec, const tess_move *move);

/* Creates a tensor of zeros without checking the arguments. */
tess_status dtensor_new(tess_mesh *mesh, const tess_spec *spec, tess_dtype dtype, tess_dtensor **out);

size_t dtensor_bytes(const tess_dtensor *tensor); /* bytes of this rank's box */

/* Copies the elements that the boxes of both tensors have in common. */
void dtensor_copy_common(const tess_dtensor *from, tess_dtensor *to);

#endif
