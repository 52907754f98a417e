/* Watches a job from a separate process, a child of the launcher. So a disk or GPU that does not answer, or a slow
 * user program, delays neither the launcher nor the ranks. The watcher writes only alerts. */
#ifndef TESS_CONTROL_HEALTH_WATCHER_H
#define TESS_CONTROL_HEALTH_WATCHER_H

#include "base/core/reporter.h"
#include "control/health/alert.h"

/* Readings that only the caller can provide. Before each call of `look` they are zeroed, and readings are unknown. */
typedef struct tess_health_view {
    tess_health_reading readings[TESS_HEALTH_CHECK_COUNT];
    int n_ranks;
    const int *pids; /* (n_ranks) processes of the ranks, borrowed; <= 0: the rank is on another host */
} tess_health_view;

typedef struct tess_health_options {
    tess_health_limits limits;
    double interval_s;             /* seconds between two rounds */
    const char *checkpoint_folder; /* folder of checkpoints; it may not exist yet */
    tess_alert_channel alerts;
    /* Called once per round, in the watcher's process; it may set any reading. NULL: none. */
    void (*look)(void *self, tess_health_view *view);
    void *self;
    tess_reporter reporter; /* called in the watcher's process */
} tess_health_options;

typedef struct tess_health_watcher {
    int pid; /* process id of the watcher; 0: none */
    double patience_s;
} tess_health_watcher;

/* Starts the watcher. The calling process must have one thread and be no rank: while two processes share memory
 * after a fork, every page that one of them writes is duplicated. The fork copies what `options` points to. The
 * watcher ends when the caller ends for any reason. TESS_E_NOMEM: no process could be started. */
tess_status tess_health_watcher_start(const tess_health_options *options, tess_health_watcher *watcher);
/* Whether the watcher has ended by itself. If so, it is reaped, and `how` says how it ended. */
bool tess_health_watcher_ended(tess_health_watcher *watcher, char *how, size_t size);
/* Ends the watcher after a current alert is finished. Does nothing if there is no watcher. */
void tess_health_watcher_stop(tess_health_watcher *watcher);

/* Runs one round: reads, judges, and sends alerts (for tests). */
void tess_health_round(const tess_health_options *options, tess_health *health);

#endif
