/* Watches a job from a process of its own, a child of the launcher: a disk or GPU that does not answer, or a slow user
 * program, delays neither the launcher nor the ranks. It writes nothing but alerts. */
#ifndef TESS_CONTROL_HEALTH_WATCHER_H
#define TESS_CONTROL_HEALTH_WATCHER_H

#include "base/core/reporter.h"
#include "control/health/alert.h"

/* Facts that only the caller knows. They are zeroed, and readings unknown, before each look. */
typedef struct tess_health_view {
    tess_health_reading readings[TESS_HEALTH_CHECK_COUNT];
    int n_ranks;
    const int *pids; /* (n_ranks) processes of the ranks, borrowed; <= 0: on another host */
} tess_health_view;

typedef struct tess_health_options {
    tess_health_limits limits;
    double interval_s;             /* pause between two rounds */
    const char *checkpoint_folder; /* may not exist yet */
    tess_alert_channel alerts;
    /* Called in the watcher's process, once a round; may set any reading. NULL: none. */
    void (*look)(void *self, tess_health_view *view);
    void *self;
    tess_reporter reporter; /* called in that process */
} tess_health_options;

typedef struct tess_health_watcher {
    int pid; /* 0: none */
    double patience_s;
} tess_health_watcher;

/* Starts the process; call it from a process of one thread, that is no rank: while two processes have a copy of memory,
 * what either of them writes is there twice. The fork copies what `options` points to. The watcher ends with the
 * caller, however that ends. TESS_E_NOMEM: no process could be started. */
tess_status tess_health_watcher_start(const tess_health_options *options, tess_health_watcher *watcher);
/* True if the watcher has ended by itself. It is then reaped and gone, and `how` says how it ended. */
bool tess_health_watcher_ended(tess_health_watcher *watcher, char *how, size_t size);
/* Lets it finish a current alert, and ends it. No watcher is fine. */
void tess_health_watcher_stop(tess_health_watcher *watcher);

/* One round: gathers, judges, and sends alerts (for tests). */
void tess_health_round(const tess_health_options *options, tess_health *health);

#endif
