#include "control/launch/ending_record.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job/call_sites.h"
#include "job/failure.h"
#include "job/rank_end.h"

static void add_message(const tess_job *job, int rank, tess_error_file *record)
{
    const tess_job_row *row = &job->rows[rank];
    if (row->error[0] == '\0' || record->n_messages == TESS_ERROR_MESSAGES)
        return;
    tess_error_of_rank *message = &record->messages[record->n_messages++];
    message->rank = rank;
    snprintf(message->text, sizeof(message->text), "%.*s", JOB_ERROR_BYTES - 1, row->error);
    tess_call_sites_name(job, rank, message->text, sizeof(message->text));
}

/* Adds the errors of all ranks: those of the rank to blame and of the root cause come first. */
static void add_messages(const tess_job *job, const launch_ending *ending, tess_error_file *record)
{
    add_message(job, ending->rank, record);
    if (ending->cause != ending->rank)
        add_message(job, ending->cause, record);
    for (int r = 0; r < job->world; r++)
        if (r != ending->rank && r != ending->cause)
            add_message(job, r, record);
}

static void classify(const tess_failure *failure, tess_error_file *record)
{
    const tess_failure_class class = tess_failure_classify(failure);
    snprintf(record->kind, sizeof(record->kind), "%s", tess_failure_name(class));
    snprintf(record->advice, sizeof(record->advice), "%s", tess_failure_advice(class));
}

void launch_ending_record_plain(int exit_code, bool asked, const char *report, tess_error_file *record)
{
    *record =
        (tess_error_file){.rank = -1, .step = -1, .steps_done = -1, .exit_code = exit_code, .job_code = exit_code};
    snprintf(record->cause, sizeof(record->cause), "%s", report);
    classify(&(tess_failure){.rank = -1, .exit_code = exit_code, .asked = asked}, record);
    if (gethostname(record->host, sizeof(record->host) - 1) != 0)
        record->host[0] = '\0';
}

void launch_ending_record_status(tess_status status, tess_error_file *record)
{
    if (status != TESS_OK)
        classify(&(tess_failure){.rank = -1, .exit_code = record->exit_code, .status = status}, record);
}

void launch_ending_record(const tess_job *job, const launch_ending *ending, tess_error_file *record)
{
    tess_failure failure;
    launch_ending_record_plain(ending->exit_code, ending->asked, ending->report, record);
    record->world = job->world;
    record->steps_done = tess_ending_steps_done(job);
    if (ending->rank < 0)
        return;
    const tess_job_row *row = &job->rows[ending->rank];
    tess_ending_facts(job, ending->cause, ending->rank, ending->exit_code, ending->report, &failure);
    record->signal = failure.signal;
    if (ending->ended_here)
        failure.signal = 0;
    classify(&failure, record);
    record->rank = ending->rank;
    record->pid = atomic_load(&row->pid);
    record->exit_code = atomic_load(&row->exit_code);
    record->step = failure.step;
    tess_board_phase_of(row, record->phase);
    if (failure.host[0] != '\0')
        snprintf(record->host, sizeof(record->host), "%s", failure.host);
    add_messages(job, ending, record);
}
