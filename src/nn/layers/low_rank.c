/* Linear maps with an adapter (nn/lora.h). With z (T, r) = scale x A^T and dz (T, r) = scale dy B:
 *
 *     y = x W + b + z B^T;   dB = dy^T z;   dA = dz^T x;   dx = dy W^T + dz A
 *
 * z and dz are rounded to the compute dtype, like every operand of a product. The products of y are added in float32
 * and rounded once, and so are those of dx. Backward computes z again, for 2 T r (in + out) operations and no memory.
 *
 * If ranks share the map, each has the columns of A, or the rows of B, for its own inputs or outputs. z then sums over
 * inputs that are cut, or dz over outputs: every rank gathers the operand and the factor, and computes all of it. The
 * other products need no communication.
 *
 * The views of a fused matrix, such as gate and up, have rows of one B and share A, whose gradient is the sum of
 * theirs, leaf by leaf. Every rank stores all of such a B. If one rank computes the views as one product (q, k and v),
 * ranks that share them gather all of dy, because dz is one sum over the outputs of all views. */
#include "device/device.h"
#include "nn/layers/layers.h"

static bool is_narrow(const tess_layer_call *c)
{
    return c->dtype != TESS_F32;
}

/* Computes low (m, rank) = scale g.a g.b. */
static tess_status into_low(const tess_layer_call *c, const tess_low_rank *adapter, tess_gemm g)
{
    g.n = adapter->rank;
    g.c = c->low_rank.low;
    g.ldc = adapter->rank;
    g.ab_dtype = g.c_dtype = c->dtype;
    TESS_TRY(c->kernels->gemm(c->stream, &g));
    return c->kernels->scale(
        c->stream, &(tess_scale_args){.x = g.c, .factor = adapter->scale, .y = g.c, .n = g.m * g.n, .dtype = c->dtype});
}

/* The place of the map's first output in a fused matrix, of all ranks' outputs. */
static int64_t first_of_view(const tess_layer_call *c, const tess_linear *l)
{
    int64_t begin = 0, n;
    if (l->stored_whole)
        tess_own_range(c, l->out, &begin, &n);
    return l->first - begin;
}

/* Returns the rows of B for this rank's outputs. */
static const void *own_b(const tess_layer_call *c, const tess_linear *l)
{
    return tess_at(c, c->w[l->adapter.b], l->first * l->adapter.rank);
}

/* Returns all of A (rank, in), or of B (out, rank): this rank's parameter, or the gathered one if ranks share it. */
static tess_status whole_factor(const tess_layer_call *c, const tess_linear *l, bool a, const void **factor)
{
    tess_cut cut = a ? l->in : l->out, all = {cut.size, 0}, ranks = {l->adapter.rank, 0};
    *factor = a ? c->w[l->adapter.a] : tess_at(c, c->w[l->adapter.b], first_of_view(c, l) * l->adapter.rank);
    if (!tess_is_split(c, cut) || l->stored_whole)
        return TESS_OK;
    const tess_matrix_box held = {a ? ranks : cut, a ? cut : ranks, *factor, a ? l->n_in : l->adapter.rank};
    *factor = c->low_rank.factor;
    return tess_meet(c, "adapter", tess_dtype_size(c->dtype), held,
                     (tess_matrix_box){a ? ranks : all, a ? all : ranks, *factor, a ? cut.size : l->adapter.rank});
}

/* Computes z for m rows that have all inputs. */
static tess_status project_rows(const tess_layer_call *c, const tess_linear *l, const void *x, int64_t ld, int64_t m)
{
    const void *a;
    TESS_TRY(whole_factor(c, l, true, &a));
    return into_low(
        c, &l->adapter,
        (tess_gemm){.m = m, .k = l->in.size, .a = x, .lda = ld, .b = a, .ldb = l->in.size, .trans_b = true});
}

/* Computes dz for gradients of m rows that have all outputs. */
static tess_status project_gradient_rows(const tess_layer_call *c, const tess_linear *l, const void *dy, int64_t ld,
                                         int64_t m)
{
    const void *b;
    TESS_TRY(whole_factor(c, l, false, &b));
    return into_low(c, &l->adapter,
                    (tess_gemm){.m = m, .k = l->out.size, .a = dy, .lda = ld, .b = b, .ldb = l->adapter.rank});
}

