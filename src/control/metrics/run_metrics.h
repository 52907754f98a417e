/* Shows a run's metrics to Prometheus, as the metrics section of its configuration says: at an address of this host, in
 * a file, or both. A process of its own does it, so it answers while ranks hang, and takes no time of a step. */
#ifndef TESS_CONTROL_METRICS_RUN_METRICS_H
#define TESS_CONTROL_METRICS_RUN_METRICS_H

#include "control/supervise/start_ranks.h"
#include "config/config.h"

typedef struct tess_run_metrics {
    const tess_config *config; /* borrowed; NULL: no process is started */
    tess_reporter reporter;
    int job;       /* process id of the process that starts the ranks, or that is the rank */
    int pid;       /* the process that shows the metrics; 0: none */
    int n_started; /* processes so far */
    double started_s;
    double again_s; /* pause after its end before the next one */
    double due_s;   /* time at which the next one is started */
} tess_run_metrics;

/* Checks metrics.prometheus_listen. TESS_E_INVALID: it is no address, or other machines reach it and
 * metrics.prometheus_public does not say that they may. */
tess_status tess_run_metrics_check(const tess_config *config);

/* Starts one process per host, to be ended with tess_run_metrics_stop. Call it before the ranks start, in a process
 * with one thread that is not a rank of a launcher. `metrics` is zero before the first call. The run goes on after any
 * failure, which is reported. */
void tess_run_metrics_start(const tess_config *config, const tess_ranks *ranks, const tess_reporter *reporter,
                            tess_run_metrics *metrics);
/* Called now and then in a process that is not a rank: starts another process if the present one was killed. */
void tess_run_metrics_look(tess_run_metrics *metrics);
/* Lets the process write the file once more, and ends it. */
void tess_run_metrics_stop(tess_run_metrics *metrics);

#endif
