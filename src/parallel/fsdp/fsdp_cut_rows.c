/* Sums of squares over rows of a gradient whose columns are split over the tp team. The ranks exchange columns for
 * rows, a few rows at a time. Each rank gets an equal number of whole rows and sums their squares in the order that
 * one rank would use. With t ranks in the team, a rank receives (t - 1) / t of the bytes that it holds of the
 * gradient. */
#include "base/mem/dry_mem.h"
#include "comm/box_move.h"
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

/* Elements of whole rows that a rank handles at a time: at least one row, and as many as make no more exchanges than
 * this for a parameter, because each waits for the slowest rank. */
enum { ELEMENTS_AT_ONCE = 1 << 18, MOST_EXCHANGES = 16 };

typedef struct exchange {
    tess_box *had, *gets; /* (n_tp) the columns of each rank, and its rows */
    float *whole;         /* this rank's rows */
    double *sums;         /* sums over its rows */
} exchange;

/* `rows` has this rank's columns of `n_rows` rows. Of these rows, the next *n are assigned to this rank, and
 * x->whole gets all their columns. */
static tess_status exchange_rows(tess_fsdp *fsdp, const tess_fsdp_param *p, const float *rows, int64_t n_rows,
                                 exchange *x, int64_t *n)
{
    size_t received;
    for (int r = 0; r < fsdp->topology.n_tp; r++) {
        x->had[r] = tess_fsdp_part(fsdp, p, r);
        x->had[r].begin[0] = 0;
        x->had[r].size[0] = n_rows;
        x->gets[r] = tess_box_whole(&p->shape);
        tess_shard_rows(n_rows, fsdp->topology.n_tp, r, &x->gets[r].begin[0], &x->gets[r].size[0]);
    }
    *n = x->gets[fsdp->topology.tp].size[0];
    return tess_move_boxes(fsdp->topology.tp_team, NULL,
                           &(tess_box_move){.n_dims = p->shape.n_dims,
                                            .element = sizeof(float),
                                            .had = x->had,
                                            .gets = x->gets,
                                            .in = rows,
                                            .out = x->whole},
                           &received);
}

/* Returns the most rows that any rank is primary for. All ranks exchange as many times, also those with fewer or none,
 * because the teams of an axis plan the same calls. */
static int64_t most_rows(const tess_fsdp_family *family, const tess_fsdp_param *p)
{
    const int64_t of_shard = (p->rows + family->teams.n_shards - 1) / family->teams.n_shards;
    return (of_shard + family->teams.n_replicas - 1) / family->teams.n_replicas;
}

static tess_status add_rows(tess_fsdp *fsdp, const tess_fsdp_param *p, const float *rows, int64_t most,
                            int64_t rows_at_once, exchange *x, tess_exact_sum *sum)
{
    int64_t row = tess_shape_row_count(&p->shape), n_rows = p->primary.size[0],
            at_once = rows_at_once * fsdp->topology.n_tp, n;
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_host_stream(&fsdp->place, &stream));
    for (int64_t begin = 0; begin < most; begin += at_once) {
        const int64_t left = n_rows > begin ? n_rows - begin : 0, now = left < at_once ? left : at_once;
        tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_WAIT);
        TESS_TRY(exchange_rows(fsdp, p, now > 0 ? rows + begin * p->row : rows, now, x, &n));
        tess_phase_switch(fsdp->clock, phase);
        TESS_TRY(tess_stream_kernels(stream)->row_sumsq(
            stream, &(tess_row_sumsq_args){.x = x->whole, .out = x->sums, .rows = n, .C = row}));
        for (int64_t i = 0; i < n && !tess_mem_is_dry(fsdp->place.mem); i++)
            tess_exact_add(sum, x->sums[i]);
    }
    return TESS_OK;
}

tess_status tess_fsdp_add_cut_rows(const tess_fsdp_family *family, const tess_fsdp_param *p, const float *rows,
                                   tess_exact_sum *sum)
{
    tess_fsdp *fsdp = family->fsdp;
    const int64_t row = tess_shape_row_count(&p->shape), most = most_rows(family, p),
                  share = (most + fsdp->topology.n_tp - 1) / fsdp->topology.n_tp,
                  room = row < ELEMENTS_AT_ONCE ? ELEMENTS_AT_ONCE / row : 1,
                  least = (share + MOST_EXCHANGES - 1) / MOST_EXCHANGES, most_room = room > least ? room : least,
                  rows_at_once = share < most_room ? share : most_room;
    size_t n_tp = (size_t)fsdp->topology.n_tp, n = (size_t)(rows_at_once * row);
    exchange x = {0};
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = fsdp->place.mem};
    TESS_TRY(TESS_NEW_IN(&own, 2 * n_tp, "rows", &x.had));
    TESS_TRY(TESS_NEW_IN(&own, n, "rows", &x.whole));
    TESS_TRY(TESS_NEW_IN(&own, rows_at_once, "rows", &x.sums));
    x.gets = x.had + n_tp;
    return add_rows(fsdp, p, rows, most, rows_at_once, &x, sum);
}