/* Gathers an operand if ranks share its columns. */
static tess_status whole_operand(const tess_layer_call *c, tess_cut columns, const void **x, int64_t *ld)
{
    tess_cut rows = {c->T, 0};
    if (!tess_is_split(c, columns))
        return TESS_OK;
    const tess_matrix_box held = {rows, columns, *x, *ld};
    *x = c->low_rank.all;
    *ld = columns.size;
    return tess_meet(c, "operand", tess_dtype_size(c->dtype), held,
                     (tess_matrix_box){rows, {columns.size, 0}, *x, *ld});
}

/* Computes z. */
static tess_status project(const tess_layer_call *c, const tess_linear *l, const void *x)
{
    int64_t ld = l->n_in;
    TESS_TRY(whole_operand(c, l->in, &x, &ld));
    return project_rows(c, l, x, ld, c->T);
}

/* Computes dz. */
static tess_status project_gradient(const tess_layer_call *c, const tess_linear *l, const void *dy)
{
    int64_t ld = tess_linear_row(l);
    TESS_TRY(whole_operand(c, l->out, &dy, &ld));
    return project_gradient_rows(c, l, dy, ld, c->T);
}

/* sum (m, n) += low F, for n columns of a factor F that is stored as (r, ldb), or with trans_b as (n, ldb). */
static tess_status add_low(const tess_layer_call *c, int64_t rank, int64_t m, const void *factor, int64_t ldb,
                           int64_t n, bool trans_b, float *sum, int64_t ld)
{
    const tess_gemm g = {.m = m,
                         .n = n,
                         .k = rank,
                         .a = c->low_rank.low,
                         .lda = rank,
                         .b = factor,
                         .ldb = ldb,
                         .c = sum,
                         .ldc = ld,
                         .trans_b = trans_b,
                         .accumulate = true,
                         .ab_dtype = c->dtype,
                         .c_dtype = TESS_F32};
    return c->kernels->gemm(c->stream, &g);
}

/* Rounds the sum (T, n) to the compute dtype and stores it in rows of y. */
static tess_status round_rows(const tess_layer_call *c, int64_t n, void *y, int64_t ld)
{
    int64_t element = (int64_t)tess_dtype_size(c->dtype);
    void *rounded = ld == n ? y : c->low_rank.wide;
    TESS_TRY(c->kernels->convert(
        c->stream,
        &(tess_convert_args){.x = c->low_rank.sum, .from = TESS_F32, .y = rounded, .to = c->dtype, .n = c->T * n}));
    return ld == n ? TESS_OK : tess_layer_copy_rows(c, element, c->T, n, rounded, n, y, ld);
}

tess_status tess_low_rank_forward(const tess_layer_call *c, const tess_linear *l, const void *x, void *y)
{
    tess_linear map = *l;
    float *sum = y;
    if (is_narrow(c)) {
        sum = c->low_rank.sum;
        map.out_stride = 0;
    }
    TESS_TRY(tess_linear_own_forward(c, &map, x, sum, TESS_F32));
    TESS_TRY(project(c, l, x));
    TESS_TRY(
        add_low(c, l->adapter.rank, c->T, own_b(c, l), l->adapter.rank, l->n_out, true, sum, tess_linear_row(&map)));
    return is_narrow(c) ? round_rows(c, l->n_out, y, tess_linear_row(l)) : TESS_OK;
}

/* sum = dz^T x, or sum += dz^T x, over n tokens from `first` on, in leaves of `leaf` tokens; 0: one chain. */
static tess_status add_a_gradient(const tess_layer_call *c, const tess_linear *l, const void *x, int64_t first,
                                  int64_t n, int64_t leaf, bool accumulate, float *sum)
{
    const int64_t r = l->adapter.rank;
    return c->kernels->gemm(c->stream, &(tess_gemm){.m = r,
                                                    .n = l->n_in,
                                                    .k = n,
                                                    .a = tess_at(c, c->low_rank.low, first * r),
                                                    .lda = r,
                                                    .b = tess_at(c, x, first * l->n_in),
                                                    .ldb = l->n_in,
                                                    .c = sum,
                                                    .ldc = l->n_in,
                                                    .trans_a = true,
                                                    .accumulate = accumulate,
                                                    .ab_dtype = c->dtype,
                                                    .c_dtype = TESS_F32,
                                                    .leaf = leaf});
}

