/* Finds the rank that holds a job up, and why: one root cause from a history (history.h). Pure functions.
 *
 * The majority of a team is right; a rank that called something else is odd. Two camps of equal size are a tie, in
 * which no rank is blamed. A root cause comes before its consequences: a rank that waits in a collective is explained
 * by the missing member, and that one by what it waits for, down to a rank that waits for nobody. */
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

#define TESS_DIAGNOSIS_LIST(X)                                                                           \
    X(TESS_DIAGNOSIS_HEALTHY, "healthy")      /* no rank waits for long */                               \
    X(TESS_DIAGNOSIS_FINISHED, "finished")    /* all ended in good order */                              \
    X(TESS_DIAGNOSIS_LOST, "rank_lost")       /* crashed, killed, OOM-killed, exited, host */            \
    X(TESS_DIAGNOSIS_STOPPED, "rank_stopped") /* state T */                                              \
    X(TESS_DIAGNOSIS_IO, "rank_in_io")        /* state D, or a read/write that does not end */           \
    X(TESS_DIAGNOSIS_BUSY, "rank_busy")       /* computes, sleeps, loads data */                         \
    X(TESS_DIAGNOSIS_LEFT, "rank_left")       /* ended in good order while others wait */                \
    X(TESS_DIAGNOSIS_NOT_JOINED, "rank_not_joined")                                                      \
    X(TESS_DIAGNOSIS_MISSING, "missing_rank")    /* not in the collective, for an unknown reason */      \
    X(TESS_DIAGNOSIS_MISMATCH_OP, "mismatch_op") /* another operation */                                 \
    X(TESS_DIAGNOSIS_MISMATCH_COUNT, "mismatch_count")                                                   \
    X(TESS_DIAGNOSIS_MISMATCH_DTYPE, "mismatch_dtype")                                                   \
    X(TESS_DIAGNOSIS_MISMATCH_REDUCE_OP, "mismatch_reduce_op")                                           \
    X(TESS_DIAGNOSIS_MISMATCH_ROOT, "mismatch_root")                                                     \
    X(TESS_DIAGNOSIS_MISMATCH_LABEL, "mismatch_label") /* same shape, other purpose */                   \
    X(TESS_DIAGNOSIS_MISMATCH_TEAM, "mismatch_team")   /* other members, or another team's operation */  \
    X(TESS_DIAGNOSIS_SKIPPED, "skipped")               /* left operations out */                         \
    X(TESS_DIAGNOSIS_EXTRA, "extra")                   /* called operations that no other rank called */ \
    X(TESS_DIAGNOSIS_ORDER, "order")                   /* two operations in swapped order */             \
    X(TESS_DIAGNOSIS_MESSAGE, "message")               /* send and receive differ, or one is missing */  \
    X(TESS_DIAGNOSIS_DEADLOCK, "deadlock")             /* ranks wait for each other */                   \
    X(TESS_DIAGNOSIS_NUMBERS, "numbers")               /* NaN, Inf, diverged replicas: from the error */ \
    X(TESS_DIAGNOSIS_FAILED, "failed")                 /* a rank ended by its own error */               \
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
    bool tie;   /* no rank is blamed. Camps of equal size: `ranks` holds the one with the smallest rank; an error that
                 * several ranks report without a culprit: `ranks` is empty */
    int *ranks; /* culprits, ascending; owned */
    int n_ranks;
    int *waiting; /* ranks that wait for them; owned */
    int n_waiting;
    uint64_t team;
    tess_record record; /* the majority's request; op NONE: no operation is involved */
    tess_record odd;    /* the first culprit's request, or its last operation */
    int n_operations;   /* SKIPPED, EXTRA: number of operations; 0: those of a whole step */
    double waited_s;    /* longest wait */
    char headline[512]; /* one sentence: "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ..." */
    char lines[TESS_DIAGNOSIS_MAX_LINES][256]; /* evidence, strongest first */
    int n_lines;
    char fix[512]; /* advice, "" */
} tess_diagnosis;

const char *tess_diagnosis_name(tess_diagnosis_kind kind); /* "mismatch_dtype" */

/* Shorter waits than `patience_s` have no culprit. Free with tess_diagnosis_free. */
tess_status tess_diagnosis_find(const tess_history *history, double patience_s, tess_diagnosis *diagnosis);
void tess_diagnosis_free(const tess_history *history, tess_diagnosis *diagnosis);

#endif
