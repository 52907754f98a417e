/* The recovery policy makes one decision about a failure, and one sentence about it. It uses the table of classes,
 * the recent failures, their places and the remaining ladder. The process that watches the ranks asks for the
 * decision and carries it out; no rank decides for itself. Pure functions: times are arguments, and random numbers
 * depend on a seed. */
#ifndef TESS_CONTROL_RECOVER_POLICY_H
#define TESS_CONTROL_RECOVER_POLICY_H

#include "control/recover/ladder.h"
#include "job/failure.h"
#include "control/recover/slots.h"

/* The failures of a job so far. Recent ones are counted and recognised; the list is also printed for people. */
enum { TESS_RECORD_NEWEST = 64, TESS_RECORD_TEXT = 200 };

typedef struct tess_recorded_failure {
    double at_s;
    tess_failure_class class;
    int rank;
    int group; /* group of its place; -1: not known */
    int64_t step;
    bool evaluating;             /* it happened in an evaluation, which is tried only twice */
    bool forgiven;               /* its cause is removed, so it does not count */
    char text[TESS_RECORD_TEXT]; /* text of the failure, shortened */
    char done[TESS_RECORD_TEXT]; /* action that was taken */
} tess_recorded_failure;

typedef struct tess_record_of_failures {
    int n; /* number of all failures; the newest TESS_RECORD_NEWEST are stored */
    tess_recorded_failure newest[TESS_RECORD_NEWEST]; /* ring buffer */
} tess_record_of_failures;

/* Returns the number of failures in the last `window_s` seconds that are not forgiven. */
int tess_record_count(const tess_record_of_failures *record, double now_s, double window_s);

typedef struct tess_recover_settings {
    bool respawns;                   /* a lost rank can be replaced while the other ranks keep running */
    bool remembers;                  /* the ranks' memory survives a restart of all ranks */
    bool rolls_back;                 /* also goes back to the newest checkpoint after a NaN, once per step */
    int max_failures;                /* this many failures within window_s end the job; 0: no limit */
    double window_s;                 /* seconds, like the following members */
    double backoff_s, backoff_max_s; /* pauses between attempts, see tess_backoff_s */
    double retry_s;                  /* seconds after which a place that was left out is tried again */
    uint64_t seed;                   /* seed of the random part of pauses */
} tess_recover_settings;

typedef struct tess_recover {
    tess_recover_settings settings;
    tess_worlds worlds;
    tess_slots slots;
    tess_ladder ladder;
    tess_record_of_failures record;
    int64_t best_step; /* largest number of steps done before any failure */
    int n_in_a_row;    /* number of failures since that step */
} tess_recover;

typedef struct tess_recovery {
    tess_action action; /* never SHRINK, but the action that it leads to */
    tess_failure_class class;
    double delay_s;
    int n_ranks;  /* number of ranks in the next attempt */
    bool resized; /* the number of ranks has changed */
    /* RESTART: true: continue from the last step, in the ranks' memory; false: from the newest checkpoint */
    bool from_memory;
    bool omits;     /* the evaluation has failed twice and is left out */
    bool reset;     /* settings have changed; see tess_ladder_overrides */
    char what[700]; /* the action and its reason, as text after that of the failure */
} tess_recovery;

/* Begins a recovery. Slots and ladder are begun separately. */
void tess_recover_begin(tess_recover *recover, const tess_recover_settings *settings, const tess_worlds *worlds);

/* Returns the seconds to wait after `n_in_a_row` failures without a step in between: none after the first, then
 * first_s, doubled each time up to max_s. A random part of up to half is subtracted, so that jobs that failed
 * together do not restart together. The same seed and number give the same pause. */
double tess_backoff_s(double first_s, double max_s, uint64_t seed, int n_in_a_row);

/* Decides about a failure that happened at now_s. */
void tess_recover_decide(tess_recover *recover, const tess_failure *failure, double now_s, tess_recovery *recovery);

/* Writes the final report of a job that stops after recoveries: the number of failures, the action after each, and
 * what to do now. Writes "" if this failure was the first. Returns text. */
const char *tess_recover_report(const tess_recover *recover, double now_s, char *text, size_t size);

#endif