/* dA = dz^T x. */
static tess_status a_gradient(const tess_layer_call *c, const tess_linear *l, const void *x)
{
    return add_a_gradient(c, l, x, 0, c->T, tess_leaf_tokens(c), false, c->dw[l->adapter.a]);
}

/* Adds the view's part of dA = dz^T x. A leaf is the sum of all views over its tokens, so leaves stay apart until the
 * last view. Each view adds up the leaves that there are, since it does not know whether it is the last. */
static tess_status a_gradient_of_view(const tess_layer_call *c, const tess_linear *l, const void *x)
{
    const int64_t n = l->adapter.rank * l->n_in, tokens = c->T / c->n_leaves;
    const bool accumulate = first_of_view(c, l) > 0;
    float *const leaves = c->low_rank.leaves, *dw = c->dw[l->adapter.a];
    if (c->n_leaves == 1) /* there is no room for leaves */
        return add_a_gradient(c, l, x, 0, c->T, 0, accumulate, dw);
    const tess_leaf_sum sum = {dw, leaves + c->n_leaves * n, NULL, n};
    for (int leaf = 0; leaf < c->n_leaves; leaf++) {
        float *const own = leaves + leaf * n;
        TESS_TRY(add_a_gradient(c, l, x, leaf * tokens, tokens, 0, accumulate, own));
        TESS_TRY(tess_stream_copy(c->stream, tess_leaf_begin(c, &sum, leaf), own, (size_t)n * sizeof(*own)));
        TESS_TRY(tess_leaf_end(c, &sum, leaf));
    }
    return TESS_OK;
}

tess_status tess_low_rank_backward_params(const tess_layer_call *c, const tess_linear *l, const void *x, const void *dy)
{
    int64_t r = l->adapter.rank;
    tess_gemm g = {.k = c->T, .trans_a = true, .ab_dtype = c->dtype, .c_dtype = TESS_F32, .leaf = tess_leaf_tokens(c)};
    if (!tess_wants(c, l->adapter.a))
        return TESS_OK;
    TESS_TRY(project(c, l, x));
    g.m = l->n_out, g.a = dy, g.lda = tess_linear_row(l);
    g.n = r, g.b = c->low_rank.low, g.ldb = r;
    g.c = c->dw[l->adapter.b] + l->first * r, g.ldc = r;
    TESS_TRY(c->kernels->gemm(c->stream, &g));
    if (l->stored_whole && tess_is_split(c, l->out))
        TESS_TRY(tess_split_gather_gradient(c, (tess_cut){l->out.size * r, l->out.unit * r}, g.c, 1, l->out.size * r));

    if (tess_low_rank_joins(c, l)) /* tess_low_rank_backward_joined */
        return TESS_OK;
    TESS_TRY(project_gradient(c, l, dy));
    return l->stored_whole ? a_gradient_of_view(c, l, x) : a_gradient(c, l, x);
}

tess_linear tess_low_rank_whole(const tess_linear *view, int64_t n_out)
{
    tess_linear whole = *view;
    whole.n_out = n_out;
    whole.out = (tess_cut){n_out, 0};
    whole.first = whole.offset = 0;
    return whole;
}

tess_status tess_low_rank_backward_joined(const tess_layer_call *c, const tess_linear_grad *grads, int n, const void *x)
{
    const tess_linear *l = grads[0].linear;
    const tess_cut rows = {c->T, 0};
    int64_t width = 0, depth = 0;
    if (l->adapter.rank == 0 || !tess_low_rank_joins(c, l) || !tess_wants(c, l->adapter.a))
        return TESS_OK;
    for (int i = 0; i < n; i++)
        width += grads[i].linear->out.size;
    for (int i = 0; i < n; i++) {
        const tess_cut columns = grads[i].linear->out;
        const tess_matrix_box held = {rows, columns, (void *)(uintptr_t)grads[i].dy, tess_linear_row(grads[i].linear)};
        TESS_TRY(tess_meet(c, "operand", tess_dtype_size(c->dtype), held,
                           (tess_matrix_box){rows, {columns.size, 0}, tess_at(c, c->low_rank.all, depth), width}));
        depth += columns.size;
    }
    const tess_linear whole = tess_low_rank_whole(l, width);
    TESS_TRY(project_gradient_rows(c, &whole, c->low_rank.all, width, c->T));
    return a_gradient(c, l, x);
}

