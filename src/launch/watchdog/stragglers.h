/* Ranks that are slow, step after step, while the job runs: the board's counters go to diagnosis/pace.h, and what it
 * finds becomes a line for people, at most one a minute. */
#ifndef TESS_LAUNCH_WATCHDOG_STRAGGLERS_H
#define TESS_LAUNCH_WATCHDOG_STRAGGLERS_H

#include "job/job_memory.h"
#include "diagnosis/pace.h"

enum { WATCHDOG_STRAGGLER_LINE = 256 };

typedef struct watchdog_stragglers {
    const tess_job *job;
    tess_pace *pace;
    int rank; /* told of last; -1: nobody, or it keeps up again */
    tess_phase phase;
    uint64_t sampled_ns, reported_ns;
} watchdog_stragglers;

/* `job` is borrowed. */
tess_status watchdog_stragglers_begin(tess_mem *mem, const tess_job *job, watchdog_stragglers *stragglers);
void watchdog_stragglers_end(watchdog_stragglers *stragglers);

/* A look at all ranks' counters, to be called some 20 times a second: a few words a rank at most ten times a second,
 * and the system is asked only about a rank of this host that has done a step. True: `line` has news of a rank of this
 * host. */
bool watchdog_stragglers_look(watchdog_stragglers *stragglers, uint64_t now_ns, char line[WATCHDOG_STRAGGLER_LINE]);

#endif
