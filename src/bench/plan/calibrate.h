/* Measures the times that plans stand on (plan/kernel_times.h): the calls that ranks of a configuration make, one by
 * one, and operations between ranks of this host. No step runs. */
#ifndef TESS_BENCH_PLAN_CALIBRATE_H
#define TESS_BENCH_PLAN_CALIBRATE_H

#include "config/config.h"
#include "nn/model_config.h"
#include "plan/kernel_times.h"

/* Measures the distinct calls of a rank of the configuration, which has passed tess_config_check_step for n_ranks. As
 * many ranks as this host has cores for measure at the same time, so that they share its memory as those of a run do.
 * `n_samples`: times of each call; the median counts. */
tess_status tess_calibrate_kernels(const tess_config *config, const tess_model_config *model, int n_ranks,
                                   int n_samples, tess_kernel_times *times);

/* Measures operations of n_ranks ranks of this host, in sizes of 1 KiB to 32 MiB. Does nothing if `times` has some of
 * as many ranks: delete the file to measure them again. */
tess_status tess_calibrate_operations(int n_ranks, tess_kernel_times *times);

/* Measures the peaks of all cores. */
tess_status tess_calibrate_peaks(tess_mem *mem, tess_kernel_times *times);

/* Does all of that for named models of few layers, on 1 to `most_ranks` ranks, so that plans of other models can
 * interpolate. */
tess_status tess_calibrate_usual(tess_mem *mem, int most_ranks, tess_kernel_times *times);

#endif
