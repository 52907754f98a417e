/* Where a rank is: its number in the job, and its place among those that do the same kind of work. */
#ifndef TESS_MESH_COORDINATES_H
#define TESS_MESH_COORDINATES_H

#include "tessera/mesh.h"

typedef struct tess_coordinates {
    int rank, world;  /* of the job: for names, messages and files */
    int data, n_data; /* among the ranks that share a step's micro-batches: row-major over dp_replicate and dp_shard */
    int stage, n_stages; /* of the pipeline, along "pp" */
    int tp, n_tp;        /* among the ranks that share its layers, along "tp" */
} tess_coordinates;

/* Of the ranks that have the same micro-batches, the first. */
static inline bool tess_coordinates_lead(const tess_coordinates *at)
{
    return at->stage == 0 && at->tp == 0;
}

/* Of any rank of the mesh. An axis that the mesh does not have counts as one rank. */
tess_coordinates tess_coordinates_of(const tess_mesh *mesh, int rank);

#endif
