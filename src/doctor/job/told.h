/* What the launcher wrote of a job, put into a history. */
#ifndef TESS_DOCTOR_JOB_TOLD_H
#define TESS_DOCTOR_JOB_TOLD_H

#include "trace/job_file.h"
#include "verdict/history.h"

/* The history has file->world ranks. */
void tess_job_file_add(tess_history *history, const tess_job_file *file);

#endif
