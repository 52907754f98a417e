/* Private to this folder: mesh.c makes a mesh and answers questions about it, format.c prints it. */
#ifndef TESS_MESH_MESH_IMPL_H
#define TESS_MESH_MESH_IMPL_H

#include "tessera/mesh.h"

struct tess_mesh {
    tess_runtime *runtime;
    int n_axes, size;
    char names[TESS_MESH_MAX_AXES][TESS_MESH_NAME_SIZE];
    int sizes[TESS_MESH_MAX_AXES];
    int mine[TESS_MESH_MAX_AXES]; /* this rank's coordinates */
    tess_team *all;               /* every rank of the mesh, row-major */
    bool owns_all;
    tess_team *teams[TESS_MESH_MAX_AXES];
    int *hosts; /* (size) number of the host that each rank is on */
};

#endif
