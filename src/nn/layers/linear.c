/* Linear maps y = x W^T + b of one rank, also with FP8 values: forward, input gradient, parameter gradients. */
#include "nn/layers/layers.h"

/* A matrix that a product reads, and the elements between its rows. */
typedef struct factor {
    const void *at;
    int64_t ld;
} factor;

/* Returns a stored matrix (rows, columns) unchanged, or rounded through fp8 into the work space. `used` counts the
 * elements of the work space that are taken. */
static tess_status read_factor(const tess_layer_call *call, factor stored, int64_t rows, int64_t columns,
                               tess_fp8 format, int64_t *used, factor *read)
{
    *read = stored;
    if (!call->rounds)
        return TESS_OK;
    void *room = tess_at(call, call->rounded, *used);
    *used += rows * columns;
    *read = (factor){room, columns};
    return call->kernels->round_fp8(call->stream, &(tess_round_fp8_args){.x = stored.at,
                                                                         .stride = stored.ld,
                                                                         .y = room,
                                                                         .rows = rows,
                                                                         .C = columns,
                                                                         .format = format,
                                                                         .dtype = call->dtype});
}

static tess_status read_weight(const tess_layer_call *call, const tess_linear *linear, int64_t *used, factor *w)
{
    const factor stored = {tess_at(call, call->w[linear->weight], linear->offset), linear->ld};
    int64_t rows = linear->in_out ? linear->n_in : linear->n_out,
            columns = linear->in_out ? linear->n_out : linear->n_in;
    if (call->decode == NULL || !tess_block_owns_rows(call->block, linear->weight))
        return read_factor(call, stored, rows, columns, TESS_E4M3, used, w);
    void *room = tess_at(call, call->rounded, *used);
    *used += rows * columns;
    *w = (factor){room, columns};
    return call->decode(call->stream, call->w[linear->weight], rows, columns, call->dtype, room);
}

static tess_status read_input(const tess_layer_call *call, const tess_linear *linear, const void *x, int64_t *used,
                              factor *read)
{
    return read_factor(call, (factor){x, linear->n_in}, call->T, linear->n_in, TESS_E4M3, used, read);
}

/* Gradients are rounded to E5M2: they have a larger range than inputs and tolerate less precision. */
static tess_status read_gradient(const tess_layer_call *call, const tess_linear *linear, const void *dy, int64_t *used,
                                 factor *read)
{
    return read_factor(call, (factor){dy, tess_linear_row(linear)}, call->T, linear->n_out, TESS_E5M2, used, read);
}

tess_status tess_linear_flush(const tess_layer_call *call)
{
    tess_product_list *list = call->list;
    const int64_t n = list != NULL ? list->n : 0;
    if (n == 0)
        return TESS_OK;
    list->n = 0;
    return call->kernels->gemm_grouped(
        call->stream,
        &(tess_gemm_grouped){.products = list->of, .n_products = n, .ab_dtype = call->dtype, .work = call->fusing});
}

static tess_status compute(const tess_layer_call *call, const tess_gemm_fused *f)
{
    tess_product_list *list = call->list;
    if (list == NULL)
        return f->n_terms == 0 && f->then == TESS_THEN_NOTHING ? call->kernels->gemm(call->stream, &f->g)
                                                               : call->kernels->gemm_fused(call->stream, f);
    if (list->n == TESS_MAX_PRODUCTS)
        TESS_TRY(tess_linear_flush(call));
    list->of[list->n++] = *f;
    return TESS_OK;
}

/* y = x W + b. */
static tess_status product(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y,
                           tess_dtype y_dtype, tess_gemm *g)
{
    factor a, b;
    int64_t used = 0;
    TESS_TRY(read_input(call, linear, x, &used, &a));
    TESS_TRY(read_weight(call, linear, &used, &b));
    *g = (tess_gemm){
        .m = call->T,
        .n = linear->n_out,
        .k = linear->n_in,
        .a = a.at,
        .lda = a.ld,
        .b = b.at,
        .ldb = b.ld,
        .c = y,
        .ldc = tess_linear_row(linear),
        .bias = linear->bias >= 0 ? tess_at(call, call->w[linear->bias], linear->first) : NULL,
        .trans_b = !linear->in_out,
        .ab_dtype = call->dtype,
        .c_dtype = y_dtype,
        .leaf = linear->in_leaf,
    };
    return TESS_OK;
}

