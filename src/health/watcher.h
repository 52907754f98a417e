/* Looks after a job from a process of its own, a child of its launcher: a disk or a GPU that does not answer, or a slow
 * program of the user's, keeps neither the launcher nor the ranks waiting. It reads, and writes nothing but alerts. */
#ifndef TESS_HEALTH_WATCHER_H
#define TESS_HEALTH_WATCHER_H

#include "health/alert.h"

enum { TESS_HEALTH_MOST_RANKS = 512 };

/* What the caller knows and the system does not say. Zeroed, with readings unknown, before each look. */
typedef struct tess_health_view {
    tess_health_reading readings[TESS_HEALTH_CHECK_COUNT];
    int n_ranks, pids[TESS_HEALTH_MOST_RANKS]; /* of the ranks, <= 0: not here */
} tess_health_view;

typedef struct tess_health_options {
    tess_health_limits limits;
    double interval_s;             /* from the end of a round to the next */
    const char *checkpoint_folder; /* need not be there yet */
    tess_alert_channel alerts;
    /* Called in the watcher's process, once a round; may set any reading. NULL: nothing is known. */
    void (*look)(void *self, tess_health_view *view);
    void (*notice)(void *self, const char *line); /* hears a line for people, in that process */
    void *self;
} tess_health_options;

typedef struct tess_health_watcher {
    int pid; /* 0: none */
    double patience_s;
} tess_health_watcher;

/* Starts the process: to be called by a process of one thread, before it starts ranks. What `options` points to is
 * copied with the process. TESS_E_NOMEM: there is no process to be had. It ends with the caller, however that ends. */
tess_status tess_health_watcher_start(const tess_health_options *options, tess_health_watcher *watcher);
/* Lets it finish an alert that is under way, and ends it. None is fine. */
void tess_health_watcher_stop(tess_health_watcher *watcher);

/* One round of it: gathers, judges, and tells (tests). */
void tess_health_round(const tess_health_options *options, tess_health *health);

#endif
