/* What may go once a checkpoint stands. */
#include <stdio.h>

#include "ckpt/async/async_impl.h"

/* Good steps told of beyond those that are to be kept: hosts that have lost different ones have less in common. */
enum { FURTHER = 4 };

/* The folder of this host alone: what may go the hosts have agreed on, by what their writers told of the save before.
 * This one tells for the next. */
static tess_status retain_part(const async_retention *r, const tess_ckpt_pruner *pruner)
{
    int most = r->keep_latest_k < ASYNC_GOOD - FURTHER ? r->keep_latest_k + FURTHER : ASYNC_GOOD;
    TESS_TRY(tess_ckpt_prune_below(pruner, r->dir, r->keep_from));
    if (r->keep_latest_k == 0)
        return TESS_OK;
    return tess_ckpt_list_good(pruner, r->dir, r->step, r->keep_latest_k, most, r->outcome->good, &r->outcome->n_good);
}

tess_status async_retain(const async_retention *r)
{
    tess_ckpt_notes notes = {.text = r->outcome->message, .size = sizeof(r->outcome->message)};
    const tess_ckpt_pruner pruner = {
        .mem = r->mem, .io = r->io, .findings = r->findings, .self = &notes, .note = tess_ckpt_keep_note};
    if (r->was_read)
        tess_ckpt_note_good(&pruner, r->dir, r->step);
    TESS_TRY_CTX(r->is_part ? retain_part(r, &pruner) : tess_ckpt_prune(&pruner, r->dir, r->keep_latest_k, r->step),
                 "the checkpoint is whole, but older ones were to be removed");
    return TESS_OK;
}
