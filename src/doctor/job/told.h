/* What the launcher wrote of a job, put into a history. */
#ifndef TESS_DOCTOR_JOB_TOLD_H
#define TESS_DOCTOR_JOB_TOLD_H

#include "trace/job_file.h"
#include "verdict/history.h"

/* The history has file->world ranks. */
void tess_job_file_add(tess_history *history, const tess_job_file *file);
/* What became of the job that wrote `previous`, when it was an earlier life of the one of `file`: the same command. */
void tess_job_file_add_previous(tess_history *history, const tess_job_file *file, const tess_job_file *previous);

#endif
