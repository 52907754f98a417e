/* A job's configuration as it was when the job began: ranks that are started later, after a failure, read the same text
 * as the first ones, even if the file has changed. */
#ifndef TESS_SUPERVISE_JOB_CONFIG_H
#define TESS_SUPERVISE_JOB_CONFIG_H

#include "tessera/memory.h"

/* Copies the file into memory that ranks started later inherit. TESS_E_NOT_FOUND, TESS_E_IO: the file; TESS_E_NOMEM. */
tess_status tess_job_config_persist(tess_mem *mem, const char *path);

/* The file to read: in a rank of a launcher the copy, else `path`. */
const char *tess_job_config_path(const char *path);

#endif
