/* Makes the record of a job's failure (trace/error_file.h) from what the process that watches its ranks knows. */
#ifndef TESS_CONTROL_LAUNCH_ENDING_RECORD_H
#define TESS_CONTROL_LAUNCH_ENDING_RECORD_H

#include "job/job_memory.h"
#include "trace/error_file.h"

/* Facts about the end that are not on the board. */
typedef struct launch_ending {
    int cause, rank;    /* the root cause, and the rank that it waited for without success if there is one, else the
                           same; both -1: no rank is to blame */
    int exit_code;      /* exit code of the job */
    bool asked;         /* the job was asked to stop, and no rank failed */
    bool ended_here;    /* a signal of this process has ended the rank */
    const char *report; /* the failure as a sentence */
} launch_ending;

/* Fills in who and why. The job's folder, its command and the output are the caller's. */
void launch_ending_record(const tess_job *job, const launch_ending *ending, tess_error_file *record);
/* The same without a job: the ranks did not start, or nobody can tell what they did. */
void launch_ending_record_plain(int exit_code, bool asked, const char *report, tess_error_file *record);
/* Classifies a process that gave up with this status. */
void launch_ending_record_status(tess_status status, tess_error_file *record);

#endif
