/* Counts what a rank's operations move, by team and kind. A dry rank counts what it would move
 * (comm/dry/dry_runtime.h), and an observer can count what a real one moves (comm/work.h). */
#ifndef TESS_COMM_VOLUME_H
#define TESS_COMM_VOLUME_H

#include "comm/work.h"

enum { TESS_VOLUME_ROWS = 64 };

typedef struct tess_volume_row {
    char team[TESS_TRACE_NAME_BYTES]; /* name of the team: for most, the axis of the mesh */
    tess_trace_op kind;
    int64_t n, bytes; /* number of operations, and bytes that come from other ranks */
} tess_volume_row;

typedef struct tess_volume {
    tess_volume_row rows[TESS_VOLUME_ROWS]; /* order of the first operations; the last row takes the rest */
    int n_rows;
} tess_volume;

/* Returns the bytes that an operation brings to this rank from the others, each addend or block once. A message counts
 * at its receiver. An all_reduce counts as the reduce_scatter and the all_gather that it consists of. */
int64_t tess_volume_received(const tess_work *work);

/* Adds the operation to its row. Setup of teams and memory is not counted. */
void tess_volume_add(tess_volume *volume, const tess_work *work);

#endif
