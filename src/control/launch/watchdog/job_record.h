/* The record of what only an outside process knows of a job, for later readers of its traces (trace/job_file.h). It is
 * written once the ranks write traces, at every new finding or notice (the whole job may be killed while it hangs), and
 * at the end. */
#ifndef TESS_CONTROL_LAUNCH_WATCHDOG_JOB_RECORD_H
#define TESS_CONTROL_LAUNCH_WATCHDOG_JOB_RECORD_H

#include <sys/types.h>

#include "job/job_memory.h"
#include "control/launch/launcher.h"

typedef struct watchdog_job_record {
    tess_mem *mem;
    uint64_t begin_ns; /* wall clock */
    int n_looks;       /* since the folder was first seen; at the second its name is complete */
    uint64_t seen;     /* hash of the news when it was last written */
    double written_s;
    pid_t writer;       /* the child that writes it, 0: none */
    uint64_t *ended_ns; /* (world) one block with the next; NULL: there was no memory, and nothing is recorded */
    bool *asked;        /* (world) asked to end, after another's failure or by the user; set by the owner */
    bool is_guess; /* nobody reports who was asked to end: assume ranks that a signal ended after another's failure */
} watchdog_job_record;

/* Free with watchdog_job_record_free, which does nothing for a record of zeros. */
tess_status watchdog_job_record_begin(watchdog_job_record *record, tess_mem *mem, int world, bool is_guess);
void watchdog_job_record_free(watchdog_job_record *record);
/* Checks whether there is a folder by now, and which ranks have ended. */
void watchdog_job_record_look(watchdog_job_record *record, const tess_job *job);
void watchdog_job_record_end(watchdog_job_record *record, const tess_job *job, const tess_launch_result *result);

#endif
