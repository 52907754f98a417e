/* How long a collective is measured: the same plan for us and for the program that measures MPI, which includes nothing
 * else of ours. A sample is some operations back to back; its time is that of the slowest rank. */
#ifndef TESS_BENCH_COMM_PLAN_H
#define TESS_BENCH_COMM_PLAN_H

#include <stdbool.h>
#include <stddef.h>

enum { COMM_PLAN_SAMPLES = 9, COMM_PLAN_LEAST = 3, COMM_PLAN_SIZES = 64 };

static const double comm_plan_budget_s = 0.3; /* of all samples of one size, once there are COMM_PLAN_LEAST */

/* Operations of a sample: enough for the clock, few enough for a busy machine. */
static inline int comm_plan_operations(size_t bytes)
{
    size_t n = bytes > 0 ? ((size_t)1 << 20) / bytes : 500;
    return n > 500 ? 500 : n > 1 ? (int)n : 1;
}

/* All ranks decide from the same figures. */
static inline bool comm_plan_goes_on(int n_samples, double spent_s)
{
    return n_samples < COMM_PLAN_SAMPLES && (n_samples < COMM_PLAN_LEAST || spent_s < comm_plan_budget_s);
}

static inline double comm_plan_median(double *samples, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && samples[k] < samples[k - 1]; k--) {
            double swap = samples[k];
            samples[k] = samples[k - 1];
            samples[k - 1] = swap;
        }
    return n > 0 ? (samples[(n - 1) / 2] + samples[n / 2]) / 2 : 0;
}

#endif
