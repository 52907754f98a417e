/* Which checkpoints of a folder may go, and their removal. */
#ifndef TESS_CKPT_TOOLS_PRUNE_H
#define TESS_CKPT_TOOLS_PRUNE_H

#include "ckpt/catalog/catalog.h"
#include "ckpt/tools/list.h"

typedef enum tess_prune_decision {
    TESS_PRUNE_KEPT,
    TESS_PRUNE_GOES,       /* an older one than the `keep` newest good ones */
    TESS_PRUNE_LEFT_ALONE, /* damaged, unknown, or a save that may be under way: a person decides */
} tess_prune_decision;

/* verdicts (list->n): the newest `keep` (at least 1) good ones stay, older valid ones go, and saves that did not finish
 * before the newest good one. Good is what tess_catalog_verify finds no fault with: those that are to stay are read
 * whole; a fault makes an item of the list DAMAGED, with its problem. `visitor` (may be NULL): its `progress` alone,
 * for each of them anew. TESS_E_INVALID: none is good, so that none may go; TESS_E_UNSUPPORTED: they are one
 * host's parts. */
tess_status tess_ckpt_prune_plan(tess_ckpt_list *list, int keep, const tess_catalog_visitor *visitor,
                                 tess_prune_decision *decisions);

/* Out of sight first, then from the disk: what a kill leaves of it is no checkpoint. */
tess_status tess_ckpt_remove(const tess_ckpt_list *list, const tess_ckpt_item *item);

#endif
