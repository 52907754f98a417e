/* The folder that a job leaves for later readers. It holds one ring per rank, and job.json, which the launcher
 * writes. In a job over several hosts, the first host writes job.json; the others write their notices to
 * job-00001.json and so on. */
#ifndef TESS_TRACE_TRACE_FOLDER_H
#define TESS_TRACE_TRACE_FOLDER_H

#include "tessera/types.h"

#define TESS_TRACE_JOB_FILE "job.json"

/* Writes "FOLDER/rank-00003.ring". TESS_E_INVALID: the path is longer than size. */
tess_status tess_trace_ring_path(const char *folder, int rank, char *path, size_t size);
/* Whether `name` is the name of a ring's file. *rank: the rank in it. */
bool tess_trace_ring_name(const char *name, int *rank);

/* The first writes "FOLDER/job.json" for host 0 and "FOLDER/job-00003.json" for host 3. The second reads the host
 * from such a name. */
tess_status tess_trace_job_path(const char *folder, int host, char *path, size_t size);
bool tess_trace_job_name(const char *name, int *host);

/* Creates an empty folder at `folder`. Files of an earlier job there are moved to "FOLDER.previous", and replace its
 * content. Called once per job, before its ranks begin. */
tess_status tess_trace_folder_begin(const char *folder);

#endif
