/* Adds one rank's ring to a history. */
#ifndef TESS_DOCTOR_JOB_JOB_RING_H
#define TESS_DOCTOR_JOB_JOB_RING_H

#include "doctor/job/sites.h"
#include "diagnosis/history.h"

/* Adds events, teams, host and pid of the ring to rank `rank`, and marks it present; *source becomes the ring's writer.
 * Reads the first n_slots event slots: ring->capacity, or fewer for a file that is cut off.
 * The ring may be damaged, or be written at the same time. TESS_E_FORMAT says what is wrong with it; nothing was
 * added. */
tess_status tess_ring_add(tess_history *history, int rank, const tess_trace_ring *ring, uint64_t n_slots,
                          tess_sites_source *source);

/* Names the call sites of all records. It takes long, so read all rings first. sources (world). */
void tess_ring_name_sites(tess_history *history, const tess_sites_source *sources);

#endif
