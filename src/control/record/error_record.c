#include "control/record/error_record.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "comm/rejoin.h"
#include "control/launch/ending_record.h"
#include "control/launch/output/rank_output.h"
#include "control/launch/watchdog/job_record.h"
#include "control/supervise/exit.h"
#include "job/environment.h"
#include "job/lives.h"
#include "tessera/version.h"

void tess_error_record_begin(const char *folder)
{
    char path[4096], previous[4096];
    if (folder == NULL || tess_os_join(path, sizeof(path), folder, TESS_ERROR_FILE) != TESS_OK ||
        tess_os_join(previous, sizeof(previous), folder, TESS_ERROR_FILE_PREVIOUS) != TESS_OK)
        tess_error_clear();
    else
        (void)rename(path, previous); /* there is mostly none */
}

void tess_error_record_begin_host(const char *folder)
{
    tess_environment e;
    if (tess_environment_read(&e) != TESS_OK || e.local_rank <= 0)
        tess_error_record_begin(folder);
    tess_error_clear();
}

/* Whether the job ended before its first step with the exit code that promises that nothing was written: refused input,
 * or a disk that is too small for it. */
static bool is_refusal(const tess_error_file *record)
{
    return record->exit_code == TESS_EXIT_BAD_INPUT && record->steps_done <= 0;
}

/* Adds the message that the rank's program wrote in torchelastic's form, such as a Python exception. */
static void add_program_message(const char *folder, tess_error_file *record)
{
    char path[4096];
    tess_error_file theirs;
    if (rank_output_path(folder, record->attempt, record->rank, TESS_ERROR_FILE, path, sizeof(path)) != TESS_OK ||
        !tess_os_is_file(path) || tess_error_file_read(path, &theirs) != TESS_OK || theirs.cause[0] == '\0') {
        tess_error_clear();
        return;
    }
    if (record->n_messages < TESS_ERROR_MESSAGES) {
        tess_error_of_rank *message = &record->messages[record->n_messages++];
        message->rank = record->rank;
        snprintf(message->text, sizeof(message->text), "%.*s", (int)sizeof(message->text) - 1, theirs.cause);
    }
    size_t n = strlen(record->cause);
    snprintf(record->cause + n, sizeof(record->cause) - n, ": %s", theirs.cause);
}

/* Fills in what the process that writes the record knows. */
static void complete(const char *folder, const tess_output_plan *output, int attempt, tess_error_file *record)
{
    const char *version;
    tess_version(&version);
    record->time_ns = tess_os_wall_ns();
    record->attempt = attempt;
    snprintf(record->version, sizeof(record->version), "%s", version);
    snprintf(record->folder, sizeof(record->folder), "%s", folder != NULL ? folder : "");
    watchdog_read_command(record->command, sizeof(record->command));
    if (output == NULL || output->folder == NULL || output->folder[0] == '\0' || record->rank < 0)
        return;
    if (output->is_default && tess_output_choose(output, record->rank, record->rank).kept == OUTPUT_NONE)
        return; /* files of this rank are those of an earlier command */
    rank_output_tail(output->folder, attempt, record->rank, record->output_file, sizeof(record->output_file),
                     record->output, sizeof(record->output));
    if (!output->is_default)
        add_program_message(output->folder, record);
}

/* Writes the file that torchrun reads for this process. */
static void write_for_torchrun(const tess_error_file *record)
{
    const char *path = tess_variable_value(TESS_VAR_TORCH_ERROR_FILE);
    if (path != NULL && path[0] != '\0' && tess_error_file_write(record, path) != TESS_OK)
        tess_error_clear();
}

static void write_record(const char *folder, const tess_error_file *record, const tess_reporter *reporter,
                         bool if_absent)
{
    char path[4096];
    write_for_torchrun(record);
    if (folder == NULL || !tess_os_is_dir(folder))
        return;
    tess_status status = tess_os_join(path, sizeof(path), folder, TESS_ERROR_FILE);
    if (status == TESS_OK && !(if_absent && tess_os_is_file(path)))
        status = tess_error_file_write(record, path);
    if (status == TESS_OK)
        return;
    tess_report_line(reporter, "the record of this end (%s) cannot be written: %s", TESS_ERROR_FILE,
                     tess_error_message());
    tess_error_clear();
}

static void end(const tess_launch_options *options, const tess_error_file *facts, int attempt, bool if_absent)
{
    tess_error_file record = *facts;
    if (is_refusal(&record))
        return;
    complete(options->record_folder, options->output, attempt, &record);
    write_record(options->record_folder, &record, &options->reporter, if_absent);
}

void tess_error_record_end(const tess_launch_options *options, const tess_launch_result *result, bool if_absent)
{
    if (result->has_record)
        end(options, &result->record, options->n_before, if_absent);
}

void tess_error_record_end_warden(const tess_launch_options *options, const tess_launch_result *result)
{
    tess_environment environment;
    if (!result->has_record || is_refusal(&result->record))
        return;
    tess_launch_options own = *options;
    if (tess_environment_read(&environment) != TESS_OK) {
        tess_error_clear();
        return;
    }
    if (environment.local_rank > 0 && result->report[0] == '\0')
        own.record_folder = NULL; /* the host's first warden, or the one that reports, writes it */
    end(&own, &result->record, tess_lives_before(), result->report[0] == '\0');
}

void tess_error_record_plain(const tess_launch_options *options, int exit_code, bool asked, const char *report,
                             int64_t steps_done, bool if_absent)
{
    tess_error_file record;
    launch_ending_record_plain(exit_code, asked, report, &record);
    record.steps_done = steps_done;
    end(options, &record, options->n_before, if_absent);
}

void tess_error_record_own(const char *folder, const tess_runtime *runtime, tess_status status, int code)
{
    tess_error_file record;
    const bool asked = code == TESS_EXIT_INTERRUPTED;
    const char *message = tess_error_message();
    if (tess_launch_is_rank())
        return;
    launch_ending_record_plain(code, asked,
                               asked                ? "asked to stop"
                               : message[0] != '\0' ? message
                                                    : tess_status_text(status),
                               &record);
    launch_ending_record_status(status, &record);
    record.world = tess_runtime_world(runtime);
    record.pid = (int)getpid();
    record.rank = asked ? -1 : tess_runtime_rank(runtime);
    tess_launch_place(runtime, &record.step, &record.steps_done, record.phase);
    if (is_refusal(&record))
        return;
    complete(folder, NULL, tess_lives_before(), &record);
    write_record(folder, &record, &(tess_reporter){0}, status == TESS_E_PEER_LOST);
}
