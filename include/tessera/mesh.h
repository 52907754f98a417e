/* tess_mesh: an n-dimensional, row-major grid of ranks with named axes and a team for each axis.
 *
 * The last axis varies fastest: rank = ((c0 * d1) + c1) * d2 + c2. Ranks that differ only in one coordinate form a
 * team of that axis. */
#ifndef TESSERA_MESH_H
#define TESSERA_MESH_H

#include "tessera/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TESS_MESH_MAX_AXES = 6, TESS_MESH_NAME_SIZE = 24 };

typedef struct tess_mesh tess_mesh;

typedef struct tess_axis {
    const char *name;
    int size; /* one axis may have -1: its size follows from the world size */
} tess_axis;

/* Creates a mesh over the runtime's ranks. Collective. Borrows the runtime, which must outlive the mesh; copies the
 * names.
 * TESS_E_INVALID: the product of the sizes is not the world size (the message shows the calculation), a name occurs
 * twice, or more than one size is -1
 * Other errors are those of tess_team_split. */
TESS_API tess_status tess_mesh_create(tess_runtime *runtime, const tess_axis *axes, int n_axes, tess_mesh **mesh);
/* Creates a mesh over the ranks of `team` only, with the rank numbers of the team. Borrows the team, which must
 * outlive the mesh. Collective over the team. */
TESS_API tess_status tess_mesh_create_over(tess_team *team, const tess_axis *axes, int n_axes, tess_mesh **mesh);
/* Creates a mesh over the ranks of `team` in another order. ranks (size of the team) lists the team's ranks by their
 * place in the row-major grid; all ranks pass the same list, which is copied. The mesh numbers ranks by place:
 * tess_team_global_rank(tess_mesh_all(mesh), place) is the number in the job. Collective over the team.
 * TESS_E_INVALID: a rank is outside the team or listed twice
 * TESS_E_MISMATCH: ranks pass different lists */
TESS_API tess_status tess_mesh_create_ranks(tess_team *team, const tess_axis *axes, int n_axes, const int *ranks,
                                            tess_mesh **mesh);
/* Creates a mesh over the ranks of `team` in an order that keeps every group of the axis `inside` on one host.
 * Otherwise like tess_mesh_create_ranks. Collective over the team.
 * TESS_E_INVALID: no such axis, or the axis's size does not divide the number of ranks of a host, which is named */
TESS_API tess_status tess_mesh_create_inside(tess_team *team, const tess_axis *axes, int n_axes, const char *inside,
                                             tess_mesh **mesh);
/* Destroys the mesh and its teams, and nulls the handle. NULL is allowed. */
TESS_API void tess_mesh_destroy(tess_mesh **mesh);

TESS_API int tess_mesh_axes(const tess_mesh *mesh);                   /* number of axes */
TESS_API int tess_mesh_axis(const tess_mesh *mesh, const char *name); /* index of the axis, or -1 */
/* Return name and size of axes 0 .. tess_mesh_axes - 1; "" and -1 for others. */
TESS_API const char *tess_mesh_axis_name(const tess_mesh *mesh, int axis);
TESS_API int tess_mesh_axis_size(const tess_mesh *mesh, int axis);
TESS_API int tess_mesh_coordinate(const tess_mesh *mesh, int axis); /* coordinate of this rank */

/* Convert a rank to coordinates (one per axis) and back. Outside the grid: TESS_E_INVALID, and -1. */
TESS_API tess_status tess_mesh_coordinates(const tess_mesh *mesh, int rank, int *coordinates);
TESS_API int tess_mesh_rank(const tess_mesh *mesh, const int *coordinates);

/* Returns this rank's team along one axis, which the mesh owns. NULL if there is no such axis. */
TESS_API tess_team *tess_mesh_team(const tess_mesh *mesh, const char *axis);

/* Creates a sub-mesh over the named axes (in the mesh's order), with the other axes fixed at this rank's
 * coordinates. Collective over the whole mesh. The slice may outlive the mesh; the caller must destroy it before the
 * runtime.
 * TESS_E_INVALID: no such axis, or one is named twice
 * tess_mesh_all returns the team of all ranks of a mesh or slice (row-major), which that mesh owns. */
TESS_API tess_status tess_mesh_slice(tess_mesh *mesh, const char *const *names, int n_names, tess_mesh **slice);
TESS_API tess_team *tess_mesh_all(const tess_mesh *mesh);

/* Whether an axis crosses hosts: somewhere in the mesh, ranks that differ only in this coordinate are on different
 * hosts, so that the axis's collectives use a network. False if there is no such axis. */
TESS_API bool tess_mesh_axis_crosses_hosts(const tess_mesh *mesh, int axis);

/* Writes "mesh 2 x 4 (dp_replicate, dp_shard)\n  dp_replicate 0: ranks 0 1 2 3\n...". With several hosts there is a
 * second line "  hosts h1: ranks 0-3, h2: ranks 4-7; dp_replicate crosses hosts, dp_shard stays inside a host".
 * Returns the length, like snprintf. */
TESS_API int tess_mesh_format(const tess_mesh *mesh, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
