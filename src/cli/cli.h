/* The command line: one file per subcommand, its flags in a table, no logic of its own.
 * Exit codes: 0 done, 1 failed, 2 bad input (nothing was written) or a full disk (nothing was lost), 130 interrupted,
 * 128+n killed by signal n. */
#ifndef TESS_CLI_CLI_H
#define TESS_CLI_CLI_H

#include <stdio.h>

#include "supervise/exit.h"
#include "supervise/start_ranks.h"
#include "tessera/memory.h"
#include "train/weights.h"

typedef struct cli_flag {
    const char *name;  /* "--prompt", or "-n" */
    const char *value; /* what it takes, for the usage: "TEXT"; NULL: a switch; "[=FILE]": one that may take a value;
                        * "FILE ...": it may be given CLI_REPEATS times */
    const char *help;
    const char *
        *text; /* where the value goes (switch: "" when given; "FILE ...": CLI_REPEATS + 1 of them, NULL first) */
} cli_flag;

typedef struct cli_command {
    const char *name, *arguments, *help;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
} cli_command;

enum { CLI_REPEATS = 16 };

/* Sorts argv[1..] into flags and positionals (which are moved to the front of argv + 1; their number is returned). On
 * -h or --help prints the usage and returns -1; on a bad flag prints why and returns -2. */
int cli_parse(int argc, char **argv, const cli_command *command, const cli_flag *flags, int n_flags);

enum { CLI_HINT = 256, CLI_HELPED = -1, CLI_NO_WORD = -2 };

/* Of commands in two words: which of `names` argv[1] is, n: none of them. CLI_HELPED: help was asked for and printed;
 * CLI_NO_WORD: there is none, and it was printed to standard error. */
int cli_choose(int argc, char **argv, const char *const *names, int n, void (*print_help)(FILE *out));
/* The exit code of the latter two. */
int cli_unchosen(int chosen);

/* ": did you mean 'before NAME'?" for the name that is near to `word`, or ""; returns text, of CLI_HINT bytes. */
const char *cli_hint(const char *before, const char *word, const char *const *names, int n, char *text);

/* tess_exit_fail, where a status line may stand on the terminal. */
int cli_fail(tess_status status);
/* Prints "tessera: <message>" with the usage of `command`; returns TESS_EXIT_BAD_INPUT. */
int cli_misuse(const cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL text leaves *value alone. TESS_E_INVALID names the flag and the range. */
tess_status cli_int(const char *flag, const char *text, int64_t min, int64_t max, int64_t *value);
tess_status cli_number(const char *flag, const char *text, double min, double max, double *value);
/* `text` is what -n was given, NULL: nothing. As tess_ranks_count. */
tess_status cli_count_ranks(const char *text, tess_ranks *ranks);
/* "float32" or "bfloat16", and for what is only stored "float16"; NULL: TESS_DTYPE_COUNT. */
tess_status cli_dtype(const char *flag, const char *text, bool stored, tess_dtype *dtype);

/* Prints warnings of the library to stderr. */
tess_reporter cli_reporter(void);

/* A line on a terminal that is written over, nothing elsewhere: "what: 42%  1.2 M tokens". */
void cli_status_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_status_clear(void);

extern const cli_command cli_train, cli_eval, cli_generate, cli_tokenize, cli_convert, cli_run, cli_launch, cli_info,
    cli_bench, cli_top, cli_verify, cli_doctor, cli_trace, cli_ckpt;

#endif
