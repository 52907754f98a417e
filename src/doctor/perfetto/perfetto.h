/* Writes a history as a timeline for ui.perfetto.dev (and chrome://tracing): trace events in JSON.
 *
 * Each rank is shown as a process. It has one thread "phases" and one thread per team ("team world"), or several
 * where operations overlap. In a team's thread, the slice "wait: all_reduce" lasts from the call until all ranks
 * have come, and the slice "all_reduce" from there to the end. Arrows lead from the last rank to come to those that
 * waited for it for a millisecond or longer. All ranks are on one clock; time 0 is the first event.
 *
 * The file is streamed: memory grows with the number of distinct operations, not with ranks. An operation takes
 * about 0.5 kB per rank. The page opens files of about 1 GB, or some 2 million operations. */
#ifndef TESS_DOCTOR_PERFETTO_PERFETTO_H
#define TESS_DOCTOR_PERFETTO_PERFETTO_H

#include "diagnosis/history.h"

/* Writes the file `path`. An older file is replaced only once the new one is complete. TESS_E_IO, TESS_E_NO_SPACE. */
tess_status tess_perfetto_write(const tess_history *history, const char *path);

#endif
