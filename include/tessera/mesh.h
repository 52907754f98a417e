/* tess_mesh: an n-dimensional, named, row-major grid of ranks with a team per axis.
 *
 * The last axis varies fastest: rank = ((c0 * d1) + c1) * d2 + c2. Ranks that differ in one coordinate only form that
 * axis's team. */
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
    int size; /* one axis may say -1: whatever is left of the world */
} tess_axis;

/* Collective over the runtime's ranks. TESS_E_INVALID: sizes do not multiply to the world size (the message shows the
 * arithmetic), a name twice, more than one -1; also the errors of tess_team_split. The runtime is borrowed and must
 * outlive the mesh; names are copied. */
TESS_API tess_status tess_mesh_create(tess_runtime *runtime, const tess_axis *axes, int n_axes, tess_mesh **mesh);
/* The same over the ranks of `team` alone: the numbers of its ranks are those in the team, which is borrowed and must
 * outlive the mesh. Collective over the team. */
TESS_API tess_status tess_mesh_create_over(tess_team *team, const tess_axis *axes, int n_axes, tess_mesh **mesh);
/* Destroys the mesh and its teams, and nulls the handle. NULL is fine. */
TESS_API void tess_mesh_destroy(tess_mesh **mesh);

TESS_API int tess_mesh_axes(const tess_mesh *mesh);                   /* number of axes */
TESS_API int tess_mesh_axis(const tess_mesh *mesh, const char *name); /* index, or -1 */
/* Name and size of axes 0 .. tess_mesh_axes - 1; "" and -1 for others. */
TESS_API const char *tess_mesh_axis_name(const tess_mesh *mesh, int axis);
TESS_API int tess_mesh_axis_size(const tess_mesh *mesh, int axis);
TESS_API int tess_mesh_coordinate(const tess_mesh *mesh, int axis); /* coordinate of this rank */

/* Rank to coordinates (one per axis) and back; TESS_E_INVALID and -1 outside the grid. */
TESS_API tess_status tess_mesh_coordinates(const tess_mesh *mesh, int rank, int *coordinates);
TESS_API int tess_mesh_rank(const tess_mesh *mesh, const int *coordinates);

/* The team of this rank along one axis; owned by the mesh. NULL when there is no such axis. */
TESS_API tess_team *tess_mesh_team(const tess_mesh *mesh, const char *axis);

/* A sub-mesh over the named axes (in the mesh's order), the others fixed at this rank's coordinates. Collective
 * over the whole mesh. The caller destroys the slice before the runtime; the slice may outlive the mesh.
 * TESS_E_INVALID: no such axis, or one is named twice. tess_mesh_all gives the team of all ranks of a mesh or slice
 * (row-major), which that mesh owns. */
TESS_API tess_status tess_mesh_slice(tess_mesh *mesh, const char *const *names, int n_names, tess_mesh **slice);
TESS_API tess_team *tess_mesh_all(const tess_mesh *mesh);

/* True when ranks that differ in this coordinate alone are on different hosts anywhere in the mesh, so that the axis's
 * collectives use a network. False when there is no such axis. */
TESS_API bool tess_mesh_axis_crosses_hosts(const tess_mesh *mesh, int axis);

/* Writes "mesh 2 x 4 (dp_replicate, dp_shard)\n  dp_replicate 0: ranks 0 1 2 3\n..."; on several hosts with a second
 * line "  hosts h1: ranks 0-3, h2: ranks 4-7; dp_replicate crosses hosts, dp_shard stays inside a host". Returns the
 * length as snprintf does. */
TESS_API int tess_mesh_format(const tess_mesh *mesh, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
