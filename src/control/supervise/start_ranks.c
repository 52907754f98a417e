#include "control/supervise/start_ranks.h"

#include "base/os/os.h"
#include "control/record/error_record.h"
#include "control/supervise/exit.h"
#include "control/supervise/stderr_lines.h"
#include "control/supervise/warden_link.h"
#include "job/environment.h"
#include "job/job_memory.h"
#include "control/launch/agent/agent.h"

tess_status tess_own_command_of(int argc, char *const *argv, tess_own_command *words)
{
    TESS_TRY_CTX(tess_os_own_path(words->program, sizeof(words->program)), "cannot start ranks");
    TESS_CHECK(argc + 2 + TESS_OWN_COMMAND_WORDS_SPARE <= TESS_OWN_COMMAND_WORDS, TESS_E_INVALID,
               "cannot start ranks: too many words");
    words->word[0] = words->program;
    for (int i = 0; i < argc; i++)
        words->word[1 + i] = argv[i];
    words->word[argc + 1] = NULL;
    words->n = argc + 1;
    return TESS_OK;
}

void tess_own_command_add(tess_own_command *words, const char *word)
{
    words->word[words->n++] = (char *)word;
    words->word[words->n] = NULL;
}

tess_status tess_ranks_count(int n, tess_ranks *ranks)
{
    tess_environment environment;
    TESS_TRY(tess_environment_read(&environment));
    bool started = environment.starter != TESS_STARTER_NONE && environment.starter != TESS_STARTER_TESSERA &&
                   (environment.world > 1 || tess_warden_is_heard());
    TESS_CHECK(
        !started || n == 0, TESS_E_INVALID,
        "-n %d starts ranks on this machine, but %s has started %d already (%s): leave -n away, or start tessera "
        "without it",
        n, tess_starter_name(environment.starter), environment.world, environment.reported_by);
    *ranks = (tess_ranks){.n = started ? environment.world
                               : n > 0 ? n
                                       : 1,
                          .is_warden = started && environment.uses_wire,
                          .joins = started ? !environment.uses_wire : n <= 1};
    return TESS_OK;
}

bool tess_ranks_is_first_here(const tess_ranks *ranks)
{
    tess_environment environment;
    if (!ranks->is_warden && !ranks->joins)
        return true;
    if (tess_environment_read(&environment) == TESS_OK)
        return environment.starter == TESS_STARTER_NONE || environment.local_rank <= 0;
    tess_error_clear();
    return false;
}

tess_status tess_ranks_start_saves(tess_async_service **saves)
{
    tess_environment environment;
    *saves = NULL;
    TESS_TRY(tess_environment_read(&environment));
    return environment.local_rank > 0 ? TESS_OK : tess_async_service_start(saves);
}

tess_status tess_ranks_start(const tess_ranks *ranks, char *const *argv, const tess_launch_options *options,
                             tess_launch_result *result)
{
    return ranks->is_warden ? tess_warden_run(argv, options, result) : tess_launch(ranks->n, argv, options, result);
}

int tess_ranks_report_end(const tess_ranks *ranks, const tess_launch_result *result, const tess_reporter *reporter)
{
    bool reported =
        result->reported || (result->exit_code == TESS_EXIT_BAD_INPUT && result->rank0_code == TESS_EXIT_BAD_INPUT) ||
        (result->exit_code == TESS_EXIT_INTERRUPTED && result->failed_rank >= 0) ||
        (ranks->is_warden && result->failed_rank < 0 && result->exit_code < 128); /* it failed before there was a job */
    if (result->report[0] != '\0' && !reported)
        tess_report_line(reporter, "%s", result->report);
    return result->exit_code;
}

int tess_ranks_start_self(const tess_ranks *ranks, const tess_own_command *command, const tess_launch_options *options)
{
    tess_launch_result result;
    tess_launch_options reported = *options;
    const tess_reporter reporter = options->reporter.line != NULL ? options->reporter : tess_stderr_lines;
    if (ranks->is_warden)
        tess_warden_reports(&reported);
    tess_status status = tess_ranks_start(ranks, command->word, &reported, &result);
    if (status == TESS_OK && ranks->is_warden)
        tess_warden_reports_end(&result);
    if (status == TESS_OK && ranks->is_warden)
        tess_error_record_end_warden(options, &result);
    else if (status == TESS_OK)
        tess_error_record_end(options, &result, false);
    return status == TESS_OK ? tess_ranks_report_end(ranks, &result, &reporter) : tess_exit_report(&reporter, status);
}
