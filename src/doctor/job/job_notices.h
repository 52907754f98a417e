/* What the launcher wrote and told of a job, put into a history. */
#ifndef TESS_DOCTOR_JOB_JOB_NOTICES_H
#define TESS_DOCTOR_JOB_JOB_NOTICES_H

#include "trace/job_file.h"
#include "diagnosis/history.h"

/* The history has file->world ranks. TESS_E_NOMEM alone. */
tess_status tess_job_file_add(tess_history *history, const tess_job_file *file);
/* Notices from outside: their texts are made fit for people. */
tess_status tess_reported_notices(tess_history *history, tess_notice *notices, int n, uint64_t n_reported);
/* Those that the job's hosts have written into its folder, but for host `except`. TESS_E_NOMEM alone: what cannot be
 * read is noted as damage. */
tess_status tess_reports_by_hosts(tess_history *history, int except);
/* What became of the job that wrote `previous`, when it was an earlier life of the one of `file`: the same command. */
void tess_job_file_add_previous(tess_history *history, const tess_job_file *file, const tess_job_file *previous);

#endif
