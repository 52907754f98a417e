/* The axes of parallelism that a run's mesh may have, as rows of one table. Coordinates, the configuration, the
 * prediction of memory and verify's layouts read the table. A new axis is one row here, the option of its degree
 * (parallelism_section.c), and the exchange of the parts that it divides. */
#ifndef TESS_MESH_AXES_H
#define TESS_MESH_AXES_H

#include "mesh/parallelism_section.h"
#include "mesh/shares.h"

/* The thing that the ranks of an axis's groups divide among themselves. */
typedef enum tess_axis_kind {
    TESS_AXIS_OF_BATCH, /* the micro-batches of a step */
    TESS_AXIS_OF_MODEL  /* the model: they have the same micro-batches */
} tess_axis_kind;

/* ROW(ID, NAME, KIND), outermost first. The option whose member `axis` is NAME has the degree. If that option may be
 * negative (open), a mesh always has the axis; otherwise it has the axis from a degree of 2 on. */
#define TESS_AXIS_ROWS(ROW)               \
    ROW(PP, "pp", MODEL)                  \
    ROW(REPLICATE, "dp_replicate", BATCH) \
    ROW(SHARD, "dp_shard", BATCH)         \
    ROW(CP, "cp", MODEL)                  \
    ROW(TP, "tp", MODEL)

#define TESS_AXIS_ENUM(id, name, kind) TESS_AXIS_##id,
enum { TESS_AXIS_ROWS(TESS_AXIS_ENUM) TESS_AXES };
#undef TESS_AXIS_ENUM

const char *tess_axis_name(int axis);
tess_axis_kind tess_axis_kind_of(int axis);
/* Returns the number of the axis of this name, or -1. */
int tess_axis_find(const char *name);
/* Returns the option that is the axis's degree, and its value. */
const tess_option *tess_axis_option(int axis);
int64_t *tess_axis_degree(tess_parallelism_section *parallelism, int axis);

/* Writes the axes of a run's mesh, once its degrees are set, and returns their number. */
int tess_axes_of(const tess_parallelism_section *parallelism, tess_axis axes[TESS_MESH_MAX_AXES]);
/* Joins the axes "dp_shard" and "cp", whose ranks all share the parameters, to one that is called "dp_shard". Returns
 * the number of axes. */
int tess_axes_join(tess_axis axes[TESS_MESH_MAX_AXES], int n);
/* Writes the degrees of all axes, and 1 for open ones. */
void tess_axes_degrees(const tess_parallelism_section *parallelism, int degrees[TESS_AXES]);
/* Returns the number of ranks that differ only in axes of this kind: the product of their degrees, or INT32_MAX if
 * that is larger. */
int tess_axes_ranks(const int degrees[TESS_AXES], tess_axis_kind kind);
/* Returns who takes which micro-batch of a step, in a mesh with these degrees: equal shares. The shares' ranks are the
 * places among the ranks that divide the batch (tess_coordinates.data). */
tess_shares tess_axes_shares(const int degrees[TESS_AXES]);

#endif
