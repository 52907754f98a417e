/* `tessera launch ... -- train CONFIG.yaml`: the job is started again after a failure, as on one host. What failed is
 * said by the warden that names the root cause, in a line among those that mpirun forwards. */
#ifndef TESS_SUPERVISE_SUPERVISE_HOSTS_H
#define TESS_SUPERVISE_SUPERVISE_HOSTS_H

#include "supervise/mpirun_job.h"
#include "train/train_config.h"

/* True when `arguments` are a training run whose configuration can be read here. */
bool tess_supervise_hosts_reads(int argc, char **argv, tess_config *config);
/* Runs it on the hosts, and again as its recovery section has it; returns the exit code. */
int tess_supervise_hosts(tess_mpirun_job *hosts, const tess_config *config, int argc, char **argv);

#endif
