#include "cli/start.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch.h"
#include "job/environment.h"
#include "job/job_memory.h"
#include "launch/agent/agent.h"

tess_status cli_count_ranks(const char *text, cli_ranks *ranks)
{
    tess_environment environment;
    int64_t n = 1;
    TESS_TRY(cli_int("-n", text, 1, JOB_MAX_RANKS, &n));
    TESS_TRY(tess_environment_read(&environment));
    bool started = environment.starter != TESS_STARTER_NONE && environment.starter != TESS_STARTER_TESSERA &&
                   (environment.world > 1 || cli_warden_is_heard());
    TESS_CHECK(
        !started || text == NULL, TESS_E_INVALID,
        "-n %s starts ranks on this machine, but %s has started %d already (%s): leave -n away, or start tessera "
        "without it",
        text, tess_starter_name(environment.starter), environment.world, environment.reported_by);
    bool torchrun = started && environment.starter == TESS_STARTER_TORCHRUN;
    *ranks = (cli_ranks){.n = started ? environment.world : (int)n,
                         .guarded = started && !torchrun,
                         .joins = torchrun || (!started && n == 1)};
    return TESS_OK;
}

void cli_notice(void *self, const char *line)
{
    (void)self;
    fprintf(stderr, "tessera: %s\n", line);
}

tess_status cli_start(const cli_ranks *ranks, char *const *argv, const tess_launch_options *options,
                      tess_launch_result *result)
{
    return ranks->guarded ? tess_warden_run(argv, options, result) : tess_launch(ranks->n, argv, options, result);
}

int cli_report_end(const cli_ranks *ranks, const tess_launch_result *result)
{
    bool reported = result->reported || (result->exit_code == CLI_BAD_INPUT && result->rank0_code == CLI_BAD_INPUT) ||
                    result->exit_code == CLI_INTERRUPTED ||
                    (ranks->guarded && result->failed_rank < 0 && result->exit_code < 128); /* before there was a job */
    if (result->report[0] != '\0' && !reported)
        fprintf(stderr, "tessera: %s\n", result->report);
    return result->exit_code;
}

tess_status cli_arguments_of_self(int argc, char *const *argv, cli_arguments *words)
{
    ssize_t n = readlink("/proc/self/exe", words->program, sizeof(words->program) - 1);
    TESS_CHECK(n > 0, TESS_E_IO, "cannot start ranks: /proc/self/exe");
    TESS_CHECK(argc + 2 + CLI_ARGUMENTS_SPARE <= CLI_ARGUMENTS, TESS_E_INVALID, "cannot start ranks: too many words");
    words->program[n] = '\0';
    words->word[0] = words->program;
    for (int i = 0; i < argc; i++)
        words->word[1 + i] = argv[i];
    words->word[argc + 1] = NULL;
    words->n = argc + 1;
    return TESS_OK;
}

int cli_start_self(const cli_ranks *ranks, int argc, char **argv, const tess_launch_options *options)
{
    cli_arguments words;
    tess_launch_result result;
    tess_status status = cli_arguments_of_self(argc, argv, &words);
    tess_launch_options reported = *options;
    if (ranks->guarded)
        cli_warden_reports(&reported);
    if (status == TESS_OK)
        status = cli_start(ranks, words.word, &reported, &result);
    if (status == TESS_OK && ranks->guarded)
        cli_warden_reports_end(&result);
    return status == TESS_OK ? cli_report_end(ranks, &result) : cli_fail(status);
}

int cli_fail_once(tess_status status)
{
    tess_environment environment;
    bool first = tess_environment_read(&environment) != TESS_OK || environment.rank == 0 ||
                 environment.starter == TESS_STARTER_NONE || environment.starter == TESS_STARTER_TESSERA;
    if (!first)
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    return cli_fail(status);
}

/* As a rule a refusal (so are numbers that are none, which come of data and settings) is the same on every rank, and
 * rank 0 tells it. Everything else that ends a rank of a launcher is the launcher's to tell, once, for the rank where
 * it began. */
static bool is_refusal(tess_status status)
{
    return status == TESS_E_INVALID || status == TESS_E_NOT_FOUND || status == TESS_E_FORMAT ||
           status == TESS_E_UNSUPPORTED || status == TESS_E_NO_SPACE || status == TESS_E_NOT_FINITE;
}

int cli_end_rank(tess_status status, tess_runtime *runtime)
{
    tess_runtime_report_status(runtime, status);
    if (!tess_launch_is_rank() || (tess_runtime_rank(runtime) == 0 && is_refusal(status)))
        return cli_fail(status);
    tess_runtime_report(runtime, tess_error_message());
    return is_refusal(status) ? CLI_BAD_INPUT : CLI_FAILED;
}
