/* Declarations that the files of this folder share: mesh.c creates a mesh and answers questions about it, format.c
 * prints it. mesh_layout.h has the functions that need no job. */
#ifndef TESS_MESH_MESH_IMPL_H
#define TESS_MESH_MESH_IMPL_H

#include "mesh/mesh_layout.h"

struct tess_mesh {
    tess_runtime *runtime;
    tess_mesh_layout grid;        /* its rank numbers are those of `all` */
    int mine[TESS_MESH_MAX_AXES]; /* this rank's coordinates */
    tess_team *all;               /* every rank of the mesh, row-major */
    bool owns_all;
    tess_team *teams[TESS_MESH_MAX_AXES];
};

#endif
