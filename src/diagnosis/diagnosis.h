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
#ifndef TESS_DIAGNOSIS_DIAGNOSIS_H
#define TESS_DIAGNOSIS_DIAGNOSIS_H

#include "diagnosis/history.h"

#define TESS_DIAGNOSIS_LIST(X)                                                                                     \
    X(TESS_DIAGNOSIS_HEALTHY, "healthy")      /* no rank has waited for long */                                    \
    X(TESS_DIAGNOSIS_FINISHED, "finished")    /* all ranks ended in good order */                                  \
    X(TESS_DIAGNOSIS_LOST, "rank_lost")       /* crashed, killed, OOM-killed, exited, or lost its host */          \
    X(TESS_DIAGNOSIS_STOPPED, "rank_stopped") /* state T */                                                        \
    X(TESS_DIAGNOSIS_IO, "rank_in_io")        /* state D, or a read/write that does not end */                     \
    X(TESS_DIAGNOSIS_BUSY, "rank_busy")       /* computes, sleeps, or loads data */                                \
    X(TESS_DIAGNOSIS_LEFT, "rank_left")       /* ended in good order while others wait for it */                   \
    X(TESS_DIAGNOSIS_NOT_JOINED, "rank_not_joined")                                                                \
    X(TESS_DIAGNOSIS_MISSING, "missing_rank")    /* did not join the collective, for an unknown reason */          \
    X(TESS_DIAGNOSIS_MISMATCH_OP, "mismatch_op") /* called another operation */                                    \
    X(TESS_DIAGNOSIS_MISMATCH_COUNT, "mismatch_count")                                                             \
    X(TESS_DIAGNOSIS_MISMATCH_DTYPE, "mismatch_dtype")                                                             \
    X(TESS_DIAGNOSIS_MISMATCH_REDUCE_OP, "mismatch_reduce_op")                                                     \
    X(TESS_DIAGNOSIS_MISMATCH_ROOT, "mismatch_root")                                                               \
    X(TESS_DIAGNOSIS_MISMATCH_LABEL, "mismatch_label") /* same shape, but another purpose */                       \
    X(TESS_DIAGNOSIS_MISMATCH_TEAM, "mismatch_team")   /* other members, or an operation of another team */        \
    X(TESS_DIAGNOSIS_SKIPPED, "skipped")               /* left out operations */                                   \
    X(TESS_DIAGNOSIS_EXTRA, "extra")                   /* called operations that no other rank called */           \
    X(TESS_DIAGNOSIS_ORDER, "order")                   /* called two operations in swapped order */                \
    X(TESS_DIAGNOSIS_MESSAGE, "message")               /* send and receive differ, or one is missing */            \
    X(TESS_DIAGNOSIS_DEADLOCK, "deadlock")             /* ranks wait for each other */                             \
    X(TESS_DIAGNOSIS_NUMBERS, "numbers")               /* NaN, Inf or diverged replicas, according to its error */ \
    X(TESS_DIAGNOSIS_FAILED, "failed")                 /* a rank ended by its own error */                         \
    X(TESS_DIAGNOSIS_UNDECIDED, "undecided")

typedef enum tess_diagnosis_kind {
#define X(name, text) name,
    TESS_DIAGNOSIS_LIST(X)
#undef X
        TESS_DIAGNOSIS_COUNT
} tess_diagnosis_kind;

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

const char *tess_diagnosis_name(tess_diagnosis_kind kind); /* Returns "mismatch_dtype" and the like. */

/* Finds the root cause. Waits shorter than `patience_s` have no culprit. Free with tess_diagnosis_free. */
tess_status tess_diagnosis_find(const tess_history *history, double patience_s, tess_diagnosis *diagnosis);
void tess_diagnosis_free(const tess_history *history, tess_diagnosis *diagnosis);

#endif
