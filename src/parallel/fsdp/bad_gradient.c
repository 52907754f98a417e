/* Which rank's gradient was not finite when it was summed. */
#include "comm/bad_addend.h"
#include "parallel/fsdp/fsdp_impl.h"

void tess_fsdp_bad_gradient_forget(tess_fsdp *fsdp)
{
    tess_team_forget_bad_addend(fsdp->shard_team);
    fsdp->bad_micro = -1;
}

void tess_fsdp_bad_gradient_note(const tess_unit *unit)
{
    tess_fsdp *fsdp = unit->fsdp;
    if (fsdp->bad_micro < 0 && tess_team_bad_addend(fsdp->shard_team)->pieces == unit->reduce_pieces)
        fsdp->bad_micro = unit->reduce_micro;
}

static const char *name_of(const tess_unit *unit, size_t piece)
{
    for (int i = 0; i < unit->n_params; i++)
        if (unit->params[i].trainable && piece-- == 0)
            return unit->params[i].name;
    return unit->name;
}

bool tess_fsdp_find_bad_gradient(const tess_fsdp *fsdp, tess_fsdp_bad_gradient *bad)
{
    const tess_bad_addend *addend = tess_team_bad_addend(fsdp->shard_team);
    for (int u = 0; u < fsdp->n_units && fsdp->bad_micro >= 0; u++) {
        if (fsdp->units[u]->reduce_pieces != addend->pieces)
            continue;
        *bad = (tess_fsdp_bad_gradient){.param = name_of(fsdp->units[u], addend->piece),
                                        .rank = addend->rank,
                                        .n_ranks = addend->n_ranks,
                                        .micro = fsdp->bad_micro,
                                        .order = (int64_t)addend->sequence,
                                        .row = (int64_t)addend->row,
                                        .column = (int64_t)addend->column,
                                        .n_bad = (int64_t)addend->n_bad,
                                        .n_values = (int64_t)addend->n_all,
                                        .value = addend->value};
        return true;
    }
    return false;
}
