/* Starts the ranks' processes, sends signals to them, and passes notices on. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "job/persist/persist.h"
#include "control/launch/launcher_impl.h"

static void set_number(tess_variable variable, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv(tess_variable_name(variable), text, 1);
}

static void hand_down(tess_variable variable, int fd)
{
    set_number(variable, fd);
    tess_os_inherit(fd);
}

static void run_rank(const launcher *l, int rank, pid_t parent)
{
    const launch_payload *what = &l->what;
    tess_child_begin(&l->signals, parent);
    rank_output_enter(l->output, rank);
    set_number(TESS_VAR_RANK, rank);
    set_number(TESS_VAR_WORLD, l->n_ranks);
    set_number(TESS_VAR_SHM_FD, l->job.fd);
    if (l->options.trace_folder != NULL)
        setenv(tess_variable_name(TESS_VAR_TRACE), l->options.trace_folder, 1);
    if (l->options.persist != NULL)
        hand_down(TESS_VAR_PERSIST_FD, l->options.persist->fds[rank]);
    if (l->options.persist != NULL && l->options.persist->disk_fds != NULL)
        hand_down(TESS_VAR_PERSIST_DISK_FD, l->options.persist->disk_fds[rank]);
    if (what->fn != NULL) {
        tess_job job = l->job;
        tess_job_close(&job, false);
        exit(what->fn(what->context));
    }
    tess_os_inherit(l->job.fd);
    tess_child_exec(l->options.program, what->argv, what->report_fd);
}

tess_status launch_start_ranks(launcher *l)
{
    pid_t parent = getpid();
    for (int i = 0; l->options.omitted != NULL && i < JOB_OMITTED; i++)
        atomic_store(&l->job.header->omitted[i], l->options.omitted[i]);
    fflush(NULL); /* otherwise forked children would write our buffers again */
    for (int r = 0; r < l->n_ranks; r++) {
        if (l->pids[r] != 0)
            continue;
        pid_t pid = fork();
        if (pid == 0)
            run_rank(l, r, parent);
        TESS_CHECK(pid > 0, TESS_E_NOMEM, "start rank %d of %d: fork: %s", r, l->n_ranks, strerror(errno));
        l->pids[r] = pid;
        l->n_running++;
    }
    return TESS_OK;
}

void launch_signal_all(const launcher *l, int signal)
{
    for (int r = 0; r < l->n_ranks; r++)
        if (l->pids[r] != 0)
            kill(l->pids[r], signal);
}

void launch_ask_ranks(const launcher *l, bool from_terminal, bool will_join)
{
    for (int r = 0; r < l->n_ranks; r++) {
        const tess_job_row *row = &l->job.rows[r];
        int signal = atomic_load(&row->state) == JOB_RANK_ABSENT
                         ? (will_join ? 0 : l->stop_signal)
                         : tess_stop_signal_for(row, l->stop_signal, l->options.heeds_stop, from_terminal);
        if (l->pids[r] != 0 && signal != 0)
            kill(l->pids[r], signal);
    }
}

void launch_kill_all(launcher *l)
{
    l->killed = true;
    launch_signal_all(l, SIGKILL);
}

void launch_notice(const launcher *l, tess_notice_kind kind, int rank, int64_t step, const char *line)
{
    tess_notices_add(&l->job.header->notices, kind, rank, step, line);
    tess_report_line(&l->options.reporter, "%s", line);
}
