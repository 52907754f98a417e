/* The folder that a job leaves for whoever asks later: one ring a rank, and job.json by the launcher. */
#ifndef TESS_TRACE_FOLDER_H
#define TESS_TRACE_FOLDER_H

#include "tessera/types.h"

#define TESS_TRACE_JOB_FILE "job.json"

/* "FOLDER/rank-00003.ring". TESS_E_INVALID: longer than size. */
tess_status tess_trace_ring_path(const char *folder, int rank, char *path, size_t size);
/* True for the name of a ring's file; *rank is whose. */
bool tess_trace_ring_name(const char *name, int *rank);

/* An empty folder at `folder`; what an earlier job left there is moved to "FOLDER.previous", in place of what was
 * there. Called once a job, before its ranks begin. */
tess_status tess_trace_folder_begin(const char *folder);

#endif
