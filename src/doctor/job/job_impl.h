/* Internal to job: adds a rank's ring, and what the launcher wrote and reported, to a history. */
#ifndef TESS_DOCTOR_JOB_JOB_IMPL_H
#define TESS_DOCTOR_JOB_JOB_IMPL_H

#include "diagnosis/history.h"
#include "doctor/job/sites.h"
#include "trace/job_file.h"

/* ---- job_ring.c ---- */
/* Adds events, teams, host and pid of the ring to rank `rank`, and marks it present; *source becomes the ring's writer.
 * Reads the first n_slots event slots: ring->capacity, or fewer for a file that is cut off.
 * The ring may be damaged, or be written at the same time. TESS_E_FORMAT says what is wrong with it; nothing was
 * added. */
tess_status tess_ring_add(tess_history *history, int rank, const tess_trace_ring *ring, uint64_t n_slots,
                          tess_sites_source *source);

/* Names the call sites of all records. It takes long, so read all rings first. sources (world). */
void tess_ring_name_sites(tess_history *history, const tess_sites_source *sources);

/* ---- job_notices.c ---- */
/* The history has file->world ranks. Fails only with TESS_E_NOMEM. */
tess_status tess_job_file_add(tess_history *history, const tess_job_file *file);
/* Adds notices from outside, with their texts cleaned. */
tess_status tess_reported_notices(tess_history *history, tess_notice *notices, int n, uint64_t n_reported);
/* Adds the notices that the job's hosts, except host `except`, wrote into its folder. A file that cannot be read is
 * noted as damage. Fails only with TESS_E_NOMEM. */
tess_status tess_reports_by_hosts(tess_history *history, int except);

#endif
