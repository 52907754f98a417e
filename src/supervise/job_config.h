/* A job's configuration as it was when the job began: ranks that are started later, in place of one that was lost or
 * all of them anew, read what the first ones have read, whatever was made of the file since. */
#ifndef TESS_SUPERVISE_JOB_CONFIG_H
#define TESS_SUPERVISE_JOB_CONFIG_H

#include "tessera/memory.h"

/* In whoever starts ranks, before it does: the file's text goes into memory that they inherit. TESS_E_NOT_FOUND,
 * TESS_E_IO: the file; TESS_E_NOMEM. */
tess_status tess_job_config_persist(tess_mem *mem, const char *path);

/* The file to read: in a rank what was kept for it, else `path` itself. */
const char *tess_job_config_path(const char *path);

#endif
