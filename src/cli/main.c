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
#include "cli/commands.h"
#include "control/supervise/stderr_lines.h"
#include "job/environment.h"

static void print_help(FILE *out)
{
    const cli_entry *entries = cli_this_program.entries;
    int width = 0;
    for (int i = 0; i < cli_this_program.n_entries; i++)
        width = (int)strlen(entries[i].command->name) > width ? (int)strlen(entries[i].command->name) : width;
    fprintf(out, "Tessera " TESS_VERSION ": %s.\n", cli_this_program.help);
    for (int i = 0; i < cli_this_program.n_entries; i++) {
        if (entries[i].group != NULL)
            fprintf(out, "\n%s\n", entries[i].group);
        cli_print_command(out, entries[i].command, width);
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

enum { MOST_COMMANDS = 32 };

/* Finds the command of this name; NULL: there is none. Sets `names` to those of all commands. */
static const cli_command *find_command(const char *name, const char *names[MOST_COMMANDS])
{
    const cli_command *also = cli_this_program.also;
    for (int i = 0; i < cli_this_program.n_entries; i++) {
        names[i] = cli_this_program.entries[i].command->name;
        if (strcmp(name, names[i]) == 0)
            return cli_this_program.entries[i].command;
    }
    for (int i = 0; also != NULL && i < also->n_verbs; i++)
        if (strcmp(name, strchr(also->verbs[i]->name, ' ') + 1) == 0)
            return also->verbs[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *names[MOST_COMMANDS];
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
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts("tessera " TESS_VERSION);
        cli_exit(TESS_EXIT_OK);
    }
    const cli_command *command = find_command(argv[1], names);
    if (command == NULL) {
        fprintf(stderr, "tessera: no command '%s'%s\n", argv[1],
                tess_options_hint("", argv[1], names, cli_this_program.n_entries, ": `tessera help` lists them", hint));
        return TESS_EXIT_BAD_INPUT;
    }
    if (command != &cli_doctor) /* `doctor env` explains the variables itself */
        warn_of_unknown_variables();
    tess_status status = tess_mem_create(&mem);
    int code = status == TESS_OK ? cli_run_command(mem, argc - 1, argv + 1, command) : cli_end(status);
    tess_mem_destroy(&mem);
    cli_exit(code);
}
