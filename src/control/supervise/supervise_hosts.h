/* Runs ranks on several hosts with mpirun. `tessera launch ... -- train CONFIG.yaml` restarts the job after a
 * failure, as on one host. The warden that names the root cause reports the failure in a line that mpirun forwards. */
#ifndef TESS_CONTROL_SUPERVISE_SUPERVISE_HOSTS_H
#define TESS_CONTROL_SUPERVISE_SUPERVISE_HOSTS_H

#include "base/core/reporter.h"
#include "control/launch/mpirun/launch_watch.h"
#include "config/config.h"

typedef struct tess_mpirun_job {
    tess_launch_hosts hosts;
    tess_mpi mpi; /* TESS_MPI_ANY until a command line was made */
    tess_reporter reporter;
    tess_reporter commands; /* gets the command lines that are run */
} tess_mpirun_job;

/* Makes the command line that runs this program with `arguments` (ending with NULL) on the hosts. The program must
 * have the same path on each host. */
tess_status tess_mpirun_job_line(const tess_launch_hosts *hosts, tess_mpi *mpi, char **arguments,
                                 tess_launch_line *line);
/* Reports the command line and runs it. */
tess_status tess_mpirun_job_run(const tess_mpirun_job *job, const tess_launch_line *line,
                                const tess_launch_watch *watch, tess_launch_line_end *end);

/* Loads the configuration. Returns false if `argv` is no training run, or if its configuration cannot be read here. */
bool tess_supervise_hosts_reads(int argc, char **argv, tess_config *config);
/* Runs the job on the hosts, and restarts it as its recovery section says. Returns the exit code. */
int tess_supervise_hosts(tess_mpirun_job *hosts, const tess_config *config, int argc, char **argv);

#endif
