/* Adds facts to the report: the hosts and the MPI of a job. */
#include <stdio.h>

#include "bench/comm/comm_job.h"
#include "job/environment.h"
#include "comm/hosts/session.h"

const char *comm_hosts_text(const tess_runtime *runtime, char *text, size_t size)
{
    const tess_team *team = tess_runtime_team(runtime);
    int n_hosts = tess_runtime_hosts(runtime);
    size_t at = (size_t)snprintf(text, size, "%d:", n_hosts);
    for (int h = 0; h < n_hosts && at + 1 < size; h++) {
        int n = 0;
        for (int r = 0; r < tess_team_size(team); r++)
            n += tess_team_host(team, r) == h;
        at += (size_t)snprintf(text + at, size - at, "%s %s (%d rank%s)", h > 0 ? "," : "",
                               tess_runtime_host_name(runtime, h), n, n == 1 ? "" : "s");
    }
    return text;
}

const char *comm_mpi_text(char *text, size_t size)
{
    tess_environment environment;
    const wire_process *process = tess_wire_opened();
    snprintf(text, size, "none");
    if (process != NULL && tess_environment_read(&environment) == TESS_OK)
        snprintf(text, size, "%s, started by %s", process->library, tess_starter_name(environment.starter));
    return text;
}
