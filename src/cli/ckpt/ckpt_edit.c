/* `tessera ckpt edit`: changes the metadata of a Tessera checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "ckpt/tools/edit.h"
#include "cli/cli.h"

/* Prints a line for each member that changed; names begin with `prefix`. */
static void print_changes(const char *prefix, const json_t *before, const json_t *after)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)after, key, value) {
        char name[1024];
        const json_t *old = json_object_get(before, key);
        snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
        if (json_equal(old, value))
            continue;
        if (json_is_object(value) && json_is_object(old)) {
            print_changes(name, old, value);
            continue;
        }
        char *from = old != NULL ? json_dumps(old, JSON_ENCODE_ANY) : NULL;
        char *to = json_dumps(value, JSON_ENCODE_ANY);
        printf("%s: %s -> %s\n", name, from != NULL ? from : "(none)", to != NULL ? to : "");
        free(from);
        free(to);
    }
}

static int run(TESS_UNUSED tess_mem *mem, int argc, char **argv)
{
    const char *add = NULL;
    const cli_flag flags[] = {{"--add", NULL, "add keys that are not there", .text = &add}};
    int n = cli_parse(argc, argv, &cli_ckpt_edit, flags, 1);
    if (n < 2)
        return cli_misuse(&cli_ckpt_edit, "%s", n == 0 ? "which checkpoint?" : "what is to change: key=value?");
    json_t *before = NULL, *after = NULL;
    tess_status status = tess_ckpt_edit(NULL, argv[1], argv + 2, n - 1, add != NULL, &before, &after);
    if (status == TESS_OK && json_equal(before, after)) {
        printf("%s: nothing to change\n", argv[1]);
    } else if (status == TESS_OK) {
        print_changes("meta", before, after);
        printf("%s: edited; the manifest of its save is manifest.json.backup beside it\n", argv[1]);
    }
    json_decref(before);
    json_decref(after);
    return cli_end(status);
}

const cli_command cli_ckpt_edit = {
    "ckpt edit", "PATH key=value ... [--add]",
    "change the metadata of a Tessera checkpoint\n\n"
    "Keys are those below \"meta\" of `tessera ckpt inspect`, with dots between nested ones; values are JSON, or "
    "texts.\n"
    "The checkpoint is replaced in one step; a kill leaves the old one or the new one.\n",
    .examples = "tessera ckpt edit out/kjv/checkpoint/step-450 note=baseline --add\n"
                "tessera ckpt edit out/kjv/checkpoint/step-450 run.lr=0.001 --add\n"
                "tessera ckpt edit out/kjv/checkpoint/step-450 note='before the new data'",
    .run = run};
