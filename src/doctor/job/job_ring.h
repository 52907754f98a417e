/* One rank's ring, put into a history. */
#ifndef TESS_DOCTOR_JOB_JOB_RING_H
#define TESS_DOCTOR_JOB_JOB_RING_H

#include "doctor/job/sites.h"
#include "diagnosis/history.h"

/* Adds events, teams, host and pid of the ring to rank `rank`, which is present from now on; *source is who wrote
 * it. The first n_slots places for events are read: ring->capacity, or fewer of a file that was cut off.
 * The ring may be damaged or be written meanwhile: TESS_E_FORMAT says what is wrong with it, nothing was added. */
tess_status tess_ring_add(tess_history *history, int rank, const tess_trace_ring *ring, uint64_t n_slots,
                          tess_sites_source *source);

/* Names the call sites of all records. Takes its time, so not before all rings were read. sources (world). */
void tess_ring_name_sites(tess_history *history, const tess_sites_source *sources);

#endif
