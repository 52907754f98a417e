/* Computes the time of a step from the work of its ranks (device/dry/work_trace.h) on a machine. Each rank has a stream
 * of kernels. On a machine of GPUs, each team has a stream of its own besides, so operations run while kernels do,
 * until a rank waits for them. On CPUs a rank moves bytes itself, so operations take its time.
 *
 * The ranks are one of each stage of a pipeline, or a single rank. All other ranks do the same at the same time. */
#ifndef TESS_PLAN_STEP_TIME_H
#define TESS_PLAN_STEP_TIME_H

#include "plan/kernel_times.h"
#include "plan/plan_machine.h"
#include "plan/plan.h"
#include "plan/step_spans.h"

typedef struct tess_timed_rank {
    int rank;                     /* its number in the job */
    const tess_work_trace *trace; /* borrowed */
} tess_timed_rank;

typedef struct tess_step_case {
    const tess_machine *machine;
    const tess_timed_rank *ranks; /* (n) */
    int n;
    int n_ranks; /* ranks of the job */
    int ranks_a_host, threads;
    double straggler;       /* factor of the kernels' times on every rank: all wait for the slowest */
    tess_step_spans *spans; /* gets what each rank does when; NULL: nobody wants it */
} tess_step_case;

/* Sets step_s, compute_s, exposed_s, bubble_s, optimizer_s, kernels, teams, phase_s, measured_share and the bound. The
 * kernels and teams are those of the rank that works most.
 * TESS_E_INVALID: the machine lacks a link; ranks wait for messages that no rank sends */
tess_status tess_step_time(tess_mem *mem, const tess_step_case *of, tess_plan_time *time);

/* Returns the time of one call, and whether it was measured, and whether arithmetic bounds it. */
double tess_call_time(const tess_machine *machine, const tess_call_key *key, int threads, int ranks_a_host,
                      bool *measured, bool *by_compute);

/* Returns a time that a call takes at least, and that grows in proportion to its rows: that of its arithmetic at the
 * machine's peak. 0: the call was measured, or its launches are counted and it is no product. */
double tess_call_floor(const tess_machine *machine, const tess_call_key *key, int threads);

/* Sort the kernels, the slowest first, and find what limits the step, from the kernels, teams and bubble of `time`. */
void tess_plan_time_sort(tess_plan_time *time);
void tess_plan_time_find_bound(tess_plan_time *time);

/* The interval of saves that loses least time (Young 1974, Daly 2006), for saves of save_s and failures every mtbf_s.
 */
double tess_save_interval(double save_s, double mtbf_s);
/* The share of the time that makes new steps: without saves, the work since the last save that a failure repeats, and
 * restarts. */
double tess_goodput(double save_s, double every_s, double mtbf_s, double restart_s);

#endif
