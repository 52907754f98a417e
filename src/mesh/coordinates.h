/* The coordinates of a rank: its number in the job, and its place along each axis of parallelism. */
#ifndef TESS_MESH_COORDINATES_H
#define TESS_MESH_COORDINATES_H

#include "tessera/mesh.h"

typedef struct tess_coordinates {
    int rank, world; /* number in the job, for names, messages and files */
    int data,
        n_data; /* place among the ranks that divide a step's micro-batches: row-major over dp_replicate and dp_shard */
    int stage, n_stages; /* stage of the pipeline, along "pp" */
    int tp, n_tp;        /* place among the ranks that share its layers, along "tp" */
} tess_coordinates;

/* Whether the rank is the first of those that have the same micro-batches. */
static inline bool tess_coordinates_lead(const tess_coordinates *at)
{
    return at->stage == 0 && at->tp == 0;
}

/* The coordinates of any rank of the mesh. An axis that the mesh does not have counts as one rank. */
tess_coordinates tess_coordinates_of(const tess_mesh *mesh, int rank);

#endif
