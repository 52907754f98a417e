#include "cli/cli_ckpt.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/options.h"
#include "base/text/text.h"

static const cli_command *const verbs[] = {&cli_ckpt_ls,      &cli_ckpt_inspect, &cli_ckpt_verify,
                                           &cli_ckpt_diff,    &cli_ckpt_merge,   &cli_ckpt_split,
                                           &cli_ckpt_extract, &cli_ckpt_edit,    &cli_ckpt_prune};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

tess_status cli_print_json(json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(object);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for JSON");
    puts(text);
    free(text);
    return TESS_OK;
}

const char *cli_format_dims(int n_dims, const int64_t *dim, char *text, size_t size)
{
    size_t at = tess_text_add(text, size, 0, "[");
    for (int d = 0; d < n_dims; d++)
        at = tess_text_add(text, size, at, "%s%" PRId64, d > 0 ? ", " : "", dim[d]);
    tess_text_add(text, size, at, "]");
    return text;
}

bool cli_name_fits(const char *name, const char *pattern)
{
    if (pattern == NULL)
        return true;
    return strpbrk(pattern, "*?[") != NULL ? fnmatch(pattern, name, 0) == 0 : strstr(name, pattern) != NULL;
}

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
    if (argc < 2) {
        print_help(stderr);
        return CLI_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    for (int i = 0; i < N_VERBS; i++) {
        names[i] = verb_name(verbs[i]);
        if (strcmp(argv[1], names[i]) == 0)
            return verbs[i]->run(argc - 1, argv + 1);
    }
    const char *nearest = tess_options_nearest(argv[1], names, N_VERBS);
    return cli_misuse(&cli_ckpt, "no 'ckpt %s'%s%s%s", argv[1], nearest != NULL ? ": did you mean 'ckpt " : "",
                      nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

const cli_command cli_ckpt = {"ckpt", "VERB ...", "list, inspect, verify, compare, cut, edit and prune checkpoints",
                              run};
