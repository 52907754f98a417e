/* What whoever starts a job again over MPI says of its lives before, in variables that mpirun carries to the ranks. */
#ifndef TESS_JOB_LIVES_H
#define TESS_JOB_LIVES_H

#include "job/job_memory.h"

/* Sets TESSERA_LIVES_BEFORE and TESSERA_OMITTED for what this process starts. omitted (JOB_OMITTED): steps behind which
 * training alone goes on, 0: none. */
void tess_lives_report(int n_before, const int64_t *omitted);

/* Writes what they say into the header of a job that begins; without them it is the job's first life. TESS_E_INVALID
 * names the one that cannot be understood. */
tess_status tess_lives_hear(const tess_job *job);

#endif
