/* The flags that say what becomes of the ranks' output, with torchrun's names: of `tessera train`, `rl`, `run` and
 * `launch`. */
#ifndef TESS_CLI_FLAGS_OUTPUT_FLAGS_H
#define TESS_CLI_FLAGS_OUTPUT_FLAGS_H

#include "cli/cli.h"
#include "control/launch/output/output_plan.h"

typedef struct cli_output_flags {
    const char *folder, *redirects, *tee, *ranks; /* NULL: not given */
} cli_output_flags;

enum { CLI_OUTPUT_FLAGS = 6, CLI_OUTPUT_WORDS = 4 };

/* Fills `flags` with the flags that set the members of *given. */
void cli_output_flags_of(cli_output_flags *given, cli_flag flags[CLI_OUTPUT_FLAGS]);
bool cli_output_is_given(const cli_output_flags *given);

/* Words that say the same to another command: overrides of a configuration ("job.log_dir=X"), or flags. */
typedef struct cli_output_words {
    int n;
    char text[CLI_OUTPUT_WORDS][4200];
} cli_output_words;
void cli_output_words_of(const cli_output_flags *given, bool as_flags, cli_output_words *words);

#endif
