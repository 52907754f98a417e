/* Internal to job: functions that add a rank's ring, and what the launcher wrote and reported, to a history. */
#ifndef TESS_DOCTOR_JOB_JOB_IMPL_H
#define TESS_DOCTOR_JOB_JOB_IMPL_H

#include "doctor/job/job_report.h"
#include "doctor/job/sites.h"
#include "trace/job_file.h"

/* ---- job_ring.c ---- */
/* Adds the ring's events, teams, host and pid to rank `rank`, and marks the rank as present. Fills *source with the
 * ring's writer. Reads the first n_slots event slots: ring->capacity, or fewer if the file is truncated. The ring
 * may be damaged, and the rank may be writing to it. TESS_E_FORMAT says what is wrong with it; the history is then
 * unchanged. */
tess_status tess_ring_add(tess_history *history, int rank, const tess_trace_ring *ring, uint64_t n_slots,
                          tess_sites_source *source);

/* Names the call sites of all records. This takes long, so the caller reads all rings first. sources: (world). */
void tess_ring_name_sites(tess_history *history, const tess_sites_source *sources);

/* ---- job_json.c ---- */
/* Describes the report as programs get it: {"version": 1, "verdict": {...}, "ranks": [...], ...}. NULL: no memory. */
json_t *job_report_describe(const tess_report *report);

/* ---- job_notices.c ---- */
/* Adds the content of job.json. The history must have file->world ranks. Fails only with TESS_E_NOMEM. */
tess_status tess_job_file_add(tess_history *history, const tess_job_file *file);
/* Adds notices read from a file or from the board. Their texts are cleaned. */
tess_status tess_reported_notices(tess_history *history, tess_notice *notices, int n, uint64_t n_reported);
/* Adds the notices that the hosts of the job wrote into its folder, except those of host `except`. If a file cannot
 * be read, this is noted as damage. Fails only with TESS_E_NOMEM. */
tess_status tess_reports_by_hosts(tess_history *history, int except);

#endif
