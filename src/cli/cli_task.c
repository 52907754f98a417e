#include "cli/cli_task.h"

#include <stdlib.h>
#include <string.h>

#include "cli/flags/output_flags.h"
#include "cli/train_view.h"
#include "job/environment.h"
#include "control/supervise/train_job.h"

/* Returns the words and the further ones, with a NULL after the last. The caller frees the array. */
static char **add_words(char *const *words, int n, cli_output_words *more)
{
    char **all = calloc((size_t)(n + more->n) + 1, sizeof(*all));
    for (int i = 0; i < n + more->n && all != NULL; i++)
        all[i] = i < n ? words[i] : more->text[i - n];
    return all;
}

int cli_run_task(const tess_task_kind *kind, const cli_command *cli, const char *missing, int argc, char **argv)
{
    const char *n_ranks = NULL, *quiet = NULL, *log = NULL;
    cli_train_view view = {0};
    tess_own_command command;
    bool is_rank = tess_launch_is_rank();
    tess_status status = is_rank ? TESS_OK : tess_own_command_of(argc, argv, &command); /* cli_parse reorders argv */
    cli_flag flags[3 + CLI_OUTPUT_FLAGS] = {
        {"-n", "RANKS", "processes on this machine (1)", .text = &n_ranks},
        {"--quiet", NULL, "print neither steps nor a progress bar", .text = &quiet},
        {"--log", "FORM", "text, or json: each step, note and validation as a line of JSON (text)", .text = &log}};
    cli_output_flags output;
    cli_output_flags_of(&output, flags + 3);
    int n = cli_parse(argc, argv, cli, flags, sizeof(flags) / sizeof(flags[0]));
    if (log != NULL && strcmp(log, "json") != 0 && strcmp(log, "text") != 0)
        return cli_misuse(cli, "--log: '%s': choose text or json", log);
    if (log != NULL && quiet != NULL)
        return cli_misuse(cli, "--quiet and --log: keep one");
    view.log = quiet != NULL ? CLI_LOG_QUIET : log != NULL && strcmp(log, "json") == 0 ? CLI_LOG_JSON : CLI_LOG_TEXT;
    if (n == 0)
        return cli_misuse(cli, "%s", missing);
    char *const *words = argv + 1;
    const char *path = tess_config_take_path(&words, &n);
    cli_output_words more;
    cli_output_words_of(&output, false, &more);
    char **overrides = add_words(words, n, &more);
    if (overrides == NULL)
        return cli_end(TESS_FAIL(TESS_E_NOMEM, "no memory for the command line"));
    tess_train_job job = {.kind = kind,
                          .config = path,
                          .overrides = overrides,
                          .n_overrides = n + more.n,
                          .command = &command,
                          .counts_ranks = n_ranks != NULL,
                          .view = cli_train_view_of(&view)};
    if (status == TESS_OK && !is_rank)
        status = cli_count_ranks(n_ranks, &job.ranks);
    int code = status == TESS_OK ? tess_train_job_run(&job) : tess_exit_fail_once(status);
    free(overrides);
    return code;
}
