/* Sums of squares over rows of a gradient whose columns are split over the tp team. The ranks exchange columns for
 * rows, a few rows at a time. Each rank gets an equal number of whole rows and sums their squares in the order that
 * one rank would use. With t ranks in the team, a rank receives (t - 1) / t of the bytes that it holds of the
 * gradient. */
#include "parallel/fsdp/fsdp_impl.h"

enum { ELEMENTS_AT_ONCE = 1 << 18 }; /* elements of whole rows that a rank handles at a time; at least one row */

typedef struct exchange {
    size_t *sends, *from, *gets, *to; /* (n_tp) elements for each rank and their place; from each, and where to */
    float *parcels, *whole;           /* elements that this rank gets, rank by rank; the same as whole rows */
    double *sums;                     /* sums over its rows */
} exchange;

/* The columns that the rank at `tp` has, over `n` rows. */
static tess_box columns_of(const tess_fsdp *fsdp, const tess_fsdp_param *p, int tp, int64_t n)
{
    tess_box box = tess_fsdp_part(fsdp, p, tp);
    box.begin[0] = 0;
    box.size[0] = n;
    return box;
}

/* `rows` has this rank's columns of `n_rows` rows. Of these rows, the next *n are assigned to this rank, and
 * x->whole gets all their columns. */
static tess_status exchange_rows(tess_fsdp *fsdp, const tess_fsdp_param *p, const float *rows, int64_t n_rows,
                                 exchange *x, int64_t *n)
{
    int64_t begin, first, count;
    size_t at = 0;
    tess_box whole = tess_box_whole(&p->shape);
    tess_shard_rows(n_rows, fsdp->n_tp, fsdp->tp, &begin, n);
    whole.size[0] = *n;
    for (int r = 0; r < fsdp->n_tp; r++) {
        const tess_box columns = columns_of(fsdp, p, r, *n);
        tess_shard_rows(n_rows, fsdp->n_tp, r, &first, &count);
        x->sends[r] = (size_t)(count * p->row);
        x->from[r] = (size_t)(first * p->row);
        x->gets[r] = (size_t)tess_box_count(p->shape.n_dims, &columns);
        x->to[r] = at;
        at += x->gets[r];
    }
    TESS_TRY(tess_all_to_all_v(fsdp->tp_team, rows, x->sends, x->from, x->parcels, x->gets, x->to, TESS_F32, NULL));
    for (int r = 0; r < fsdp->n_tp; r++) {
        const tess_box columns = columns_of(fsdp, p, r, *n);
        tess_box_copy(p->shape.n_dims, sizeof(float), &columns, &columns, x->parcels + x->to[r], &whole, x->whole);
    }
    return TESS_OK;
}

static tess_status add_rows(tess_fsdp *fsdp, const tess_fsdp_param *p, const float *rows, int64_t rows_at_once,
                            exchange *x, tess_exact_sum *sum)
{
    int64_t row = tess_shape_row_count(&p->shape), n_rows = p->primary.size[0], at_once = rows_at_once * fsdp->n_tp, n;
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_host_stream(fsdp, &stream));
    for (int64_t begin = 0; begin < n_rows; begin += at_once) {
        int64_t now = n_rows - begin < at_once ? n_rows - begin : at_once;
        tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_WAIT);
        TESS_TRY(exchange_rows(fsdp, p, rows + begin * p->row, now, x, &n));
        tess_phase_switch(fsdp->clock, phase);
        TESS_TRY(tess_stream_kernels(stream)->row_sumsq(
            stream, &(tess_row_sumsq_args){.x = x->whole, .out = x->sums, .rows = n, .C = row}));
        for (int64_t i = 0; i < n; i++)
            tess_exact_add(sum, x->sums[i]);
    }
    return TESS_OK;
}

tess_status tess_fsdp_add_cut_rows(tess_fsdp *fsdp, const tess_fsdp_param *p, const float *rows, tess_exact_sum *sum)
{
    int64_t row = tess_shape_row_count(&p->shape), share = (p->primary.size[0] + fsdp->n_tp - 1) / fsdp->n_tp;
    int64_t most = row < ELEMENTS_AT_ONCE ? ELEMENTS_AT_ONCE / row : 1, rows_at_once = share < most ? share : most;
    size_t n_tp = (size_t)fsdp->n_tp, n = (size_t)(rows_at_once * row);
    exchange x = {0};
    tess_mem *mem = fsdp->mem;
    tess_status status;
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, 4 * n_tp, sizeof(size_t), "rows", (void **)&x.sends), parts);
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, 2 * n, sizeof(float), "rows", (void **)&x.parcels), parts);
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)rows_at_once, sizeof(double), "rows", (void **)&x.sums),
              parts);
    x.from = x.sends + n_tp;
    x.gets = x.from + n_tp;
    x.to = x.gets + n_tp;
    x.whole = x.parcels + n;
    status = add_rows(fsdp, p, rows, rows_at_once, &x, sum);
parts:
    tess_mem_free(mem, x.sums);
    tess_mem_free(mem, x.parcels);
    tess_mem_free(mem, x.sends);
    return status;
}
