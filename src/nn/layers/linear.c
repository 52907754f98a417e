#include "nn/layers/layers.h"

static const void *weight_of(const tess_layer_call *call, const tess_linear *linear)
{
    return tess_at(call, call->w[linear->weight], linear->offset);
}

/* y = x W + b. */
static tess_gemm product(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y,
                         tess_dtype y_dtype)
{
    return (tess_gemm){
        .m = call->T,
        .n = linear->n_out,
        .k = linear->n_in,
        .a = x,
        .lda = linear->n_in,
        .b = weight_of(call, linear),
        .ldb = linear->ld,
        .c = y,
        .ldc = tess_linear_row(linear),
        .bias = linear->bias >= 0 ? tess_at(call, call->w[linear->bias], linear->offset) : NULL,
        .trans_b = !linear->in_out,
        .ab_dtype = call->dtype,
        .c_dtype = y_dtype,
        .leaf = linear->in_leaf,
    };
}

/* dx = dy W^T. */
static tess_gemm input_product(const tess_layer_call *call, const tess_linear *linear, const void *dy, void *dx,
                               tess_dtype dx_dtype)
{
    return (tess_gemm){
        .m = call->T,
        .n = linear->n_in,
        .k = linear->n_out,
        .a = dy,
        .lda = tess_linear_row(linear),
        .b = weight_of(call, linear),
        .ldb = linear->ld,
        .c = dx,
        .ldc = linear->n_in,
        .trans_b = linear->in_out,
        .ab_dtype = call->dtype,
        .c_dtype = dx_dtype,
        .leaf = linear->out_leaf,
    };
}

tess_status tess_linear_own_forward(const tess_layer_call *call, const tess_linear *linear, const void *x, void *y,
                                    tess_dtype y_dtype)
{
    tess_gemm g = product(call, linear, x, y, y_dtype);
    return call->kernels->gemm(call->stream, &g);
}

tess_status tess_linear_own_act_forward(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                        void *gate, void *up, void *act)
{
    tess_gemm_fused f = {.g = product(call, linear, x, up, call->dtype),
                         .then = TESS_THEN_ACT,
                         .act = call->block->activation,
                         .gate = gate,
                         .y = act};
    return call->kernels->gemm_fused(call->stream, &f);
}

tess_status tess_linear_own_act_backward(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                         void *gate, void *up, void *act, void *fusing)
{
    tess_gemm_fused f = {.g = input_product(call, linear, dy, act, call->dtype),
                         .then = TESS_THEN_ACT_BACKWARD,
                         .act = call->block->activation,
                         .gate = gate,
                         .up = up,
                         .y = act,
                         .work = fusing};
    return call->kernels->gemm_fused(call->stream, &f);
}

tess_status tess_linear_own_backward_params(const tess_layer_call *call, const tess_linear *linear, const void *x,
                                            const void *dy, bool accumulate)
{
    if (tess_wants(call, linear->bias))
        TESS_TRY(call->kernels->column_sum(call->stream, dy, tess_linear_row(linear),
                                           call->dw[linear->bias] + linear->offset, call->T, linear->n_out,
                                           call->dtype));
    if (!tess_wants(call, linear->weight))
        return TESS_OK;
    /* (in, out): x^T dy; (out, in): dy^T x. */
    tess_gemm g = {
        .m = linear->in_out ? linear->n_in : linear->n_out,
        .n = linear->in_out ? linear->n_out : linear->n_in,
        .k = call->T,
        .a = linear->in_out ? x : dy,
        .lda = linear->in_out ? linear->n_in : tess_linear_row(linear),
        .b = linear->in_out ? dy : x,
        .ldb = linear->in_out ? tess_linear_row(linear) : linear->n_in,
        .c = call->dw[linear->weight] + linear->offset,
        .ldc = linear->ld,
        .trans_a = true,
        .accumulate = accumulate,
        .ab_dtype = call->dtype,
        .c_dtype = TESS_F32,
    };
    return call->kernels->gemm(call->stream, &g);
}

tess_status tess_linear_own_backward_input(const tess_layer_call *call, const tess_linear *linear, const void *dy,
                                           void *dx)
{
    tess_gemm g = input_product(call, linear, dy, dx, call->dtype);
    return call->kernels->gemm(call->stream, &g);
}

tess_status tess_linear_own_backward_inputs(const tess_layer_call *call, const tess_linear_grad *grads, int n,
                                            void *fusing, void *dx, tess_dtype dx_dtype)
{
    tess_gemm_fused f = {.g = input_product(call, grads[0].linear, grads[0].dy, dx, dx_dtype), .n_terms = n - 1};
    f.work = fusing;
    for (int i = 1; i < n; i++) {
        tess_gemm g = input_product(call, grads[i].linear, grads[i].dy, dx, dx_dtype);
        f.terms[i - 1] = (tess_gemm_term){g.a, g.lda, g.b, g.ldb, g.k};
    }
    return call->kernels->gemm_fused(call->stream, &f);
}

bool tess_linear_trains(const tess_layer_call *call, const tess_linear *linear)
{
    return tess_linear_reads_input(call, linear) || tess_wants(call, linear->bias);
}

bool tess_linear_reads_input(const tess_layer_call *call, const tess_linear *linear)
{
    return tess_wants(call, linear->weight) || (linear->adapter.rank > 0 && tess_wants(call, linear->adapter.a));
}
