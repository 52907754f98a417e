#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/core/options.h"
#include "cli/cli.h"

static const cli_command *const commands[] = {&cli_train, &cli_eval,   &cli_generate, &cli_tokenize, &cli_convert,
                                              &cli_run,   &cli_launch, &cli_info,     &cli_bench,    &cli_doctor,
                                              &cli_top,   &cli_verify, &cli_trace,    &cli_ckpt};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
    fputs("Tessera " TESS_VERSION ": train language models across processes, fully sharded.\n\n", out);
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *end = strchrnul(commands[i]->help, '\n');
        fprintf(out, "  tessera %-9s %.*s\n", commands[i]->name, (int)(end - commands[i]->help), commands[i]->help);
    }
    fputs("\ntessera COMMAND --help says more.\n", out);
}

/* What was printed must have arrived: a full disk behind a redirection is a failure. */
static int close_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "tessera: standard output: %s\n", strerror(errno));
    return code != TESS_EXIT_OK ? code : TESS_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    const char *names[N_COMMANDS];
    prctl(PR_SET_NAME, program_invocation_short_name); /* ranks are started as /proc/self/exe */
    signal(SIGXFSZ, SIG_IGN);                          /* a file size limit is an error of write(2), like a full disk */
    if (argc < 2) {
        print_help(stderr);
        return TESS_EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return TESS_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("tessera " TESS_VERSION);
        return TESS_EXIT_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (strcmp(argv[1], names[i]) == 0)
            return close_output(commands[i]->run(argc - 1, argv + 1));
    }
    const char *nearest = tess_options_nearest(argv[1], names, N_COMMANDS);
    if (nearest != NULL)
        fprintf(stderr, "tessera: no command '%s': did you mean '%s'?\n", argv[1], nearest);
    else
        fprintf(stderr, "tessera: no command '%s': `tessera help` lists them\n", argv[1]);
    return TESS_EXIT_BAD_INPUT;
}
