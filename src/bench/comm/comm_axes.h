/* Measures how fast communication along the axes of a mesh is on this machine. */
#ifndef TESS_BENCH_COMM_COMM_AXES_H
#define TESS_BENCH_COMM_COMM_AXES_H

#include "mesh/mesh_layout.h"

typedef struct tess_bench_axes {
    int n; /* number of sizes */
    tess_mesh_speed speeds[TESS_MESH_MAX_AXES][TESS_MESH_SPEEDS];
} tess_bench_axes;

/* Starts the layout's ranks, and checks that each axis gathers and sums the ranks of its groups (TESS_E_MISMATCH).
 * Then measures an all_reduce of float32 in all groups of an axis at once: 4 KiB, 4 MiB, 40 MiB and 100 MiB. Sizes
 * above `most` are left out, except the first. Needs 4 times the largest size per rank. Also returns errors of
 * starting ranks. */
tess_status tess_bench_axes_run(const tess_mesh_layout *layout, size_t most, tess_bench_axes *result);

#endif
