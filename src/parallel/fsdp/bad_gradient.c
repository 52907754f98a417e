/* Finds the rank whose gradient was not finite when it was summed. */
#include "comm/bad_addend.h"
#include "parallel/fsdp/fsdp_impl.h"

void tess_fsdp_bad_gradient_forget(tess_fsdp *fsdp)
{
    for (int i = 0; i < fsdp->n_families; i++) {
        tess_team_forget_bad_addend(fsdp->families[i]->teams.shard_team);
        fsdp->families[i]->bad_micro = -1;
    }
}

void tess_fsdp_bad_gradient_note(const tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    if (family->bad_micro < 0 && tess_team_bad_addend(family->teams.shard_team)->pieces == unit->layout.reduce_pieces)
        family->bad_micro = unit->reduction.micro;
}

/* Returns the trainable parameter whose gradient is piece number `piece` of a reduction. */
static const tess_fsdp_param *param_of(const tess_unit *unit, size_t piece)
{
    int i = 0;
    while (!unit->params[i].trainable || piece-- > 0)
        i++;
    return &unit->params[i];
}

bool tess_fsdp_find_bad_gradient(const tess_fsdp *fsdp, tess_fsdp_bad_gradient *bad)
{
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_fsdp_family *family = fsdp->units[u]->family;
        const tess_bad_addend *addend = tess_team_bad_addend(family->teams.shard_team);
        if (family->bad_micro < 0 || fsdp->units[u]->layout.reduce_pieces != addend->pieces)
            continue;
        const tess_fsdp_param *p = param_of(fsdp->units[u], addend->piece);
        int64_t row = tess_shape_row_count(&p->shape);
        int64_t number = tess_fsdp_element(p, &p->part, (int64_t)addend->row * p->row + (int64_t)addend->column);
        *bad = (tess_fsdp_bad_gradient){.param = p->name,
                                        .rank = addend->rank,
                                        .n_ranks = addend->n_ranks,
                                        .micro = family->bad_micro,
                                        .order = (int64_t)addend->sequence,
                                        .row = number / row,
                                        .column = number % row,
                                        .n_bad = (int64_t)addend->n_bad,
                                        .n_values = (int64_t)addend->n_all,
                                        .value = addend->value};
        return true;
    }
    return false;
}
