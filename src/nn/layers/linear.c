#include "nn/layers/layers.h"

/* Elements between rows of y and dy. */
static int64_t row_of(const tess_linear *linear)
{
    return linear->out_stride > 0 ? linear->out_stride : linear->n_out;
}

static const void *weight_of(const tess_run *run, const tess_linear *linear)
{
    return tess_at(run, run->w[linear->weight], linear->offset);
}

tess_gemm tess_linear_product(const tess_run *run, const tess_linear *linear, const void *x, void *y,
                              tess_dtype y_dtype)
{
    return (tess_gemm){
        .m = run->T,
        .n = linear->n_out,
        .k = linear->n_in,
        .a = x,
        .lda = linear->n_in,
        .b = weight_of(run, linear),
        .ldb = linear->ld,
        .c = y,
        .ldc = row_of(linear),
        .bias = linear->bias >= 0 ? tess_at(run, run->w[linear->bias], linear->offset) : NULL,
        .trans_b = !linear->in_out,
        .ab_dtype = run->dtype,
        .c_dtype = y_dtype,
    };
}

tess_status tess_linear_forward(const tess_run *run, const tess_linear *linear, const void *x, void *y,
                                tess_dtype y_dtype)
{
    tess_gemm g = tess_linear_product(run, linear, x, y, y_dtype);
    return run->kernels->gemm(run->stream, &g);
}

tess_status tess_linear_backward_params(const tess_run *run, const tess_linear *linear, const void *x, const void *dy,
                                        bool accumulate)
{
    if (tess_wants(run, linear->bias))
        TESS_TRY(run->kernels->column_sum(run->stream, dy, row_of(linear), run->dw[linear->bias] + linear->offset,
                                          run->T, linear->n_out, run->dtype));
    if (!tess_wants(run, linear->weight))
        return TESS_OK;
    /* (in, out): x^T dy; (out, in): dy^T x. */
    tess_gemm g = {
        .m = linear->in_out ? linear->n_in : linear->n_out,
        .n = linear->in_out ? linear->n_out : linear->n_in,
        .k = run->T,
        .a = linear->in_out ? x : dy,
        .lda = linear->in_out ? linear->n_in : row_of(linear),
        .b = linear->in_out ? dy : x,
        .ldb = linear->in_out ? row_of(linear) : linear->n_in,
        .c = run->dw[linear->weight] + linear->offset,
        .ldc = linear->ld,
        .trans_a = true,
        .accumulate = accumulate,
        .ab_dtype = run->dtype,
        .c_dtype = TESS_F32,
    };
    return run->kernels->gemm(run->stream, &g);
}

tess_gemm tess_linear_input_product(const tess_run *run, const tess_linear *linear, const void *dy, void *dx)
{
    return (tess_gemm){
        .m = run->T,
        .n = linear->n_in,
        .k = linear->n_out,
        .a = dy,
        .lda = row_of(linear),
        .b = weight_of(run, linear),
        .ldb = linear->ld,
        .c = dx,
        .ldc = linear->n_in,
        .trans_b = linear->in_out,
        .ab_dtype = run->dtype,
        .c_dtype = run->dtype,
    };
}

tess_status tess_linear_backward_input(const tess_run *run, const tess_linear *linear, const void *dy, void *dx)
{
    tess_gemm g = tess_linear_input_product(run, linear, dy, dx);
    return run->kernels->gemm(run->stream, &g);
}

tess_status tess_linear_backward_inputs(const tess_run *run, const tess_linear_grad *grads, int n, void *work, void *dx)
{
    tess_gemm_fused f = {.g = tess_linear_input_product(run, grads[0].linear, grads[0].dy, dx), .n_terms = n - 1};
    f.work = work;
    for (int i = 1; i < n; i++) {
        tess_gemm g = tess_linear_input_product(run, grads[i].linear, grads[i].dy, dx);
        f.terms[i - 1] = (tess_gemm_term){g.a, g.lda, g.b, g.ldb, g.k};
    }
    return run->kernels->gemm_fused(run->stream, &f);
}

bool tess_linear_trains(const tess_run *run, const tess_linear *linear)
{
    return tess_wants(run, linear->weight) || tess_wants(run, linear->bias);
}
