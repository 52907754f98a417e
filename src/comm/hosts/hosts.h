/* Joining a job whose processes the launcher did not start. */
#ifndef TESS_COMM_HOSTS_HOSTS_H
#define TESS_COMM_HOSTS_HOSTS_H

#include "comm/comm_impl.h"
#include "job/environment.h"

/* Makes this process a rank of the job that MPI started: fills in rank, world, job and transport. Collective over all
 * processes. */
tess_status tess_hosts_join(tess_runtime *runtime, const tess_environment *environment,
                            const tess_runtime_options *options);

#endif
