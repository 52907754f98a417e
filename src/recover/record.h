/* The failures of a job so far: the recent ones to count and to recognise, and a list of them for people. */
#ifndef TESS_RECOVER_RECORD_H
#define TESS_RECOVER_RECORD_H

#include <stddef.h>

#include "recover/failure.h"

enum { TESS_RECORD_NEWEST = 64, TESS_RECORD_TEXT = 200 };

typedef struct tess_recorded_failure {
    double at_s;
    tess_failure_class class;
    int rank;
    int group; /* the group of its place, -1: not known */
    int64_t step;
    bool evaluating;             /* it was in an evaluation, which is not tried again */
    bool forgiven;               /* its cause is removed: it does not count */
    char text[TESS_RECORD_TEXT]; /* of the failure, cut */
    char done[TESS_RECORD_TEXT]; /* the action taken */
} tess_recorded_failure;

typedef struct tess_record_of_failures {
    int n;                                            /* ever; the record holds the newest TESS_RECORD_NEWEST */
    tess_recorded_failure newest[TESS_RECORD_NEWEST]; /* a ring */
} tess_record_of_failures;

/* Adds one and returns it, so that `done` can be filled in; valid until TESS_RECORD_NEWEST more are added. */
tess_recorded_failure *tess_record_add(tess_record_of_failures *record, const tess_failure *failure, double now_s);

/* Number of failures in the last `window_s` seconds that are not forgiven. */
int tess_record_count(const tess_record_of_failures *record, double now_s, double window_s);

/* True when the record has this class at this step, not forgiven and not in an evaluation. */
bool tess_record_knows(const tess_record_of_failures *record, tess_failure_class class, int64_t step);

/* One line per failure, oldest first, each "\n  12.5 s ago: TEXT; DONE". Returns text. */
const char *tess_record_report(const tess_record_of_failures *record, double now_s, char *text, size_t size);

#endif
