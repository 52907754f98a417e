/* `tessera ckpt prune`: removes old checkpoints once the newest good ones have been verified. */
#include <stdio.h>

#include "base/text/text.h"
#include "base/os/os.h"
#include "ckpt/tools/prune.h"
#include "cli/cli.h"

static const char *decision_text(const tess_ckpt_item *item, tess_prune_decision decision, bool dry)
{
    if (decision == TESS_PRUNE_KEPT)
        return "kept, verified";
    if (decision == TESS_PRUNE_GOES)
        return dry ? "would go" : "removed";
    return item->state == TESS_CKPT_VALID ? "kept" : "left alone";
}

static tess_status apply(const tess_ckpt_list *list, const tess_prune_decision *decisions, bool dry)
{
    uint64_t freed = 0;
    char text[32];
    for (int i = 0; i < list->n; i++) {
        const tess_ckpt_item *item = &list->items[i];
        bool goes = decisions[i] == TESS_PRUNE_GOES;
        if (goes && !dry)
            TESS_TRY(tess_ckpt_remove(list, item));
        printf("%-22s %-10s  %s\n", item->name, tess_ckpt_state_text(item->state),
               decision_text(item, decisions[i], dry));
        if (item->problem[0] != '\0' && !goes)
            printf("  %s\n", item->problem);
        freed += goes ? item->bytes : 0;
    }
    printf("%s %s\n", tess_format_bytes((double)freed, text, sizeof(text)), dry ? "would be freed" : "freed");
    return TESS_OK;
}

static tess_status prune(tess_ckpt_list *list, int64_t keep, bool dry)
{
    cli_progress progress = {.doing = "verify what stays"};
    TESS_AUTO(tess_mem_drop) tess_prune_decision *decisions = NULL;
    const tess_catalog_visitor visitor = {.self = &progress, .progress = cli_progress_report};
    TESS_TRY(TESS_NEW(list->mem, list->n, "decisions", &decisions));
    tess_status status = tess_ckpt_prune_plan(list, (int)keep, &visitor, decisions);
    cli_status_clear();
    TESS_TRY(status);
    return apply(list, decisions, dry);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    const char *dry = NULL;
    int64_t keep = 0;
    const cli_flag flags[] = {
        {"--keep", "K", "how many stay: the newest that are good", .integer = &keep, .min = 1, .max = 1 << 30},
        {"--dry-run", NULL, "only say what would go", .text = &dry}};
    int n = cli_parse(argc, argv, &cli_ckpt_prune, flags, 2);
    if (n != 1 || keep == 0)
        return cli_misuse(&cli_ckpt_prune, "%s", n != 1 ? "name one folder" : "--keep says how many stay");
    tess_ckpt_list list;
    if (!tess_os_is_dir(argv[1]))
        return cli_end(TESS_FAIL(TESS_E_NOT_FOUND, "%s: no such folder of checkpoints", argv[1]));
    tess_status status = tess_ckpt_list_read(mem, argv[1], &list);
    if (status != TESS_OK)
        return cli_end(status);
    status = prune(&list, keep, dry != NULL);
    tess_ckpt_list_free(&list);
    return cli_end(status);
}

const cli_command cli_ckpt_prune = {
    "ckpt prune", "DIR --keep K [--dry-run]",
    "remove old checkpoints, once the K newest good ones have been verified\n\n"
    "Verifies those that stay first: a damaged one does not count, and the last good one is never removed. Leaves\n"
    "damaged ones alone, and saves that did not finish, unless a good one is newer.\n",
    .examples = "tessera ckpt prune out/kjv/checkpoint --keep 3 --dry-run\n"
                "tessera ckpt prune out/kjv/checkpoint --keep 3\n"
                "tessera ckpt prune out/kjv/checkpoint --keep 1",
    .run = run};
