#include "supervise/mpirun_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"

tess_status tess_mpirun_job_line(const tess_launch_hosts *hosts, tess_mpi *mpi, char **arguments,
                                 tess_launch_line *line)
{
    char mpirun[4096], program[4096];
    TESS_TRY(tess_launch_find_mpi(getenv("PATH"), mpi, mpirun, sizeof(mpirun)));
    TESS_TRY(tess_os_own_path(program, sizeof(program)));
    tess_launch_request request = {.hosts = hosts,
                                   .mpi = *mpi,
                                   .mpirun = mpirun,
                                   .agent = getenv(TESS_MPIRUN_AGENT),
                                   .root = geteuid() == 0,
                                   .environment = environ,
                                   .program = program,
                                   .arguments = arguments};
    return tess_launch_line_make(&request, line);
}

tess_status tess_mpirun_job_run(const tess_launch_line *line, const tess_launch_watch *watch, tess_launch_line_end *end)
{
    static char quoted[sizeof(line->text) * 2];
    tess_launch_line_quote(line, quoted, sizeof(quoted));
    fprintf(stderr, "%s\n", quoted);
    TESS_TRY(tess_launch_line_run(line, watch, end));
    if (end->lost_host)
        fprintf(stderr,
                "tessera: mpirun has lost touch with a host and ended the job: it is down, or the link is cut\n");
    return TESS_OK;
}
