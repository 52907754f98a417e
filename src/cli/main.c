/* The program `tessera`: finds the command, runs it, and turns its status into a message and an exit code. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/core/options.h"
#include "base/core/redact.h"
#include "base/core/unknown_variables.h"
#include "cli/cli.h"
#include "control/supervise/stderr_lines.h"
#include "job/environment.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

static const cli_command *const ckpt_verbs[] = {&cli_ckpt_ls,      &cli_ckpt_inspect, &cli_ckpt_verify,
                                                &cli_ckpt_diff,    &cli_ckpt_merge,   &cli_ckpt_split,
                                                &cli_ckpt_extract, &cli_ckpt_edit,    &cli_ckpt_prune};
static const cli_command ckpt = {"ckpt", "VERB ...",
                                 "list, inspect, verify, compare, cut, edit and prune checkpoints of any format\n"
                                 "`tessera convert` writes other formats.",
                                 .verbs = ckpt_verbs, .n_verbs = COUNT(ckpt_verbs)};

static const cli_command *const doctor_verbs[] = {&cli_doctor_log, &cli_doctor_env, &cli_doctor_timers,
                                                  &cli_doctor_preflight};
static const cli_command doctor = {"doctor", "VERB ...",
                                   "explain logs and environment variables, check machines before a run",
                                   .verbs = doctor_verbs, .n_verbs = COUNT(doctor_verbs)};

/* Commands in groups. `group` is the title printed above the command; NULL: the command belongs to the group of the
 * one before. */
static const struct {
    const char *group;
    const cli_command *command;
} commands[] = {
    {"train and use models", &cli_train},
    {NULL, &cli_rl},
    {NULL, &cli_eval},
    {NULL, &cli_generate},
    {NULL, &cli_chat},
    {"data and checkpoints", &cli_tokenize},
    {NULL, &cli_convert},
    {NULL, &ckpt},
    {"run on many processes and hosts", &cli_run},
    {NULL, &cli_launch},
    {NULL, &cli_mesh},
    {NULL, &cli_pipeline},
    {"understand and debug", &cli_top},
    {NULL, &cli_trace},
    {NULL, &doctor},
    {NULL, &cli_verify},
    {"measure", &cli_info},
    {NULL, &cli_bench},
};

static void print_help(FILE *out)
{
    int width = 0;
    for (int i = 0; i < COUNT(commands); i++)
        width = (int)strlen(commands[i].command->name) > width ? (int)strlen(commands[i].command->name) : width;
    fputs("Tessera " TESS_VERSION ": train language models across processes, fully sharded.\n", out);
    for (int i = 0; i < COUNT(commands); i++) {
        if (commands[i].group != NULL)
            fprintf(out, "\n%s\n", commands[i].group);
        cli_print_command(out, commands[i].command, width);
    }
    fputs("\ntessera COMMAND --help says more.\n", out);
}

/* Opens /dev/null for standard descriptors that are closed. Otherwise the next file would get such a number, and
 * receive the lines printed there. The direction is wrong on purpose, so that reads and writes still fail. */
static void fill_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* Removes keys in URLs from the arguments that `ps` and /proc show for this process. The command works with copies. */
static void hide_secrets(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const size_t size = strlen(argv[i]);
        char *copy = strdup(argv[i]);
        if (copy == NULL)
            return;
        tess_redact_urls(argv[i]);
        if (strcmp(copy, argv[i]) == 0) {
            free(copy);
            continue;
        }
        memset(argv[i] + strlen(argv[i]), '\0', size - strlen(argv[i]));
        argv[i] = copy;
    }
}

enum { STACK_BYTES = 8 << 20 };

/* Raises the stack limit, which threads and ranks inherit from this process. Root may raise it beyond the hard
 * limit. */
static bool has_stack(void)
{
    struct rlimit limit;
    pthread_attr_t threads;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_BYTES)
        return true;
    rlim_t hard = limit.rlim_max;
    limit.rlim_cur = STACK_BYTES;
    limit.rlim_max = hard > STACK_BYTES ? hard : STACK_BYTES;
    if (setrlimit(RLIMIT_STACK, &limit) != 0) {
        fprintf(stderr, "tessera: the stack may have %llu KiB, and needs %d: raise the limit (ulimit -s %d)\n",
                (unsigned long long)hard / 1024, STACK_BYTES / 1024, STACK_BYTES / 1024);
        return false;
    }
    pthread_attr_init(&threads);
    pthread_attr_setstacksize(&threads, STACK_BYTES);
    pthread_setattr_default_np(&threads);
    pthread_attr_destroy(&threads);
    return true;
}

/* Warns of environment variables that have no effect, because a misspelled name would go unnoticed. The ranks of a
 * job inherit the variables of the process that prints this. */
static void warn_of_unknown_variables(void)
{
    tess_environment started;
    char name[TESS_VARIABLE_NAME];
    const char *near;
    bool first = tess_environment_read(&started) != TESS_OK || started.rank == 0;
    tess_error_clear();
    if (!first || tess_launch_is_rank())
        return;
    for (int at = 0; tess_variable_unknown(environ, &at, name, &near);)
        tess_report_line(&tess_stderr_lines, "warning: %s is set, but nobody reads a variable of this name%s%s%s", name,
                         near != NULL ? ": did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
}

int main(int argc, char **argv)
{
    const char *names[COUNT(commands)];
    char hint[TESS_HINT_BYTES];
    tess_mem *mem;
    fill_standard_files();
    if (!has_stack())
        return TESS_EXIT_BAD_INPUT;
    hide_secrets(argc, argv);
    /* ranks are started from /proc/self/exe, which would be their name */
    prctl(PR_SET_NAME, program_invocation_short_name);
    /* exceeding a file size limit then is an error of write(2), like a full disk */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return TESS_EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) { /* `help mesh` is `mesh --help` */
        static char flag[] = "--help";
        memmove(&argv[1], &argv[2], (size_t)(argc - 2) * sizeof(argv[0]));
        argv[argc - 1] = flag;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        cli_exit(TESS_EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("tessera " TESS_VERSION);
        cli_exit(TESS_EXIT_OK);
    }
    for (int i = 0; i < COUNT(commands); i++) {
        names[i] = commands[i].command->name;
        if (strcmp(argv[1], names[i]) != 0)
            continue;
        if (commands[i].command != &doctor) /* `doctor env` explains the variables itself */
            warn_of_unknown_variables();
        tess_status status = tess_mem_create(&mem);
        int code = status == TESS_OK ? cli_run_command(mem, argc - 1, argv + 1, commands[i].command) : cli_end(status);
        tess_mem_destroy(&mem);
        cli_exit(code);
    }
    fprintf(stderr, "tessera: no command '%s'%s\n", argv[1],
            tess_options_hint("", argv[1], names, COUNT(commands), ": `tessera help` lists them", hint));
    return TESS_EXIT_BAD_INPUT;
}
