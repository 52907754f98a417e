/* How long a rank may keep others waiting before the watchdog reports it: the configured limit, extended in phases that
 * take long by nature and where such waits are usual in this job. And how long ranks wait in a collective before they
 * give up: the deadline is longer in such phases, for large operations, and on links seen to be slow. */
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

/* Returns the kind of a phase, named as in tess_runtime_phase. NULL: before the rank has joined. */
watchdog_kind watchdog_kind_of(const char *phase);
const char *watchdog_kind_name(watchdog_kind kind); /* Returns the kind's name, such as "training". */

/* Returns the kind's factor on the deadline of a collective in training. */
double watchdog_deadline_factor(watchdog_kind kind);
/* Returns when the notice is due while no waits of the job are known: early enough before the deadline. */
double watchdog_soft_limit(double soft_s, double timeout_s, watchdog_kind kind);

enum { WATCHDOG_REMEMBERED = 16 };

typedef struct watchdog_patience {
    double soft_s;
    double timeout_s; /* deadline of a collective in training; 0: not known */
    struct {
        double lasted_s[WATCHDOG_REMEMBERED], at_s[WATCHDOG_REMEMBERED];
        int n; /* total number of waits learned */
    } past[WATCHDOG_KINDS];
} watchdog_patience;

/* Records a wait that has ended well. Short waits are ignored. */
void watchdog_patience_learn(watchdog_patience *patience, watchdog_kind kind, double lasted_s, double now_s);

/* Returns three times the second longest of the recent waits, but at least the soft limit of the kind and at most
 * half the deadline. One long wait may be an accident, and changes nothing; two are normal for this job. */
double watchdog_patience_limit(const watchdog_patience *patience, watchdog_kind kind, double now_s);

/* ---- The deadline of a collective ---- */
/* Returns the factor for an operation of n_elements on the deadline of a small operation in training. */
double watchdog_deadline_by_size(uint64_t n_elements);
/* Returns the seconds allowed for `bytes` at `bytes_per_s` (0: not known) by this rule alone. */
double watchdog_deadline_by_bytes(uint64_t bytes, double bytes_per_s);

/* Deadline in seconds of a collective of n_elements and `bytes` while its rank is in `phase` (NULL: none). timeout_s is
 * the deadline of a small collective in training. The result is the longest of
 *   by phase:  1 x in training and setup, 3 x in evaluation, which drawing samples counts as, and checkpoints;
 *   by size:   3/2 x from 1e7 elements on, 3 x from 1e8 on;
 *   by bytes:  20 x the time at 100 MB/s, or at bytes_per_s where recent operations were slower than that
 *              (0: not known; below 1 MB/s it is a fault and no link).
 * With the default of 600 s: by phase 600 and 1800, by size 900 and 1800. */
double watchdog_deadline(double timeout_s, const char *phase, uint64_t n_elements, uint64_t bytes, double bytes_per_s);

/* Returns the new link speed after an operation ran at `seen` bytes/s. Moves halfway towards a slower speed, because
 * one operation may have met an accident, and an eighth of the way towards a faster one. `known` 0: no speed was
 * measured yet. */
double watchdog_learn_speed(double known, double seen);

#endif
