/* Decides which checkpoints of a folder are removed, and removes them. */
#ifndef TESS_CKPT_TOOLS_PRUNE_H
#define TESS_CKPT_TOOLS_PRUNE_H

#include "ckpt/catalog/catalog.h"
#include "ckpt/tools/list.h"

typedef enum tess_prune_decision {
    TESS_PRUNE_KEPT,
    TESS_PRUNE_GOES,       /* older than the `keep` newest good ones */
    TESS_PRUNE_LEFT_ALONE, /* damaged, unknown, or perhaps a save under way: the user decides */
} tess_prune_decision;

/* Fills decisions (list->n): the newest `keep` (at least 1) good checkpoints stay; older valid ones go, and so do
 * unfinished saves before the newest good one. Good is what tess_catalog_verify finds no fault in: those that are to
 * stay are read whole, and a damaged one becomes DAMAGED in the list, with its problem. `visitor` (may be NULL): only
 * its `progress` is called, for each checkpoint anew. TESS_E_INVALID: none is good, so nothing may go;
 * TESS_E_UNSUPPORTED: the checkpoints are one host's parts. */
tess_status tess_ckpt_prune_plan(tess_ckpt_list *list, int keep, const tess_catalog_visitor *visitor,
                                 tess_prune_decision *decisions);

/* Renames a checkpoint, then removes it: what a kill leaves of it does not count as a checkpoint. */
tess_status tess_ckpt_remove(const tess_ckpt_list *list, const tess_ckpt_item *item);

#endif
