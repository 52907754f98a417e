/* How long a rank may keep others waiting before it is told of: what was asked for, more in phases that take long by
 * their nature, and more where such waits are usual in this job. */
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

/* Of a phase by its name, as tess_runtime_phase has it; NULL: before the rank has joined. */
watchdog_kind watchdog_kind_of(const char *phase);
const char *watchdog_kind_name(watchdog_kind kind); /* "training" */

/* Times what holds in training: of the notice, and of a collective's deadline. */
double watchdog_soft_factor(watchdog_kind kind);
double watchdog_deadline_factor(watchdog_kind kind);
/* When the notice is due where nothing is known of the job yet: in time before the deadline. */
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

/* A wait has ended well. Short ones are not remembered. */
void watchdog_patience_learn(watchdog_patience *patience, watchdog_kind kind, double lasted_s, double now_s);

/* Three times the second longest wait of those lately, at least the soft limit of the kind, at most half the
 * deadline. One long wait is an accident and changes nothing; two are how this job is. */
double watchdog_patience_limit(const watchdog_patience *patience, watchdog_kind kind, double now_s);

#endif