/* dx = dy W^T; `used` as in read_factor. */
static tess_status input_product(const tess_layer_call *call, const tess_linear *linear, const void *dy, void *dx,
                                 tess_dtype dx_dtype, int64_t *used, tess_gemm *g)
{
    factor a, b;
    TESS_TRY(read_gradient(call, linear, dy, used, &a));
    TESS_TRY(read_weight(call, linear, used, &b));
    *g = (tess_gemm){
        .m = call->T,
        .n = linear->n_in,
        .k = linear->n_out,
        .a = a.at,
        .lda = a.ld,
        .b = b.at,
        .ldb = b.ld,
        .c = dx,
        .ldc = linear->n_in,
        .trans_b = linear->in_out,
        .ab_dtype = call->dtype,
        .c_dtype = dx_dtype,
        .leaf = linear->out_leaf,
    };
    return TESS_OK;
}

tess_status tess_linear_own_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y,
                                    tess_dtype y_dtype)
{
    tess_gemm_fused f = {0};
    TESS_TRY(product(call, linear, x, y, y_dtype, &f.g));
    return compute(call, &f);
}

tess_status tess_linear_own_act_forward(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                        void *gate, void *up, void *act)
{
    tess_gemm_fused f = {.then = TESS_THEN_ACT, .act = call->block->activation, .gate = gate, .y = act};
    TESS_TRY(product(call, linear, x, up, call->dtype, &f.g));
    return compute(call, &f);
}

tess_status tess_linear_own_act_backward(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                         void *gate, void *up, void *act, void *fusing)
{
    int64_t used = 0;
    tess_gemm_fused f = {.then = TESS_THEN_ACT_BACKWARD,
                         .act = call->block->activation,
                         .gate = gate,
                         .up = up,
                         .y = act,
                         .work = fusing};
    TESS_TRY(input_product(call, linear, dy, act, call->dtype, &used, &f.g));
    return compute(call, &f);
}

tess_status tess_linear_own_backward_params(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                            const void *dy, bool accumulate)
{
    if (tess_wants(call, linear->bias))
        TESS_TRY(tess_column_sums(call, &(tess_column_sum_args){.dy = dy,
                                                                .stride = tess_linear_row(linear),
                                                                .db = call->dw[linear->bias] + linear->first,
                                                                .T = call->T,
                                                                .C = linear->n_out,
                                                                .dtype = call->dtype}));
    if (!tess_wants(call, linear->weight))
        return TESS_OK;
    factor input, gradient;
    int64_t used = 0;
    TESS_TRY(read_input(call, linear, x, &used, &input));
    TESS_TRY(read_gradient(call, linear, dy, &used, &gradient));
    /* (in, out): x^T dy; (out, in): dy^T x. */
    tess_gemm_fused f = {0};
    f.g = (tess_gemm){
        .m = linear->in_out ? linear->n_in : linear->n_out,
        .n = linear->in_out ? linear->n_out : linear->n_in,
        .k = call->T,
        .a = linear->in_out ? input.at : gradient.at,
        .lda = linear->in_out ? input.ld : gradient.ld,
        .b = linear->in_out ? gradient.at : input.at,
        .ldb = linear->in_out ? gradient.ld : input.ld,
        .c = call->dw[linear->weight] + linear->offset,
        .ldc = linear->ld,
        .trans_a = true,
        .accumulate = accumulate,
        .ab_dtype = call->dtype,
        .c_dtype = TESS_F32,
        .leaf = tess_leaf_tokens(call),
    };
    return compute(call, &f);
}

tess_status tess_linear_own_backward_input(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                           void *dx)
{
    tess_gemm_fused f = {0};
    int64_t used = 0;
    TESS_TRY(input_product(call, linear, dy, dx, call->dtype, &used, &f.g));
    return compute(call, &f);
}

tess_status tess_linear_own_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n,
                                            void *fusing, void *dx, tess_dtype dx_dtype)
{
    int64_t used = 0;
    tess_gemm_fused f = {.n_terms = n - 1, .work = fusing};
    TESS_TRY(input_product(call, grads[0].linear, grads[0].dy, dx, dx_dtype, &used, &f.g));
    for (int i = 1; i < n; i++) {
        tess_gemm g;
        TESS_TRY(input_product(call, grads[i].linear, grads[i].dy, dx, dx_dtype, &used, &g));
        f.terms[i - 1] = (tess_gemm_term){g.a, g.lda, g.b, g.ldb, g.k};
    }
    return compute(call, &f);
}

bool tess_linear_trains(const tess_layer_call *call, const tess_linear *linear)
{
    return tess_linear_reads_input(call, linear) || tess_wants(call, linear->bias);
}

bool tess_linear_reads_input(const tess_layer_call *call, const tess_linear *linear)
{
    return tess_wants(call, linear->weight) || (linear->adapter.rank > 0 && tess_wants(call, linear->adapter.a));
}
