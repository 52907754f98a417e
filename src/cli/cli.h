/* Declares the command line. Each subcommand has a file with its flags, its calls and its output. Exit codes: 0
 * done, 1 failed, 2 bad input (nothing was written) or a full disk (nothing was lost), 130 interrupted, 128+n killed
 * by signal n. */
#ifndef TESS_CLI_CLI_H
#define TESS_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "base/report/form.h"
#include "control/supervise/exit.h"
#include "control/supervise/start_ranks.h"
#include "tessera/comm.h"
#include "tessera/memory.h"
#include "config/config.h"
#include "engine/model/weights.h"

typedef struct cli_flag {
    const char *name; /* "--prompt", or "-n" */
    /* its value in the usage: "TEXT"; NULL: a switch; "[=FILE]": a value is optional; "FILE ...": the flag may be
     * given up to CLI_REPEATS times */
    const char *value;
    const char *help;
    /* receives the value, or "" for a switch; for "FILE ...": an array of CLI_REPEATS + 1 pointers, all NULL */
    const char **text;
    int64_t *integer, min, max;  /* receives the value as an integer in min .. max */
    int64_t *bytes, unit;        /* receives a size in min .. max bytes; a plain number counts `unit` bytes */
    double *number, least, most; /* receives a number in least .. most */
    tess_form_style *style, as;  /* receives `as` */
} cli_flag;

/* The flags that choose the style of a report. */
#define CLI_STYLES(to)                                                                               \
    {"--json", NULL, "print JSON", .style = (to), .as = TESS_FORM_JSON},                             \
        {"--html", NULL, "print a page of HTML", .style = (to), .as = TESS_FORM_HTML},               \
    {                                                                                                \
        "--prometheus", NULL, "print metrics for Prometheus", .style = (to), .as = TESS_FORM_METRICS \
    }

/* A command. `name` is one word, or two as in "ckpt ls". Lists of commands show the first line of `help`. */
typedef struct cli_command {
    const char *name, *arguments, *help;
    const char *examples;   /* three command lines, one a line */
    const char *exit_codes; /* text after "exit codes: "; NULL: those of most commands */
    /* Runs the command. argv[0] is the last word of the name, argv[-1] the word before it. `mem` belongs to the
     * process. NULL: argv[1] selects one of `verbs`. */
    int (*run)(tess_mem *mem, int argc, char **argv);
    const struct cli_command *const *verbs;
    int n_verbs;
} cli_command;

enum { CLI_REPEATS = 16 };

/* Sorts argv[1..] into flags and positional arguments, moves the latter to argv + 1, and returns their number. Ends
 * the process after printing the usage on --help, or the reason on a bad flag. */
int cli_parse(int argc, char **argv, const cli_command *command, const cli_flag *flags, int n_flags);

/* Runs a command and returns its exit code. If the command has verbs, prints their list on --help or if argv[1] is
 * missing. */
int cli_run_command(tess_mem *mem, int argc, char **argv, const cli_command *command);
/* Returns the verb that the first word after the command's name is; NULL: it is something else, such as a
 * configuration. */
const cli_command *cli_find_verb(int argc, char **argv, const cli_command *const *verbs, size_t n);
/* Prints one line: the command's name, padded to `width` columns, and the first line of its help. */
void cli_print_command(FILE *out, const cli_command *command, int width);
/* Prints one such line for each command. */
void cli_print_commands(FILE *out, const cli_command *const *commands, int n);

/* Ends the process. If standard output cannot be written (for example, the disk is full), reports that and turns
 * success into failure. */
void cli_exit(int code) __attribute__((noreturn));

/* Clears the status line. Returns the exit code for `status`; on failure, also prints the message as tess_exit_fail
 * does. */
int cli_end(tess_status status);
/* Prints "tessera: <message>" with the usage of `command`; returns TESS_EXIT_BAD_INPUT. */
int cli_misuse(const cli_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Calls tess_ranks_count with the value of -n; NULL: -n was not given. */
tess_status cli_count_ranks(const char *text, tess_ranks *ranks);
/* Parses "float32" or "bfloat16". If `stored`, also accepts "float16", which is only a storage format. If `text` is
 * NULL, sets *dtype to TESS_DTYPE_COUNT. */
tess_status cli_dtype(const char *flag, const char *text, bool stored, tess_dtype *dtype);
/* Parses "auto", "true" or "false". NULL means auto. */
tess_status cli_add_bos(const char *text, tess_add_bos *add);

/* If `status` is TESS_OK, prints `text` to standard output. Then frees `text` and returns `status`. */
tess_status cli_print_text(tess_status status, tess_buffer *text);
/* Prints a report as tess_form_put writes it. Takes over the report. */
tess_status cli_report(tess_mem *mem, json_t *report, const tess_form_part *form, tess_form_style style, size_t flags);
/* Prints a warning of the library to standard error, in place of the status line. */
void cli_print_line(void *self, const char *line);

/* Overwrites the status line if standard error is a terminal: "what: 42%  1.2 M tokens". Otherwise prints nothing. */
void cli_status_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_status_clear(void);

/* Returns the columns of a terminal; 0: the file is not a terminal, or the terminal does not say. */
int cli_columns(int fd);

/* The status line of work with a known number of bytes. It appears when the work has lasted a second: "verify: 42%
 * 1.2 GiB of 2.9 GiB, 1.1 GiB/s, 2 s left". */
typedef struct cli_progress {
    const char *doing;       /* name of the work, such as "verify" */
    double began_s, shown_s; /* 0: not begun, not shown yet */
} cli_progress;

/* Progress callback. `progress` points to a cli_progress. */
void cli_progress_report(void *progress, uint64_t done, uint64_t all);

/* Exit code of `doctor log` if it recognised nothing, and of `doctor env` if something should be corrected. */
enum { CLI_DOCTOR_FINDS = 3 };

extern const cli_command cli_train, cli_rl, cli_init, cli_eval, cli_generate, cli_chat, cli_tokenize, cli_convert,
    cli_run, cli_launch, cli_slurm, cli_info, cli_bench, cli_top, cli_dash, cli_verify, cli_trace, cli_mesh,
    cli_pipeline, cli_run_report, cli_debug, cli_plan;
extern const cli_command cli_rl_samples;
extern const cli_command cli_ckpt_ls, cli_ckpt_inspect, cli_ckpt_verify, cli_ckpt_diff, cli_ckpt_merge, cli_ckpt_split,
    cli_ckpt_extract, cli_ckpt_edit, cli_ckpt_prune;
extern const cli_command cli_doctor_log, cli_doctor_env, cli_doctor_timers, cli_doctor_preflight, cli_doctor;

/* ---- Inference on several ranks of this host. All do the same, and the first one prints. ---- */
/* Runs `run` on n ranks, which are forked with `plan`, and writes rank 0's `result` (size bytes; 0: none). Only rank 0
 * has a standard output.
 * TESS_E_UNSUPPORTED: `device` names another device than the CPU */
tess_status cli_ranks_run(int n, const char *device,
                          tess_status (*run)(tess_runtime *runtime, const void *plan, void *result), const void *plan,
                          void *result, size_t size);

/* Returns the reporter of a rank: rank 0 prints lines, the others drop them. */
tess_reporter cli_reporter_of(const tess_runtime *runtime);
/* Returns the threads of a rank; asked 0: its share of the cores. */
int cli_threads_of(const tess_runtime *runtime, int asked);

#endif
