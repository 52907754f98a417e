/* Stragglers: ranks that are slow, step after step, while the job runs. diagnosis/pace.h gets the board's counters, and
 * each finding becomes a line for people, at most one a minute. */
#ifndef TESS_LAUNCH_WATCHDOG_STRAGGLERS_H
#define TESS_LAUNCH_WATCHDOG_STRAGGLERS_H

#include "job/job_memory.h"
#include "diagnosis/pace.h"

enum { WATCHDOG_STRAGGLER_LINE = 256 };

typedef struct watchdog_stragglers {
    const tess_job *job;
    tess_pace *pace;
    int rank; /* reported last; -1: none, or it keeps up again */
    tess_phase phase;
    uint64_t sampled_ns, reported_ns;
} watchdog_stragglers;

/* `job` is borrowed. */
tess_status watchdog_stragglers_begin(tess_mem *mem, const tess_job *job, watchdog_stragglers *stragglers);
void watchdog_stragglers_end(watchdog_stragglers *stragglers);

/* Checks all ranks' counters; call it some 20 times a second. It reads a few words per rank at most ten times a second,
 * and asks the system only about a rank of this host that has done a step. True: `line` has news about a rank of this
 * host. */
bool watchdog_stragglers_look(watchdog_stragglers *stragglers, uint64_t now_ns, char line[WATCHDOG_STRAGGLER_LINE]);

#endif
