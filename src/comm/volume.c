#include "comm/volume.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm_impl.h"

static int64_t pieces_received(const tess_work *work)
{
    const tess_team *team = work->team;
    const int64_t own = (int64_t)tess_pieces_owned(work->pieces.pieces, work->pieces.n, team->size, team->rank);
    if (work->fp.kind == TESS_TRACE_ALL_GATHER_PIECES)
        return ((int64_t)work->fp.count - own) * (int64_t)tess_dtype_size(work->dtype);
    return own * (team->size - 1) * (int64_t)tess_dtype_size(work->in_dtype);
}

static int64_t uneven_received(const tess_work *work)
{
    int64_t n = 0;
    for (int r = 0; r < work->team->size; r++)
        n += r != work->team->rank ? (int64_t)work->counts.out_counts[r] : 0;
    return n * (int64_t)tess_dtype_size(work->dtype);
}

int64_t tess_volume_received(const tess_work *work)
{
    const int64_t block = (int64_t)(work->n * tess_dtype_size(work->dtype)), others = work->team->size - 1;
    const bool is_root = work->root == work->team->rank;
    switch (work->fp.kind) {
    case TESS_TRACE_ALL_GATHER:
    case TESS_TRACE_REDUCE_SCATTER:
    case TESS_TRACE_ALL_TO_ALL:
        return others * block;
    case TESS_TRACE_ALL_REDUCE:
        return 2 * block * others / work->team->size;
    case TESS_TRACE_BROADCAST:
    case TESS_TRACE_SCATTER:
        return is_root ? 0 : block;
    case TESS_TRACE_GATHER:
        return is_root ? others * block : 0;
    case TESS_TRACE_RECV:
        return block;
    case TESS_TRACE_ALL_TO_ALL_V:
        return uneven_received(work);
    case TESS_TRACE_ALL_GATHER_PIECES:
    case TESS_TRACE_REDUCE_SCATTER_PIECES:
        return pieces_received(work);
    default:
        return 0;
    }
}

static tess_volume_row *row_of(tess_volume *v, const char *team, tess_trace_op kind)
{
    for (int i = 0; i < v->n_rows; i++)
        if (v->rows[i].kind == kind && strcmp(v->rows[i].team, team) == 0)
            return &v->rows[i];
    if (v->n_rows == TESS_VOLUME_ROWS)
        return &v->rows[TESS_VOLUME_ROWS - 1];
    tess_volume_row *row = &v->rows[v->n_rows++];
    *row = (tess_volume_row){.kind = kind};
    snprintf(row->team, sizeof(row->team), "%s", team);
    return row;
}

void tess_volume_add(tess_volume *v, const tess_work *work)
{
    if (work->fp.kind >= TESS_TRACE_TEAM_SPLIT)
        return;
    tess_volume_row *row = row_of(v, work->team->name, (tess_trace_op)work->fp.kind);
    row->n++;
    row->bytes += tess_volume_received(work);
}
