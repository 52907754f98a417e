/* Records what only a process outside a job knows about it, for later readers of its traces (trace/job_file.h). The
 * record is written when the ranks begin to write traces, at every new finding or notice (the whole job may be
 * killed while it hangs), and at the end. */
#ifndef TESS_CONTROL_LAUNCH_WATCHDOG_JOB_RECORD_H
#define TESS_CONTROL_LAUNCH_WATCHDOG_JOB_RECORD_H

#include <sys/types.h>

#include "job/job_memory.h"
#include "control/launch/launcher.h"

typedef struct watchdog_job_record {
    tess_mem *mem;
    uint64_t begin_ns; /* time on the wall clock */
    int n_looks;       /* number of looks since the folder was first seen; from the second on, its name is complete */
    uint64_t seen;     /* hash of the record's content when it was last written */
    double written_s;
    pid_t writer; /* child process that writes it; 0: none */
    /* (world) end of each rank; one block with `asked`; NULL: memory ran out, and nothing is recorded */
    uint64_t *ended_ns;
    bool *asked; /* (world) the rank was asked to end, after another's failure or by the user; set by the owner */
    /* no process reports which ranks were asked to end: those that a signal ended after another's failure count as
     * asked */
    bool is_guess;
} watchdog_job_record;

/* Reads the command line of this process. */
void watchdog_read_command(char *text, size_t size);

/* Begins a record. Free it with watchdog_job_record_free, which does nothing if all members are zero. */
tess_status watchdog_job_record_begin(watchdog_job_record *record, tess_mem *mem, int world, bool is_guess);
void watchdog_job_record_free(watchdog_job_record *record);
/* Checks whether the folder exists by now, and which ranks have ended. */
void watchdog_job_record_look(watchdog_job_record *record, const tess_job *job);
void watchdog_job_record_end(watchdog_job_record *record, const tess_job *job, const tess_launch_result *result);

#endif
