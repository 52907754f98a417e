/* Call sites in messages: ranks tell them as offsets in their files, which cost nothing; whoever tells people puts
 * functions and lines in their place. */
#ifndef TESS_JOB_CALL_SITES_H
#define TESS_JOB_CALL_SITES_H

#include "job/job_memory.h"

/* Rewrites each "called at program+0x1f30" or "called at libengine.so+0x1f30" of `text` as "called by train_step
 * (step.c:41)" where the program of `rank`, or the object that a rank of this host has loaded, says so and there is
 * room. Reads those files: milliseconds. */
void tess_call_sites_name(const tess_job *job, int rank, char *text, size_t size);

#endif
