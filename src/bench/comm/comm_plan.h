/* Decides how long a collective is measured, both by this program and by the program that measures MPI. A sample
 * consists of several operations back to back. Its time is that of the slowest rank. */
#ifndef TESS_BENCH_COMM_COMM_PLAN_H
#define TESS_BENCH_COMM_COMM_PLAN_H

#include <stdbool.h>
#include <stddef.h>

enum { COMM_PLAN_SAMPLES = 9, COMM_PLAN_LEAST = 3, COMM_PLAN_SIZES = 64 };

/* seconds for all samples of one size, once there are COMM_PLAN_LEAST of them */
static const double comm_plan_budget_s = 0.3;

/* Returns the number of operations per sample: enough for the resolution of the clock, but few enough for a busy
 * machine. */
static inline int comm_plan_operations(size_t bytes)
{
    size_t n = bytes > 0 ? ((size_t)1 << 20) / bytes : 500;
    return n > 500 ? 500 : n > 1 ? (int)n : 1;
}

/* Whether another sample is taken. All ranks decide with the same figures. */
static inline bool comm_plan_goes_on(int n_samples, double spent_s)
{
    return n_samples < COMM_PLAN_SAMPLES && (n_samples < COMM_PLAN_LEAST || spent_s < comm_plan_budget_s);
}

#endif
