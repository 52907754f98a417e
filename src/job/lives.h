/* What a job restarted over MPI must know of its earlier lives, in variables that mpirun passes to the ranks. */
#ifndef TESS_JOB_LIVES_H
#define TESS_JOB_LIVES_H

#include "job/job_memory.h"

/* Sets TESSERA_LIVES_BEFORE and TESSERA_OMITTED for the processes started from here. omitted (JOB_OMITTED): steps
 * whose evaluation is left out, 0: none. */
void tess_lives_report(int n_before, const int64_t *omitted);

/* Writes the values of both variables into the header of a job that begins; without them it is the job's first life.
 * TESS_E_INVALID names the one that cannot be parsed. */
tess_status tess_lives_read(const tess_job *job);

#endif
