/* How long a rank may keep others waiting before the watchdog reports it: the configured limit, extended in phases that
 * take long by nature and where such waits are usual in this job. */
#ifndef TESS_JOB_PATIENCE_H
#define TESS_JOB_PATIENCE_H

#include "tessera/types.h"

typedef enum watchdog_kind {
    WATCHDOG_TRAINING,
    WATCHDOG_EVALUATION,
    WATCHDOG_CHECKPOINT,
    WATCHDOG_SETUP,
    WATCHDOG_KINDS
} watchdog_kind;

/* Kind of a phase, named as in tess_runtime_phase. NULL: before the rank has joined. */
watchdog_kind watchdog_kind_of(const char *phase);
const char *watchdog_kind_name(watchdog_kind kind); /* "training" */

/* Factor on the limits of training: on that of the notice, and on the deadline of a collective. */
double watchdog_soft_factor(watchdog_kind kind);
double watchdog_deadline_factor(watchdog_kind kind);
/* When the notice is due while nothing is known of the job yet: in time before the deadline. */
double watchdog_soft_limit(double soft_s, double timeout_s, watchdog_kind kind);

enum { WATCHDOG_REMEMBERED = 16 };

typedef struct watchdog_patience {
    double soft_s;
    double timeout_s; /* deadline of a collective in training, 0: not known */
    struct {
        double lasted_s[WATCHDOG_REMEMBERED], at_s[WATCHDOG_REMEMBERED];
        int n; /* ever */
    } past[WATCHDOG_KINDS];
} watchdog_patience;

/* Learns from a wait that has ended well. Short waits are not remembered. */
void watchdog_patience_learn(watchdog_patience *patience, watchdog_kind kind, double lasted_s, double now_s);

/* Three times the second longest of the recent waits, at least the soft limit of the kind, at most half the deadline.
 * One long wait may be an accident and changes nothing; two are usual for this job. */
double watchdog_patience_limit(const watchdog_patience *patience, watchdog_kind kind, double now_s);

#endif
