/* Sequence parallelism: ranks that share layers share the stream, too. Each rank has some rows, and computes norms
 * and additions for them. Products after a norm, and products of a gradient of the stream, need all rows. Without
 * sequence parallelism each rank has the whole stream, and nothing is exchanged here. */
#include "nn/layers/layers.h"

/* Gathers (R, width) of each rank to (T, width). `mine` may already be in place in `into`. */
static tess_status gather_rows(const tess_layer_call *c, int64_t width, size_t element, const void *mine, void *into)
{
    tess_cut columns = {width, 0};
    return tess_meet(c, "stream", element, (tess_matrix_box){c->rows, columns, mine, width},
                     (tess_matrix_box){{c->T, 0}, columns, into, width});
}

tess_status tess_stream_gather(const tess_layer_call *c, const void *own, void *room, const void **whole)
{
    *whole = own;
    if (!tess_is_split(c, c->rows))
        return TESS_OK;
    *whole = room;
    return gather_rows(c, c->block->hidden_size, tess_dtype_size(c->dtype), own, room);
}

tess_status tess_stream_from_columns(const tess_layer_call *c, tess_cut columns, const void *mine, void *stream)
{
    int64_t begin, n;
    tess_own_range(c, columns, &begin, &n);
    return tess_meet(c, "columns", tess_dtype_size(c->dtype), (tess_matrix_box){{c->T, 0}, columns, mine, n},
                     (tess_matrix_box){c->rows, {columns.size, 0}, stream, columns.size});
}

tess_status tess_stream_to_columns(const tess_layer_call *c, tess_cut columns, const void *stream, void *mine)
{
    int64_t begin, n;
    if (!tess_is_split(c, c->rows))
        return tess_split_own(c, columns, stream, mine);
    tess_own_range(c, columns, &begin, &n);
    return tess_meet(c, "stream", tess_dtype_size(c->dtype),
                     (tess_matrix_box){c->rows, {columns.size, 0}, stream, columns.size},
                     (tess_matrix_box){{c->T, 0}, columns, mine, n});
}

/* Computes the gradients of a norm's parameters as one rank computes them: each rank sums some columns over all
 * rows. The kernel needs whole rows only for the stream's gradient, which goes to work space here and is not used. */
tess_status tess_stream_norm_params(const tess_layer_call *c, const tess_norm *norm, const void *h,
                                    tess_norm_stats stats, const void *dy)
{
    tess_cut columns = {c->block->hidden_size, 1};
    int64_t begin, n;
    tess_own_range(c, columns, &begin, &n);
    void *own_h = c->split.operands, *own_dy = tess_at(c, own_h, c->T * n);
    float *rstd = c->split.rstd, *mean = rstd + c->T;
    float *dw = tess_wants(c, norm->weight) ? c->dw[norm->weight] : NULL,
          *db = tess_wants(c, norm->bias) ? c->dw[norm->bias] : NULL;
    const void *w = tess_at(c, c->w[norm->weight], begin);
    TESS_TRY(tess_stream_to_columns(c, columns, h, own_h));
    TESS_TRY(tess_stream_to_columns(c, columns, dy, own_dy));
    TESS_TRY(gather_rows(c, 1, sizeof(float), stats.rstd, rstd));
    if (c->block->layer_norm)
        TESS_TRY(gather_rows(c, 1, sizeof(float), stats.mean, mean));
    const tess_norm_grad_args args = {.h = own_h,
                                      .w = w,
                                      .mean = mean,
                                      .rstd = rstd,
                                      .dy = own_dy,
                                      .dx = own_dy,
                                      .dw = dw != NULL ? dw + begin : NULL,
                                      .db = db != NULL ? db + begin : NULL,
                                      .T = c->T,
                                      .C = n,
                                      .one_plus_w = c->block->one_plus,
                                      .dtype = c->dtype};
    if (n > 0)
        TESS_TRY(tess_norm_sums(c, c->block->layer_norm, &args));
    if (dw != NULL)
        TESS_TRY(tess_split_gather_gradient(c, columns, dw + begin, 1, columns.size));
    return db != NULL ? tess_split_gather_gradient(c, columns, db + begin, 1, columns.size) : TESS_OK;
}
