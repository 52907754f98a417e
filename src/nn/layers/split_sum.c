/* Sums over feed-forward channels in the order of the model's tree (model.sum_leaves). If each rank's channels form
 * whole subtrees, it sums those itself, and ranks exchange partial sums instead of operands and weights. Each rank
 * then adds the partial sums of some rows, neighbours first. That is the rest of the tree, so the bits are those of
 * one rank.
 *
 * Each of t ranks receives (t - 1) / t of T C floats for a sum, and without sequence parallelism T C elements of the
 * result. */
#include "nn/layers/layers.h"

/* How ranks cut the rows: each adds up the partial sums of its own rows. */
static tess_cut rows_of(const tess_layer_call *c)
{
    return (tess_cut){c->T, 1};
}

/* Rank r's partial sums (T, C) are row r of a matrix. Every rank receives its own rows of the partial sums of all
 * ranks. */
static tess_status gather_partials(const tess_layer_call *c, int64_t own, float *parts)
{
    int64_t C = c->block->hidden_size;
    tess_cut ranks = {c->points->degree, 1}, elements = {c->T * C, C};
    return tess_meet(c, "sums", sizeof(float),
                     (tess_matrix_box){ranks, {elements.size, 0}, c->split.partial, elements.size},
                     (tess_matrix_box){{ranks.size, 0}, elements, parts, own * C});
}

/* Adds all parts to the first one as a binary tree. An odd part at the end moves up one level, as a leaf does in
 * tess_gemm. */
static tess_status add_partials(const tess_layer_call *c, int n_parts, float *parts, int64_t count)
{
    for (int apart = 1; apart < n_parts; apart *= 2)
        for (int i = 0; i + apart < n_parts; i += 2 * apart) {
            float *to = parts + i * count;
            TESS_TRY(c->kernels->add(
                c->stream,
                &(tess_add_args){.a = to, .b = parts + (i + apart) * count, .y = to, .n = count, .dtype = TESS_F32}));
        }
    return TESS_OK;
}

/* y (own, C) = sums + bias, rounded. */
static tess_status finish(const tess_layer_call *c, int64_t own, float *sums, const void *bias, void *y)
{
    int64_t C = c->block->hidden_size;
    tess_gemm g = {.m = own,
                   .n = C,
                   .a = sums,
                   .b = sums,
                   .ldb = C,
                   .c = sums,
                   .ldc = C,
                   .bias = bias,
                   .accumulate = true,
                   .ab_dtype = c->dtype,
                   .c_dtype = TESS_F32};
    if (bias != NULL && own > 0)
        TESS_TRY(c->kernels->gemm(c->stream, &g));
    return c->kernels->convert(c->stream,
                               &(tess_convert_args){.x = sums, .from = TESS_F32, .y = y, .to = c->dtype, .n = own * C});
}

/* y (R, C) = the sum of all ranks' partial sums, plus bias (C) if it is not NULL. Ranks after the last channel have
 * no partial sums. */
static tess_status add_up(const tess_layer_call *c, tess_cut channels, const void *bias, void *y)
{
    int64_t C = c->block->hidden_size, begin, own, share;
    tess_cut rows = rows_of(c), columns = {C, 0};
    bool shared = tess_is_split(c, c->rows);
    float *parts = c->split.partial + c->T * C;
    tess_own_range(c, rows, &begin, &own);
    tess_cut_range(channels, c->points->degree, 0, &(int64_t){0}, &share);
    TESS_TRY(gather_partials(c, own, parts));
    TESS_TRY(add_partials(c, (int)((channels.size + share - 1) / share), parts, own * C));
    void *mine = shared ? y : tess_at(c, y, begin * C);
    TESS_TRY(finish(c, own, parts, bias, mine));
    return shared ? TESS_OK
                  : tess_meet(c, "rows", tess_dtype_size(c->dtype), (tess_matrix_box){rows, columns, mine, C},
                              (tess_matrix_box){{c->T, 0}, columns, y, C});
}

tess_status tess_sum_forward(const tess_layer_call *c, const tess_linear *linear, const void *x, void *y)
{
    tess_linear own = *linear;
    own.bias = -1;
    TESS_TRY(tess_linear_own_forward(c, &own, x, c->split.partial, TESS_F32));
    return add_up(c, linear->in, linear->bias >= 0 ? tess_at(c, c->w[linear->bias], linear->first) : NULL, y);
}

tess_status tess_sum_backward_inputs(const tess_layer_call *c, const tess_linear_grad *grads, int n, void *fusing,
                                     void *dx)
{
    TESS_TRY(tess_linear_own_backward_inputs(c, grads, n, fusing, c->split.partial, TESS_F32));
    return add_up(c, grads[0].linear->out, NULL, dx);
}
