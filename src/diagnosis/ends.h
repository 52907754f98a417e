/* Decides which of several ends began a job's failure. Pure functions for all callers that know how ranks ended: the
 * launcher and the agents (from the board), `trace` (from a history, ending.c), and `doctor log` (from torchrun's
 * table). */
#ifndef TESS_DIAGNOSIS_ENDS_H
#define TESS_DIAGNOSIS_ENDS_H

#include "diagnosis/history.h"

/* How a rank ended. */
typedef struct tess_end {
    tess_situation how; /* CRASHED .. HOST_LOST; any other value: the rank runs, or ended because it was asked to */
    int signal;         /* signal that ended it; 0: none */
    int blames;         /* rank that its error blames; its own rank: it failed alone; -1: none */
    bool gave_up;       /* its last operation failed */
    bool may_be_asked;  /* a launcher may have sent the signal to end the remaining ranks */
    uint64_t at_ns;     /* time of its end; 0: not known */
    uint64_t last_ns;   /* last time that it showed activity; orders ends at unknown times */
} tess_end;

/* Returns how a process ended, from its signal and exit code. */
tess_situation tess_end_how(int signal, int exit_code);
/* True if the rank crashed, was killed or exited, or lost its host; false for LEFT. */
bool tess_end_is_bad(tess_situation how);

/* Returns the root cause of the end of `rank`: the end of its chain of blame, or the first rank of a circle. If the
 * rank gave up and another rank failed alone, returns the latter. */
int tess_ends_cause(const tess_end *ends, int n, int rank);

/* Whether the end `a` was before the end `b`, as far as is known. A rank that crashed or was killed comes before a
 * rank that exited up to a second earlier. No other rank can kill or crash it, but its loss makes others exit. An
 * abort counts as an exit, because programs also abort when they lose a peer. */
bool tess_end_comes_before(const tess_end *a, const tess_end *b);

/* Returns the first of all bad ends that are root causes; -1: there is none. If several are equally early, returns
 * the cause of `seen_first` (-1: not known). */
int tess_ends_first(const tess_end *ends, int n, int seen_first);

/* Whether times in whole ticks cannot tell which of two equal ends was first. They cannot if both have the same
 * time, or if the same signal ended both at most one tick apart. */
bool tess_ends_are_together(const tess_end *a, const tess_end *b, uint64_t tick_ns);

#endif
