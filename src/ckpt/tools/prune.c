#include "ckpt/tools/prune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"

enum { PATH_SIZE = 4096, POINTER_LIMIT = 64 };

/* Verifies a checkpoint. Passes on only progress, not problems: here a problem only means that the checkpoint does not
 * count. */
static tess_status verify(const tess_ckpt_list *list, const tess_ckpt_item *item, const tess_catalog_visitor *visitor)
{
    char path[PATH_SIZE];
    TESS_AUTO(tess_catalog_destroy) tess_catalog *catalog = NULL;
    tess_catalog_visitor only = {.self = visitor != NULL ? visitor->self : NULL,
                                 .progress = visitor != NULL ? visitor->progress : NULL};
    TESS_TRY(tess_ckpt_item_path(list, item, path, sizeof(path)));
    TESS_TRY(tess_catalog_open(list->mem, path, &catalog));
    return catalog->part ? TESS_FAIL(TESS_E_UNSUPPORTED,
                                     "%s is one host's part of a checkpoint: which steps all hosts have "
                                     "is not known here; checkpoint.keep_latest_k prunes them",
                                     path)
                         : tess_catalog_verify(catalog, &only);
}

/* Finds the newest `keep` good checkpoints. A damaged one is marked as DAMAGED in the list. */
static tess_status find_good(tess_ckpt_list *list, int keep, const tess_catalog_visitor *visitor,
                             tess_prune_decision *decisions, int *n_good, int *newest_good)
{
    *n_good = 0;
    *newest_good = -1;
    for (int i = list->n - 1; i >= 0 && *n_good < keep; i--) {
        tess_ckpt_item *item = &list->items[i];
        if (item->state != TESS_CKPT_VALID)
            continue;
        tess_status status = verify(list, item, visitor);
        if (status == TESS_E_NOMEM || status == TESS_E_IO || status == TESS_E_UNSUPPORTED)
            return status; /* the state is unknown, so it must not count as damaged */
        if (status != TESS_OK) {
            item->state = TESS_CKPT_DAMAGED;
            snprintf(item->problem, sizeof(item->problem), "%s", tess_error_message());
            tess_error_clear();
            continue;
        }
        decisions[i] = TESS_PRUNE_KEPT;
        *newest_good = *newest_good < 0 ? i : *newest_good;
        (*n_good)++;
    }
    return TESS_OK;
}

/* Returns the step that Megatron would resume from; -1: no file names one. */
static int64_t named_step(const tess_ckpt_list *list)
{
    char path[PATH_SIZE], *text;
    size_t size;
    if (tess_os_join(path, sizeof(path), list->folder, "latest_checkpointed_iteration.txt") != TESS_OK ||
        !tess_os_is_file(path) || tess_os_read(list->mem, path, POINTER_LIMIT, &text, &size) != TESS_OK) {
        tess_error_clear();
        return -1;
    }
    int64_t step = strtoll(text, NULL, 10);
    tess_mem_free(list->mem, text);
    return step;
}

static bool may_go(const tess_ckpt_list *list, int i, int oldest_kept, int newest_good, int64_t named)
{
    const tess_ckpt_item *item = &list->items[i];
    if (strcmp(item->name, ".") == 0 || (item->step == named && strncmp(item->name, "iter_", 5) == 0))
        return false;
    if (item->state == TESS_CKPT_INCOMPLETE) /* a later incomplete one may be a save under way */
        return i < newest_good;
    return item->state == TESS_CKPT_VALID && i < oldest_kept;
}

tess_status tess_ckpt_prune_plan(tess_ckpt_list *list, int keep, const tess_catalog_visitor *visitor,
                                 tess_prune_decision *decisions)
{
    int n_good, newest_good, oldest_kept = list->n;
    TESS_CHECK(keep >= 1, TESS_E_INVALID, "keep at least one checkpoint, not %d", keep);
    for (int i = 0; i < list->n; i++)
        decisions[i] = TESS_PRUNE_LEFT_ALONE;
    TESS_TRY(find_good(list, keep, visitor, decisions, &n_good, &newest_good));
    TESS_CHECK(n_good > 0, TESS_E_INVALID, "%s: none of its %d checkpoints is good: nothing is removed", list->folder,
               list->n);
    for (int i = list->n - 1; i >= 0; i--)
        oldest_kept = decisions[i] == TESS_PRUNE_KEPT ? i : oldest_kept;
    int64_t named = named_step(list);
    for (int i = 0; i < list->n; i++)
        if (decisions[i] != TESS_PRUNE_KEPT && may_go(list, i, n_good == keep ? oldest_kept : 0, newest_good, named))
            decisions[i] = TESS_PRUNE_GOES;
    return TESS_OK;
}

tess_status tess_ckpt_remove(const tess_ckpt_list *list, const tess_ckpt_item *item)
{
    char path[PATH_SIZE], aside[PATH_SIZE + 8];
    TESS_TRY(tess_ckpt_item_path(list, item, path, sizeof(path)));
    if (item->state == TESS_CKPT_INCOMPLETE)
        return tess_os_remove_tree(path);
    snprintf(aside, sizeof(aside), "%s.tmp", path);
    TESS_TRY(tess_os_remove_tree(aside));
    TESS_TRY(tess_os_rename(path, aside));
    return tess_os_remove_tree(aside);
}
