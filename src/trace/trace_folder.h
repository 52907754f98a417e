/* The folder that a job leaves for later readers: one ring per rank, and job.json by the launcher. In a job over
 * several hosts job.json is the first host's; the others write their notices to job-00001.json and so on. */
#ifndef TESS_TRACE_TRACE_FOLDER_H
#define TESS_TRACE_TRACE_FOLDER_H

#include "tessera/types.h"

#define TESS_TRACE_JOB_FILE "job.json"

/* "FOLDER/rank-00003.ring". TESS_E_INVALID: longer than size. */
tess_status tess_trace_ring_path(const char *folder, int rank, char *path, size_t size);
/* True for the name of a ring's file; *rank is its rank. */
bool tess_trace_ring_name(const char *name, int *rank);

/* "FOLDER/job.json" of host 0, "FOLDER/job-00003.json" of host 3; and back. */
tess_status tess_trace_job_path(const char *folder, int host, char *path, size_t size);
bool tess_trace_job_name(const char *name, int *host);

/* Makes an empty folder at `folder`; an earlier job's files there move to "FOLDER.previous" and replace its content.
 * Called once per job, before its ranks begin. */
tess_status tess_trace_folder_begin(const char *folder);

#endif
