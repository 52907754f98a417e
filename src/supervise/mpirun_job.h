/* Ranks on several hosts, by mpirun. */
#ifndef TESS_SUPERVISE_MPIRUN_JOB_H
#define TESS_SUPERVISE_MPIRUN_JOB_H

#include "launch/mpirun/launch_watch.h"

typedef struct tess_mpirun_job {
    tess_launch_hosts hosts;
    tess_mpi mpi; /* TESS_MPI_ANY until a line was made */
} tess_mpirun_job;

#define TESS_MPIRUN_AGENT "TESSERA_LAUNCH_AGENT" /* names the program that replaces ssh */

/* Makes the line that runs this program with `arguments` (up to NULL) on the hosts, at the same path on each. */
tess_status tess_mpirun_job_line(const tess_launch_hosts *hosts, tess_mpi *mpi, char **arguments,
                                 tess_launch_line *line);
/* Prints the line and runs it. */
tess_status tess_mpirun_job_run(const tess_launch_line *line, const tess_launch_watch *watch,
                                tess_launch_line_end *end);

#endif