tess_status tess_low_rank_add(const tess_layer_call *c, const tess_linear *l, bool forward, const void *operand,
                              int64_t ld, int64_t m, int64_t first, int64_t n, float *sum)
{
    int64_t r = l->adapter.rank;
    TESS_TRY(forward ? project_rows(c, l, operand, ld, m) : project_gradient_rows(c, l, operand, ld, m));
    const void *factor = forward ? own_b(c, l) : c->w[l->adapter.a];
    return add_low(c, r, m, tess_at(c, factor, forward ? first * r : first), forward ? r : l->n_in, n, forward, sum, n);
}

tess_status tess_low_rank_backward_inputs(const tess_layer_call *c, const tess_linear_grad *grads, int n, void *fusing,
                                          void *dx)
{
    int64_t n_in = grads[0].linear->n_in;
    float *sum = is_narrow(c) ? c->low_rank.sum : dx;
    TESS_TRY(tess_linear_own_backward_inputs(c, grads, n, fusing, sum, TESS_F32));
    for (int i = 0; i < n; i++) {
        const tess_linear *l = grads[i].linear;
        if (l->adapter.rank == 0)
            continue;
        TESS_TRY(project_gradient(c, l, grads[i].dy));
        TESS_TRY(add_low(c, l->adapter.rank, c->T, c->w[l->adapter.a], n_in, n_in, false, sum, n_in));
    }
    return is_narrow(c) ? round_rows(c, n_in, dx, n_in) : TESS_OK;
}

static tess_status activate(const tess_layer_call *c, int64_t F, const void *gate, const void *up, void *act)
{
    tess_activation kind = c->block->activation;
    return gate != NULL
               ? c->kernels->glu_forward(c->stream, &(tess_glu_args){.gate = gate,
                                                                     .up = up,
                                                                     .stride = F,
                                                                     .y = act,
                                                                     .T = c->T,
                                                                     .F = F,
                                                                     .act = kind,
                                                                     .dtype = c->dtype})
               : c->kernels->act_forward(
                     c->stream, &(tess_act_args){.x = up, .y = act, .n = c->T * F, .act = kind, .dtype = c->dtype});
}

tess_status tess_low_rank_act_forward(const tess_layer_call *c, const tess_linear *l, const void *x, void *gate,
                                      void *up, void *act)
{
    TESS_TRY(tess_low_rank_forward(c, l, x, up));
    return activate(c, l->n_out, gate, up, act);
}

tess_status tess_low_rank_act_backward(const tess_layer_call *c, const tess_linear *l, const void *dy, void *gate,
                                       void *up, void *act, void *fusing)
{
    int64_t F = l->n_in;
    void *dact = is_narrow(c) ? c->low_rank.wide : c->low_rank.sum;
    const tess_linear_grad grad = {l, dy};
    TESS_TRY(tess_low_rank_backward_inputs(c, &grad, 1, fusing, dact));
    if (gate == NULL)
        return c->kernels->act_backward(c->stream, &(tess_act_grad_args){.x = up,
                                                                         .dy = dact,
                                                                         .dx = up,
                                                                         .y = act,
                                                                         .n = c->T * F,
                                                                         .act = c->block->activation,
                                                                         .dtype = c->dtype});
    return c->kernels->glu_backward(c->stream, &(tess_glu_grad_args){.gate = gate,
                                                                     .up = up,
                                                                     .stride = F,
                                                                     .dy = dact,
                                                                     .dgate = gate,
                                                                     .dup = up,
                                                                     .dstride = F,
                                                                     .y = act,
                                                                     .T = c->T,
                                                                     .F = F,
                                                                     .act = c->block->activation,
                                                                     .dtype = c->dtype});
}
