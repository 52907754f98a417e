/* Runs an mpirun line and stays beside it: ctrl-C becomes what leaves the ranks time to save. */
#ifndef TESS_COMM_HOSTS_LAUNCH_WATCH_H
#define TESS_COMM_HOSTS_LAUNCH_WATCH_H

#include "comm/hosts/launch_line.h"

/* Returns when mpirun has ended, with its exit code or 128 + signal. The first SIGINT or SIGTERM that comes meanwhile
 * asks all ranks to stop, the second ends mpirun and all. When the ranks of this host have ended, mpirun has ten
 * seconds to do so too. Not thread-safe: signals are the process's. */
tess_status tess_launch_line_run(const tess_launch_line *line, tess_mpi mpi, int *exit_code);

#endif
