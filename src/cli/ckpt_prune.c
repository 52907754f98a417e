#include <stdio.h>

#include "base/text/text.h"
#include "ckpt/tools/prune.h"
#include "cli/cli_ckpt.h"
#include "cli/cli_progress.h"

static void report_progress(void *self, uint64_t done, uint64_t all)
{
    cli_progress_report(self, "verify what stays", done, all);
}

static const char *decision_text(const tess_ckpt_item *item, tess_prune_decision decision, bool dry)
{
    if (decision == TESS_PRUNE_KEPT)
        return "kept, verified";
    if (decision == TESS_PRUNE_GOES)
        return dry ? "would go" : "removed";
    return item->state == TESS_CKPT_VALID ? "kept" : "left alone";
}

static tess_status carry_out(const tess_ckpt_list *list, const tess_prune_decision *decisions, bool dry)
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
    cli_progress progress = {0};
    tess_prune_decision *decisions;
    const tess_catalog_visitor visitor = {.self = &progress, .progress = report_progress};
    TESS_TRY(tess_mem_alloc_array(list->mem, TESS_POOL_MISC, (size_t)list->n, sizeof(*decisions), "verdicts",
                                  (void **)&decisions));
    tess_status status = tess_ckpt_prune_plan(list, (int)keep, &visitor, decisions);
    cli_status_clear();
    if (status == TESS_OK)
        status = carry_out(list, decisions, dry);
    tess_mem_free(list->mem, decisions);
    return status;
}

static int run(int argc, char **argv)
{
    const char *keep_text = NULL, *dry = NULL;
    int64_t keep = 0;
    const cli_flag flags[] = {{"--keep", "K", "how many stay: the newest that are good", &keep_text},
                              {"--dry-run", NULL, "only say what would go", &dry}};
    int n = cli_parse(argc, argv, &cli_ckpt_prune, flags, 2);
    if (n < 0)
        return n == -1 ? TESS_EXIT_OK : TESS_EXIT_BAD_INPUT;
    if (n != 1 || keep_text == NULL)
        return cli_misuse(&cli_ckpt_prune, "%s", n != 1 ? "name one folder" : "--keep says how many stay");
    tess_mem *mem = NULL;
    tess_ckpt_list list = {0};
    tess_status status = cli_int("--keep", keep_text, 1, 1 << 30, &keep);
    if (status == TESS_OK)
        status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = tess_ckpt_list_read(mem, argv[1], &list);
    if (status == TESS_OK)
        status = prune(&list, keep, dry != NULL);
    if (mem != NULL)
        tess_ckpt_list_free(&list);
    tess_mem_destroy(&mem);
    return status == TESS_OK ? TESS_EXIT_OK : cli_fail(status);
}

const cli_command cli_ckpt_prune = {
    "ckpt prune", "DIR --keep K [--dry-run]",
    "removes old checkpoints, once the K newest good ones have been verified\n\n"
    "Those that are to stay are read and checked first: a damaged one does not count, and the last good one never\n"
    "goes. Damaged ones are left alone; so is a save that did not finish, unless a good one is newer.\n",
    run};
