/* Reads a Tessera job into a history: a job that has ended from its trace folder, a live job from its memory. */
#ifndef TESS_DOCTOR_JOB_JOB_H
#define TESS_DOCTOR_JOB_JOB_H

#include "job/find.h"
#include "diagnosis/history.h"

/* Finds the folder that holds a job's rings or job.json: `folder` itself or its subfolder "trace". Returns false if
 * neither holds any. */
bool tess_job_folder_find(const char *folder, char *path, size_t size);

/* Reads rings and job.json, which may be damaged. A rank whose ring cannot be read is marked as not present, and its
 * `why` gives the reason. Call sites get names if the program file is unchanged. Free with tess_history_destroy.
 *   TESS_E_NOT_FOUND  the folder holds no ring and no job.json
 *   TESS_E_FORMAT     no ring can be read and there is no job.json; the message names the first. */
tess_status tess_job_history_read(tess_mem *mem, const char *folder, tess_history **history);

/* Reads a live job's board and the rings of this host's ranks, without disturbing the job. Also reads the rings of
 * other hosts' ranks if they are files in a folder that this host can see. */
tess_status tess_job_history_live(tess_mem *mem, const tess_live_job *live, tess_history **history);

/* Reads the places of a live job's ranks in its mesh from the first ring that can be read. Finds none before the job
 * has a mesh. */
void tess_live_places(const tess_live_job *live, tess_places *places);

#endif
