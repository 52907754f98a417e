/* Reads one of our jobs into a history: a dead one from its trace folder, a live one from its memory. */
#ifndef TESS_DOCTOR_JOB_JOB_H
#define TESS_DOCTOR_JOB_JOB_H

#include "job/find.h"
#include "diagnosis/history.h"

/* Finds the folder with a job's rings or job.json: `folder` itself or its "trace". False: neither has them. */
bool tess_job_folder_find(const char *folder, char *path, size_t size);

/* Reads rings and job.json, which may be damaged. A rank whose ring cannot be read is not present, and its `why` says
 * what is wrong. Call sites get names if the program has not changed since. Free with tess_history_destroy.
 *   TESS_E_NOT_FOUND  no ring and no job.json
 *   TESS_E_FORMAT     no ring can be read and there is no job.json; the message names the first. */
tess_status tess_job_history_read(tess_mem *mem, const char *folder, tess_history **history);

/* Reads a live job's board and the rings of this host's ranks, without disturbing the job. Also reads rings of other
 * hosts' ranks in a folder that this host sees. */
tess_status tess_job_history_live(tess_mem *mem, const tess_live_job *live, tess_history **history);

/* The places of its ranks in its mesh, by the first ring that can be read; none before there is a mesh. */
void tess_live_places(const tess_live_job *live, tess_places *places);

#endif
