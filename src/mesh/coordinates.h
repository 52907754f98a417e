/* The coordinates of a rank: its number in the job, and its place along each axis of parallelism. */
#ifndef TESS_MESH_COORDINATES_H
#define TESS_MESH_COORDINATES_H

#include "mesh/axes.h"

typedef struct tess_coordinates {
    int rank, world;       /* number in the mesh: its place, which parallelism.rank_order gives a rank of the job */
    int place[TESS_AXES];  /* place along each axis; 0 on an axis that the mesh does not have */
    int degree[TESS_AXES]; /* ranks along each axis; 1 on an axis that the mesh does not have */
    int data, n_data;      /* place among the ranks that divide a step's micro-batches: row-major over those axes */
    int part, n_parts;     /* place among the ranks that have the same micro-batches: row-major over the other axes */
    int shard, n_shards;   /* place among the ranks of "dp_shard" and "cp", which share the parameters */
    int expert, n_experts; /* place among the consecutive ranks that divide the experts of layers; 1 if none do */
} tess_coordinates;

/* Whether the rank is the first of those that have the same micro-batches. */
static inline bool tess_coordinates_lead(const tess_coordinates *at)
{
    return at->part == 0;
}

/* Whether the rank is the first of those that compute the same layers of the same tokens. It alone counts their losses.
 */
bool tess_coordinates_counts(const tess_coordinates *at);

/* Returns the number of the k-th micro-batch of a step that this rank takes. */
int64_t tess_coordinates_micro(const tess_coordinates *at, int64_t k);
/* Returns the number of micro-batches that each rank runs for n of a step; its last may be empty. */
int64_t tess_coordinates_rounds(const tess_coordinates *at, int64_t n);

/* Returns the coordinates of any rank of a mesh with these degrees, whose axes stand in the order of the table. */
tess_coordinates tess_coordinates_by(const int degrees[TESS_AXES], int rank);
/* Does the same for a run's mesh, once its degrees are set. */
tess_coordinates tess_coordinates_of(const tess_parallelism_section *parallelism, int rank);

/* Returns the number in the mesh of the first rank with place `data` among the ranks that divide the micro-batches. The
 * axes of these ranks are neighbours in the table; SHARD is the last of them. */
int tess_coordinates_first(const tess_coordinates *at, int data);

/* Returns the difference between the rank numbers of neighbours along an axis, in a mesh with these degrees. */
int tess_axis_stride(const int degrees[TESS_AXES], int axis);

#endif
