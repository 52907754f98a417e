#include "cli/flags/output_flags.h"

#include <stdio.h>

void cli_output_flags_of(cli_output_flags *given, cli_flag flags[CLI_OUTPUT_FLAGS])
{
    static const char kept[] = "streams that ranks write to files only: 1 standard output, 2 standard error, 3 both; "
                               "by local rank: 0:1,1:3",
                      shown[] = "streams that are kept and shown, in the same form";
    *given = (cli_output_flags){0};
    const cli_flag all[CLI_OUTPUT_FLAGS] = {
        {"--log-dir", "DIR", "keep what ranks print there, as attempt_0/RANK/stdout.log and stderr.log",
         .text = &given->folder},
        {"--redirects", "STREAMS", kept, .text = &given->redirects},
        {"-r", "STREAMS", "the same", .text = &given->redirects},
        {"--tee", "STREAMS", shown, .text = &given->tee},
        {"-t", "STREAMS", "the same", .text = &given->tee},
        {"--local-ranks-filter", "RANKS", "local ranks whose kept streams are shown: 0,3 (all)",
         .text = &given->ranks}};
    for (int i = 0; i < CLI_OUTPUT_FLAGS; i++)
        flags[i] = all[i];
}

bool cli_output_is_given(const cli_output_flags *given)
{
    return given->folder != NULL || given->redirects != NULL || given->tee != NULL || given->ranks != NULL;
}

void cli_output_words_of(const cli_output_flags *given, bool as_flags, cli_output_words *words)
{
    const struct {
        const char *flag, *key, *value;
    } rows[CLI_OUTPUT_WORDS] = {{"--log-dir", "job.log_dir", given->folder},
                                {"--redirects", "job.log_redirects", given->redirects},
                                {"--tee", "job.log_tee", given->tee},
                                {"--local-ranks-filter", "job.log_ranks", given->ranks}};
    words->n = 0;
    for (int i = 0; i < CLI_OUTPUT_WORDS; i++)
        if (rows[i].value != NULL)
            snprintf(words->text[words->n++], sizeof(words->text[0]), "%s=%s", as_flags ? rows[i].flag : rows[i].key,
                     rows[i].value);
}
