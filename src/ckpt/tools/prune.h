/* Decides which checkpoints of a folder are removed, and removes them. */
#ifndef TESS_CKPT_TOOLS_PRUNE_H
#define TESS_CKPT_TOOLS_PRUNE_H

#include "ckpt/catalog/catalog.h"
#include "ckpt/tools/list.h"

typedef enum tess_prune_decision {
    TESS_PRUNE_KEPT,
    TESS_PRUNE_GOES,       /* older than the `keep` newest good ones; removed */
    TESS_PRUNE_LEFT_ALONE, /* damaged, unknown, or perhaps a save under way: the user must decide */
} tess_prune_decision;

/* Decides for each checkpoint of the list; decisions (list->n). The newest `keep` (at least 1) good checkpoints are
 * kept. Older valid ones are removed, and so are unfinished saves before the newest good one.
 *
 * A checkpoint is good if tess_catalog_verify finds no problem. So those that are to be kept are read completely; a
 * damaged one becomes DAMAGED in the list, with its problem. `visitor` (may be NULL): only its `progress` is called,
 * from zero for each checkpoint.
 *   TESS_E_INVALID      no checkpoint is good, so none may be removed
 *   TESS_E_UNSUPPORTED  the checkpoints are one host's parts */
tess_status tess_ckpt_prune_plan(tess_ckpt_list *list, int keep, const tess_catalog_visitor *visitor,
                                 tess_prune_decision *decisions);

/* Renames a checkpoint, then removes it. If this is interrupted, what remains does not count as a checkpoint. */
tess_status tess_ckpt_remove(const tess_ckpt_list *list, const tess_ckpt_item *item);

#endif
