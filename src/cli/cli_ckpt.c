#include "cli/cli_ckpt.h"

#include <stdio.h>
#include <string.h>

static const cli_command *const verbs[] = {&cli_ckpt_ls,      &cli_ckpt_inspect, &cli_ckpt_verify,
                                           &cli_ckpt_diff,    &cli_ckpt_merge,   &cli_ckpt_split,
                                           &cli_ckpt_extract, &cli_ckpt_edit,    &cli_ckpt_prune};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

/* "ckpt ls" is asked for as "ls". */
static const char *verb_name(const cli_command *verb)
{
    return strchr(verb->name, ' ') + 1;
}

static void print_help(FILE *out)
{
    fputs("usage: tessera ckpt VERB ...\nLooks at checkpoints of any format, and changes them.\n\n", out);
    for (int i = 0; i < N_VERBS; i++) {
        const char *end = strchrnul(verbs[i]->help, '\n');
        fprintf(out, "  tessera %-13s %.*s\n", verbs[i]->name, (int)(end - verbs[i]->help), verbs[i]->help);
    }
    fputs("\ntessera ckpt VERB --help says more; `tessera convert` writes other formats.\n", out);
}

static int run(int argc, char **argv)
{
    const char *names[N_VERBS];
    for (int i = 0; i < N_VERBS; i++)
        names[i] = verb_name(verbs[i]);
    int verb = cli_choose(argc, argv, names, N_VERBS, print_help);
    if (verb < 0)
        return cli_unchosen(verb);
    if (verb < N_VERBS)
        return verbs[verb]->run(argc - 1, argv + 1);
    char hint[CLI_HINT];
    return cli_misuse(&cli_ckpt, "no 'ckpt %s'%s", argv[1], cli_hint("ckpt ", argv[1], names, N_VERBS, hint));
}

const cli_command cli_ckpt = {"ckpt", "VERB ...", "list, inspect, verify, compare, cut, edit and prune checkpoints",
                              run};
