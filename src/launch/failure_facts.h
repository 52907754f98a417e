/* A failure as whoever decides about it is told of it. */
#ifndef TESS_LAUNCH_FAILURE_FACTS_H
#define TESS_LAUNCH_FAILURE_FACTS_H

#include "job/job_memory.h"
#include "launch/launcher.h"

/* What is known of the failure that *result tells (failed_rank, exit_code, report), which began at `cause`: another
 * rank, where that one waited for it in vain. Texts are the job's and the result's. */
void tess_ending_facts(const tess_job *job, int cause, const tess_launch_result *result, tess_launch_failure *out);

#endif
