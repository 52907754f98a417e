/* Starts the rank as the warden's child. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "base/os/sockets.h"
#include "control/launch/agent/agent_impl.h"

_Noreturn static void run_child(const tess_child_signals *signals, pid_t parent, const rank_output *output, int channel,
                                char *const *argv, int report_fd)
{
    char text[16];
    tess_child_begin(signals, parent);
    rank_output_enter(output, 0);
    setpgid(0, 0); /* mpirun signals whole process groups; only the warden may signal the rank */
    snprintf(text, sizeof(text), "%d", channel);
    setenv(tess_variable_name(TESS_VAR_GUARD_FD), text, 1);
    tess_os_inherit(channel);
    tess_child_exec(NULL, argv, report_fd);
}

static tess_status fork_child(char *const *argv, const tess_child_signals *signals, const rank_output *output,
                              int channel, const int report[2], pid_t *child)
{
    pid_t parent = getpid();
    fflush(NULL); /* otherwise the child would write our buffers again */
    *child = fork();
    if (*child == 0)
        run_child(signals, parent, output, channel, argv, report[1]);
    if (*child > 0)
        return TESS_OK;
    *child = 0;
    return TESS_FAIL(TESS_E_NOMEM, "start the rank: fork: %s", strerror(errno));
}

tess_status warden_start(char *const *argv, const tess_child_signals *signals, const rank_output *output, pid_t *child,
                         int *channel)
{
    int pair[2], report[2];
    *child = 0;
    TESS_TRY(tess_os_pair(pair));
    if (pipe2(report, O_CLOEXEC) != 0) {
        tess_os_close(&pair[0]);
        tess_os_close(&pair[1]);
        return tess_os_error("pipe", "for the rank");
    }
    tess_status status = fork_child(argv, signals, output, pair[1], report, child);
    tess_os_close(&pair[1]);
    tess_os_close(&report[1]);
    if (status == TESS_OK) {
        status = tess_child_started(argv[0], report[0]);
        if (status != TESS_OK) {
            waitpid(*child, NULL, 0);
            *child = 0;
        }
    }
    tess_os_close(&report[0]);
    *channel = pair[0];
    return status;
}
