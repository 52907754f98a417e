/* What only the one outside knows of a job, for whoever reads its traces later (trace/job_file.h): written once the
 * ranks keep traces, when it is seen why one does not come or something is told (the whole job may be killed while it
 * hangs), and at the end. */
#ifndef TESS_LAUNCH_WATCHDOG_JOB_RECORD_H
#define TESS_LAUNCH_WATCHDOG_JOB_RECORD_H

#include <sys/types.h>

#include "job/job_memory.h"
#include "launch/launcher.h"

typedef struct watchdog_job_record {
    tess_mem *mem;
    uint64_t begin_ns; /* wall clock */
    int n_looks;       /* since the folder was first seen: its name is whole by the second */
    uint64_t seen;     /* hash of the news in it when it was last written */
    double written_s;
    pid_t writer; /* a child that writes it, 0: none */
    uint64_t ended_ns[JOB_MAX_RANKS];
    bool asked[JOB_MAX_RANKS];
    bool is_guess; /* nobody says who was asked to end: those that a signal ended after another's failure */
} watchdog_job_record;

void watchdog_job_record_begin(watchdog_job_record *record, tess_mem *mem, bool is_guess);
/* A look at whether there is a folder by now, and who has ended. */
void watchdog_job_record_look(watchdog_job_record *record, const tess_job *job);
/* `asked`: it was told to end, after another's failure or by the user. */
void watchdog_job_record_asked(watchdog_job_record *record, int rank, bool asked);
void watchdog_job_record_end(watchdog_job_record *record, const tess_job *job, const tess_launch_result *result);

#endif
