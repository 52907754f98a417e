/* Finds the rank that holds a job up, and why: one root cause from a history (history.h). Pure functions.
 *
 * The majority of a team is right; a rank that called something else is odd. Two groups of equal size are a tie, in
 * which no rank is blamed. Consequences are traced to their root cause: a rank that waits in a collective is
 * explained by the missing member. That member is explained by the rank that it waits for, and so on until a rank
 * waits for none. */
/* clang-format off */
/*  rank: ring (DUMP/trace/rank-00003.ring) ---------------+--> doctor/job: a dead job's folder, a live job
 *        board row: operation, phase, what it waits for --+         |
 *            |                                            |         v
 *  launcher: watchdog: who is waited for? -> /proc,       |   history.h: plain data <-- doctor/flight_recorder,
 *            stack by libdw, OOM counters -> the line,    |         |                   doctor/log
 *            the situation of the row, job.json ----------+         v
 *                                                             this module -> tessera trace, top, exports
 *
 * A trace and a log of one job cannot disagree, because both come here. */
/* clang-format on */
#ifndef TESS_DIAGNOSIS_ROOT_CAUSE_H
#define TESS_DIAGNOSIS_ROOT_CAUSE_H

#include "diagnosis/history.h"
#include "tessera/diagnosis.h"

enum { TESS_DIAGNOSIS_MAX_LINES = 24 };

typedef struct tess_diagnosis {
    tess_diagnosis_kind kind;
    /* no rank is blamed. If two groups are equally large, `ranks` holds the group of the lowest rank. If several
     * ranks report an error without a culprit, `ranks` is empty */
    bool tie;
    int *ranks; /* culprits, in ascending order; owned */
    int n_ranks;
    int *waiting; /* ranks that wait for them; owned */
    int n_waiting;
    uint64_t team;
    tess_record record; /* the majority's request; op NONE: no operation is involved */
    tess_record odd;    /* request of the first culprit, or its last operation */
    int n_operations;   /* number of operations if SKIPPED or EXTRA; 0: all operations of a step */
    double waited_s;    /* longest wait in seconds */
    char headline[512]; /* one sentence: "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ..." */
    char lines[TESS_DIAGNOSIS_MAX_LINES][256]; /* evidence, strongest first */
    int n_lines;
    char fix[512]; /* advice; "": none */
} tess_diagnosis;

/* Finds the root cause. Waits shorter than `patience_s` have no culprit. Free with tess_diagnosis_free. */
tess_status tess_diagnosis_find(const tess_history *history, double patience_s, tess_diagnosis *diagnosis);
void tess_diagnosis_free(const tess_history *history, tess_diagnosis *diagnosis);

#endif
