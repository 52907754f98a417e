/* A job of ours as a history: a dead one from the folder of its traces, a live one from its memory. */
#ifndef TESS_DOCTOR_JOB_JOB_H
#define TESS_DOCTOR_JOB_JOB_H

#include "job/find.h"
#include "diagnosis/history.h"

/* The folder that holds a job's rings or its job.json: `folder` itself or its "trace". False: neither does. */
bool tess_job_folder_find(const char *folder, char *path, size_t size);

/* Reads rings and job.json. All in them may be damaged: a rank whose ring cannot be read is not present, and its `why`
 * says what is wrong. Call sites are named where the program is still as it was. Free with tess_history_destroy.
 *   TESS_E_NOT_FOUND  no ring and no job.json
 *   TESS_E_FORMAT     no ring can be read and there is no job.json; the message names the first. */
tess_status tess_job_history_read(tess_mem *mem, const char *folder, tess_history **history);

/* Reads a live job's board and the rings of this host's ranks (of other hosts' ranks too where they lie in a folder
 * that this host sees). Disturbs nobody. */
tess_status tess_job_history_live(tess_mem *mem, const tess_live_job *live, tess_history **history);

#endif
