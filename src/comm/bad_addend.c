#include "comm/bad_addend.h"

#include <math.h>

#include "comm/comm_impl.h"
#include "device/bf16.h"

/* Fills `rank`, `n_ranks` and `value` from the addends of element i. Returns false if all of them are finite. */
static bool find_ranks(const tess_work *work, const void *const *rows, size_t i, tess_bad_addend *bad, int *first)
{
    bad->n_ranks = 0;
    for (int r = work->team->size - 1; r >= 0; r--) {
        float value = tess_get_float(rows[r], work->in_dtype, i);
        if (isfinite(value))
            continue;
        *first = r;
        bad->n_ranks++;
        bad->rank = work->team->ranks[r];
        bad->value = (double)value;
    }
    return bad->n_ranks > 0;
}

void tess_bad_addend_look(tess_work *work, const void *const *rows, const tess_byte_run *run, size_t piece)
{
    const tess_piece *of = &work->pieces.pieces[piece];
    tess_bad_addend bad = {
        .pieces = work->pieces.pieces, .piece = piece, .sequence = work->fp.sequence, .n_all = run->count};
    int first = -1;
    for (size_t i = 0; i < run->count && work->team->bad.pieces == NULL; i++) {
        if (!find_ranks(work, rows, i, &bad, &first))
            continue;
        bad.row = (run->full + i - of->offset) / of->row;
        bad.column = (run->full + i - of->offset) % of->row;
        for (size_t k = 0; k < run->count; k++)
            bad.n_bad += !isfinite(tess_get_float(rows[first], work->in_dtype, k));
        work->team->bad = bad;
    }
}

const tess_bad_addend *tess_team_bad_addend(const tess_team *team)
{
    return &team->bad;
}

void tess_team_forget_bad_addend(tess_team *team)
{
    team->bad.pieces = NULL;
}
