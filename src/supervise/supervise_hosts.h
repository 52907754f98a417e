/* `tessera launch ... -- train CONFIG.yaml`: restarts the job after a failure, as on one host. The warden that names
 * the root cause reports the failure in a line that mpirun forwards. */
#ifndef TESS_SUPERVISE_SUPERVISE_HOSTS_H
#define TESS_SUPERVISE_SUPERVISE_HOSTS_H

#include "supervise/mpirun_job.h"
#include "train/train_config.h"

/* Loads the configuration if `argv` is a training run whose configuration can be read here. */
bool tess_supervise_hosts_reads(int argc, char **argv, tess_config *config);
/* Runs it on the hosts, repeated as its recovery section says; returns the exit code. */
int tess_supervise_hosts(tess_mpirun_job *hosts, const tess_config *config, int argc, char **argv);

#endif
