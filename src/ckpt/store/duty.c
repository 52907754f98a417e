/* The ranks of a host read the same bytes of a file through one page cache, so one of them verifies each piece. Each
 * rank still reads what it needs, but a checkpoint of few ranks is not checksummed by many. */
#include "ckpt/store/load_impl.h"
#include "ckpt/store/store_impl.h"

static bool touches(const tess_row_range *rows, const tess_catalog_tensor *t, const tess_catalog_piece *piece)
{
    if (t->n_dims == 0)
        return rows->n > 0;
    return rows->n > 0 && rows->begin < piece->box.begin[0] + piece->box.size[0] &&
           piece->box.begin[0] < rows->begin + rows->n;
}

/* The ranks that read a piece take turns verifying. `rows` (world, n_tensors). */
static int verifier_of(const tess_row_range *rows, int n_ranks, int n_tensors, const tess_catalog_tensor *t,
                       const tess_catalog_piece *piece, int turn)
{
    int readers = 0, chosen = -1;
    for (int rank = 0; rank < n_ranks; rank++)
        readers += touches(&rows[(size_t)rank * (size_t)n_tensors], t, piece);
    for (int rank = 0, k = 0; rank < n_ranks && readers > 0; rank++)
        if (touches(&rows[(size_t)rank * (size_t)n_tensors], t, piece) && k++ == turn % readers)
            chosen = rank;
    return chosen;
}

static void leave_to_others(const tess_load *l, const tess_row_range *rows)
{
    int n_ranks = tess_team_size(l->options.hosts->mine), me = tess_team_rank(l->options.hosts->mine);
    for (int i = 0; i < l->n; i++) {
        const tess_catalog_tensor *t = l->requests[i].tensor;
        for (int k = t->first_piece; k < t->first_piece + t->n_pieces; k++)
            if (verifier_of(&rows[i], n_ranks, l->n, t, &l->catalog->pieces[k], k) != me)
                tess_catalog_trust(l->catalog, k);
    }
}

tess_status tess_load_share_duty(const tess_load *l)
{
    tess_team *team = l->options.hosts->mine;
    tess_row_range *rows = NULL;
    if (tess_team_size(team) == 1 || l->n == 0)
        return TESS_OK;
    tess_status status = tess_store_gather_rows(l->mem, team, l->tensors, l->n, &rows);
    if (status == TESS_OK)
        leave_to_others(l, rows);
    tess_mem_free(l->mem, rows);
    return status;
}
