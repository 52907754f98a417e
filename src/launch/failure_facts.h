/* The facts about a failure that `decide` gets. */
#ifndef TESS_LAUNCH_FAILURE_FACTS_H
#define TESS_LAUNCH_FAILURE_FACTS_H

#include "job/job_memory.h"
#include "launch/launcher.h"

/* Collects the facts about the failure in *result (failed_rank, exit_code, report). It began at `cause`, which differs
 * from failed_rank when `cause` waited for that rank in vain. Texts belong to the job and the result. */
void tess_ending_facts(const tess_job *job, int cause, const tess_launch_result *result, tess_launch_failure *out);

#endif
