#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "control/supervise/exit.h"
#include "control/supervise/warden_link.h"
#include "job/environment.h"
#include "job/job_memory.h"
#include "job/lives.h"

static void write_line(const tess_failure *failure)
{
    char line[TESS_FAILURE_LINE_BYTES + 2];
    tess_failure_line_write(failure, line);
    strcat(line, "\n");
    fputs(line, stderr); /* a single write: otherwise, lines of other ranks could come in between */
}

static void report(TESS_UNUSED void *self, const tess_failure *failure, tess_launch_decision *decision)
{
    write_line(failure);
    decision->reported = true;
}

static void report_faults(TESS_UNUSED void *self, int rank, const tess_rank_past *past)
{
    char line[TESS_LIVES_LINE_BYTES + 2];
    if (past->faults_before == 0)
        return;
    tess_lives_line_write(rank, past->faults_before, line);
    strcat(line, "\n");
    fputs(line, stderr);
}

static void listen(void *self, const tess_job *job, const pid_t *pids)
{
    (void)self, (void)pids;
    char word;
    uint32_t no = JOB_STOP_NO;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &word, 1) == 1 && word == TESS_WARDEN_LEAVE[0])
        atomic_compare_exchange_strong(&job->header->stop, &no, JOB_STOP_AFTER_SAVE);
}

bool tess_warden_is_heard(void)
{
    return tess_variable_value(TESS_VAR_LAUNCH_REPORTS) != NULL;
}

void tess_warden_reports(tess_launch_options *options)
{
    tess_environment environment;
    if (!tess_warden_is_heard())
        return;
    options->decide = report;
    options->ended = report_faults;
    /* only rank 0's warden has such an input */
    if (tess_environment_read(&environment) == TESS_OK && environment.rank == 0)
        options->tick = listen;
}

void tess_warden_reports_end(tess_launch_result *result)
{
    if (!tess_warden_is_heard() || result->failed_rank >= 0)
        return;
    if (result->asked_to_stop)
        result->reported = true; /* mpirun may end this warden before it has reported */
    if (result->exit_code == TESS_EXIT_INTERRUPTED)
        write_line(&(tess_failure){.rank = -1,
                                   .exit_code = TESS_EXIT_INTERRUPTED,
                                   .stopping = result->asked_to_stop,
                                   .step = -1,
                                   .steps_done = -1});
}
