/* Decides which of several ends began a job's failure. Pure functions, for all who know how ranks ended: the launcher
 * and the agents by the board, `trace` by a history (ending.c), and `doctor log` by torchrun's table. */
#ifndef TESS_DIAGNOSIS_ENDS_H
#define TESS_DIAGNOSIS_ENDS_H

#include "diagnosis/history.h"

/* How a rank ended. */
typedef struct tess_end {
    tess_situation how; /* CRASHED .. HOST_LOST; others: it runs, or it ended because it was asked to */
    int signal;         /* the signal that ended it; 0: none */
    int blames;         /* the rank that its error blames; itself: it failed alone; -1: none */
    bool gave_up;       /* its last operation failed */
    bool may_be_asked;  /* a launcher may have sent the signal, to end the rest */
    uint64_t at_ns;     /* when it ended; 0: not known */
    uint64_t last_ns;   /* its newest sign of life, which orders ends at unknown times */
} tess_end;

/* How a process ended, by its signal and exit code. */
tess_situation tess_end_how(int signal, int exit_code);
/* True if the rank crashed, was killed or exited, or lost its host; false for LEFT. */
bool tess_end_is_bad(tess_situation how);

/* The root cause of `rank`: the end of its chain of blame, or the first rank of a circle. If the rank gave up and
 * another one failed alone, it is that one. */
int tess_ends_cause(const tess_end *ends, int n, int rank);

/* True if the end `a` was before the end `b`, as far as is known. A rank that was struck comes before one that exited
 * up to a second earlier: no other rank kills or crashes it, but its loss makes others exit. An abort counts as an
 * exit, because programs also abort when they lose a peer. */
bool tess_end_comes_before(const tess_end *a, const tess_end *b);

/* The first of all bad ends that are root causes; -1: there is none. Of equal ones it is the cause of `seen_first` (-1:
 * not known). */
int tess_ends_first(const tess_end *ends, int n, int seen_first);

/* True if times in whole ticks cannot tell which of two like ends was the first: both have the same time, or the same
 * signal ended both at most a tick apart. */
bool tess_ends_are_together(const tess_end *a, const tess_end *b, uint64_t tick_ns);

#endif
