/* Adds to a history what the launcher wrote and reported of a job. */
#ifndef TESS_DOCTOR_JOB_JOB_NOTICES_H
#define TESS_DOCTOR_JOB_JOB_NOTICES_H

#include "trace/job_file.h"
#include "diagnosis/history.h"

/* The history has file->world ranks. Fails only with TESS_E_NOMEM. */
tess_status tess_job_file_add(tess_history *history, const tess_job_file *file);
/* Adds notices from outside, with their texts cleaned. */
tess_status tess_reported_notices(tess_history *history, tess_notice *notices, int n, uint64_t n_reported);
/* Adds the notices that the job's hosts, except host `except`, wrote into its folder. A file that cannot be read is
 * noted as damage. Fails only with TESS_E_NOMEM. */
tess_status tess_reports_by_hosts(tess_history *history, int except);
/* Adds the outcome of the job that wrote `previous`, if it was an earlier life of this one: it had the same command. */
void tess_job_file_add_previous(tess_history *history, const tess_job_file *file, const tess_job_file *previous);

#endif
