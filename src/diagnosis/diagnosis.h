/* Who keeps a job waiting, and why: from a history (history.h) to one verdict. Pure functions.
 *
 * Ranks of a team agree by majority: who asked for something else than most is the odd one; two camps of equal size are
 * a tie and nobody is named. A root cause comes before its consequences: a rank that waits in a collective is explained
 * by the member that is not there, that one by what it waits for in turn, until one is found that waits for nobody. */
#ifndef TESS_DIAGNOSIS_DIAGNOSIS_H
#define TESS_DIAGNOSIS_DIAGNOSIS_H

#include "diagnosis/history.h"

#define TESS_DIAGNOSIS_LIST(X)                                                                           \
    X(TESS_DIAGNOSIS_HEALTHY, "healthy")      /* nobody waits for anybody for long */                    \
    X(TESS_DIAGNOSIS_FINISHED, "finished")    /* all ended in good order */                              \
    X(TESS_DIAGNOSIS_LOST, "rank_lost")       /* crashed, killed, OOM-killed, exited, host */            \
    X(TESS_DIAGNOSIS_STOPPED, "rank_stopped") /* state T */                                              \
    X(TESS_DIAGNOSIS_IO, "rank_in_io")        /* state D, or a read/write that does not end */           \
    X(TESS_DIAGNOSIS_BUSY, "rank_busy")       /* computes, sleeps, loads data */                         \
    X(TESS_DIAGNOSIS_LEFT, "rank_left")       /* ended in good order while others wait */                \
    X(TESS_DIAGNOSIS_NOT_JOINED, "rank_not_joined")                                                      \
    X(TESS_DIAGNOSIS_MISSING, "missing_rank")    /* not in the collective; why is not known */           \
    X(TESS_DIAGNOSIS_MISMATCH_OP, "mismatch_op") /* another operation */                                 \
    X(TESS_DIAGNOSIS_MISMATCH_COUNT, "mismatch_count")                                                   \
    X(TESS_DIAGNOSIS_MISMATCH_DTYPE, "mismatch_dtype")                                                   \
    X(TESS_DIAGNOSIS_MISMATCH_REDUCE_OP, "mismatch_reduce_op")                                           \
    X(TESS_DIAGNOSIS_MISMATCH_ROOT, "mismatch_root")                                                     \
    X(TESS_DIAGNOSIS_MISMATCH_LABEL, "mismatch_label") /* same shape, made for something else */         \
    X(TESS_DIAGNOSIS_MISMATCH_TEAM, "mismatch_team")   /* members differ, or another team's operation */ \
    X(TESS_DIAGNOSIS_SKIPPED, "skipped")               /* is one operation ahead of all others */        \
    X(TESS_DIAGNOSIS_EXTRA, "extra")                   /* did one that nobody else did */                \
    X(TESS_DIAGNOSIS_ORDER, "order")                   /* two operations in swapped order */             \
    X(TESS_DIAGNOSIS_MESSAGE, "message")               /* send and receive do not fit, or one lacks */   \
    X(TESS_DIAGNOSIS_DEADLOCK, "deadlock")             /* ranks wait for each other in a circle */       \
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
    bool tie;   /* nobody is blamed. Camps of equal size: `ranks` holds the smaller numbered one; a finding of several
                 * ranks that does not say whose fault it is: `ranks` is empty */
    int *ranks; /* guilty, ascending; owned */
    int n_ranks;
    int *waiting; /* who waits for them; owned */
    int n_waiting;
    uint64_t team;
    tess_record record; /* what most asked for, at the place in question; op NONE: no operation is involved */
    tess_record odd;    /* what the first guilty rank asked for, or last did */
    int n_operations;   /* SKIPPED, EXTRA: how many; 0: those of a step */
    double waited_s;    /* longest wait */
    char headline[512]; /* one sentence: "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ..." */
    char lines[TESS_DIAGNOSIS_MAX_LINES][256]; /* evidence, most telling first */
    int n_lines;
    char fix[512]; /* what to do next, "" */
} tess_diagnosis;

const char *tess_diagnosis_name(tess_diagnosis_kind kind); /* "mismatch_dtype" */

/* Waits shorter than `patience_s` are nobody's fault. Free with tess_diagnosis_free. */
tess_status tess_diagnosis_find(const tess_history *history, double patience_s, tess_diagnosis *diagnosis);
void tess_diagnosis_free(const tess_history *history, tess_diagnosis *diagnosis);

#endif
