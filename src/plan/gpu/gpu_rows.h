/* Computes the time of a call of a row of the kernel table on a GPU, from what the interpreter of PTX has counted of
 * the row's kernels (tools/gpu-step). */
#ifndef TESS_PLAN_GPU_ROWS_H
#define TESS_PLAN_GPU_ROWS_H

#include "device/dry/work_trace.h"
#include "plan/gpu/gpu_launch.h"

/* Returns the seconds of a call, from the end of the call before it. The machine is a GPU with all figures
 * (tess_gpu_is_known). *by_compute: arithmetic, not memory, bounds it. */
double tess_gpu_row_time(const tess_machine *m, const tess_call_key *key, bool *by_compute);

#endif
