/* A history as a timeline for ui.perfetto.dev (and chrome://tracing): trace events in JSON.
 *
 * One process a rank; a thread "phases", and one for each team ("team world", more lanes where operations overlap) with
 * a slice "wait: all_reduce" from the call until all ranks had come, and a slice "all_reduce" from there until its end.
 * Arrows lead from the rank that came last to those that waited for it for a millisecond or longer. Ranks are brought
 * to one clock; time 0 is the first event.
 *
 * The file is streamed: memory grows with the number of distinct operations, not with ranks. It takes about 0.5 kB
 * an operation and rank; the page takes files of about 1 GB, so some 2 million of them. */
#ifndef TESS_DOCTOR_PERFETTO_PERFETTO_H
#define TESS_DOCTOR_PERFETTO_PERFETTO_H

#include "diagnosis/history.h"

/* Writes `path`, replacing what is there once it is complete. TESS_E_IO, TESS_E_NO_SPACE. */
tess_status tess_perfetto_write(const tess_history *history, const char *path);

#endif
