/* Products whose contracted index is cut over ranks, with the bits of one rank (points.h). */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

/* One term: operand (T, K) times weight, where K is cut. `forward`: true: K is the map's inputs; false: its outputs. */
typedef struct split_term {
    const tess_linear *linear;
    bool forward;
    const void *x;
    void *operand; /* (m, K), next to the operands of the other terms */
    void *weight;  /* the weight for this rank's outputs: (K, n), or (n, K) */
    int64_t ld;    /* stride of weight */
} split_term;

/* The part of a product (T, C) that a rank computes: m rows and n outputs. */
typedef struct split_share {
    tess_cut rows, outputs;
    int64_t m, n, first; /* first: number of its first output */
} split_share;

/* Cuts a product by rows or by columns. By rows, each rank receives the whole weight and a few rows of the operand,
 * and its result is already in place. By columns, it receives all rows and a slice of the weight. Rows and columns
 * of a product are independent, so both give the same bits. */
static split_share share_of(const tess_layer_call *c, int64_t size)
{
    split_share s = {.rows = {c->T, 0}, .outputs = {size, 1}};
    int64_t begin;
    if (c->split.by_rows)
        s = (split_share){.rows = c->rows, .outputs = {size, 0}};
    tess_own_range(c, s.rows, &begin, &s.m);
    tess_own_range(c, s.outputs, &s.first, &s.n);
    return s;
}

static tess_cut contracted(const split_term *t)
{
    return t->forward ? t->linear->in : t->linear->out;
}

/* Whether the weight is stored with the contracted index as its rows. */
static bool stores_depth_first(const split_term *t)
{
    return t->forward == t->linear->in_out;
}

static tess_status gather_operand(const tess_layer_call *c, const split_share *s, const split_term *t, int64_t width)
{
    tess_cut depth = contracted(t);
    const int64_t ld = t->forward ? t->linear->n_in : tess_linear_row(t->linear);
    const int64_t element = (int64_t)tess_dtype_size(c->dtype);
    int64_t begin, n;
    tess_own_range(c, s->rows, &begin, &n);
    if (depth.unit == 0) /* every rank has all of it */
        return tess_layer_copy_rows(c, element, n, depth.size, tess_at(c, t->x, begin * ld), ld, t->operand, width);
    return tess_meet(c, "operand", (size_t)element, (tess_matrix_box){{c->T, 0}, depth, t->x, ld},
                     (tess_matrix_box){s->rows, {depth.size, 0}, t->operand, width});
}

/* Finds the weight for this rank's outputs with all of the contracted index: gathers it, or makes a view if every
 * rank stores the whole weight. */
static tess_status find_weight(const tess_layer_call *c, const split_share *s, split_term *t)
{
    const tess_linear *l = t->linear;
    bool first = stores_depth_first(t);
    tess_cut depth = contracted(t), all_depth = {depth.size, 0}, all_outputs = {s->outputs.size, 0};
    const void *mine = tess_at(c, c->w[l->weight], l->offset);
    if (l->stored_whole) {
        int64_t begin, size;
        tess_own_range(c, depth, &begin, &size);
        t->ld = l->ld;
        t->weight = tess_at(c, mine, first ? s->first - begin * l->ld : s->first * l->ld - begin);
        return TESS_OK;
    }
    t->ld = first ? s->n : depth.size;
    return tess_meet(
        c, "weight", tess_dtype_size(c->dtype),
        (tess_matrix_box){first ? depth : all_outputs, first ? all_outputs : depth, mine, l->ld},
        (tess_matrix_box){first ? all_depth : s->outputs, first ? s->outputs : all_depth, t->weight, t->ld});
}

/* Computes y (m, n). Terms of one stored matrix, such as GPT-2's q, k and v, are computed as one product, as on one
 * rank: the end of a term can change the order of a sum. */
static tess_status product(const tess_layer_call *c, const split_share *s, const split_term *terms, int n_terms,
                           int64_t width, const void *bias, void *fusing, void *y, tess_dtype y_dtype)
{
    bool whole = terms[0].linear->joined;
    tess_gemm_fused f = {.work = fusing, .n_terms = whole ? 0 : n_terms - 1};
    for (int i = 0; i <= f.n_terms; i++) {
        tess_gemm g = {.m = s->m,
                       .n = s->n,
                       .k = whole ? width : contracted(&terms[i]).size,
                       .a = terms[i].operand,
                       .lda = width,
                       .b = terms[i].weight,
                       .ldb = terms[i].ld,
                       .c = y,
                       .ldc = s->n,
                       .bias = bias,
                       .trans_b = !stores_depth_first(&terms[i]),
                       .ab_dtype = c->dtype,
                       .c_dtype = y_dtype,
                       .leaf = terms[i].forward ? terms[i].linear->in_leaf : terms[i].linear->out_leaf};
        if (i == 0)
            f.g = g;
        else
            f.terms[i - 1] = (tess_gemm_term){g.a, g.lda, g.b, g.ldb, g.k};
    }
    return f.n_terms == 0 ? c->kernels->gemm(c->stream, &f.g) : c->kernels->gemm_fused(c->stream, &f);
}

/* product() for maps with adapters: their parts are added in float32 before the result is rounded. */
static tess_status adapted_product(const tess_layer_call *c, const split_share *s, const split_term *terms, int n_terms,
                                   int64_t width, const void *bias, void *fusing, void *y)
{
    float *sum = c->dtype == TESS_F32 ? y : c->low_rank.sum;
    const bool whole = terms[0].linear->joined;
    const tess_linear all = tess_low_rank_whole(terms[0].linear, width);
    TESS_TRY(product(c, s, terms, n_terms, width, bias, fusing, sum, TESS_F32));
    for (int i = 0; i < (whole ? 1 : n_terms); i++)
        if (terms[i].linear->adapter.rank > 0)
            TESS_TRY(tess_low_rank_add(c, whole ? &all : terms[i].linear, terms[i].forward, terms[i].operand, width,
                                       s->m, s->first, s->n, sum));
    return c->dtype == TESS_F32
               ? TESS_OK
               : c->kernels->convert(
                     c->stream,
                     &(tess_convert_args){.x = sum, .from = TESS_F32, .y = y, .to = c->dtype, .n = s->m * s->n});
}

/* y (R, size) = the sum of the terms, plus bias (size) if it is not NULL. */
static tess_status split_product(const tess_layer_call *c, split_term *terms, int n_terms, int64_t size,
                                 const void *bias, void *fusing, void *y)
{
    split_share s = share_of(c, size);
    void *mine = c->split.by_rows ? y : c->split.slice;
    int64_t width = 0, depth = 0;
    bool adapted = false;
    for (int i = 0; i < n_terms; i++) {
        width += contracted(&terms[i]).size;
        adapted |= terms[i].linear->adapter.rank > 0;
    }
    for (int i = 0; i < n_terms; i++) {
        terms[i].operand = tess_at(c, c->split.operands, depth);
        terms[i].weight = tess_at(c, c->split.weights, s.n * depth);
        depth += contracted(&terms[i]).size;
        TESS_TRY(gather_operand(c, &s, &terms[i], width));
        TESS_TRY(find_weight(c, &s, &terms[i]));
    }
    bias = bias != NULL ? tess_at(c, bias, s.first) : NULL;
    TESS_TRY(adapted ? adapted_product(c, &s, terms, n_terms, width, bias, fusing, mine)
                     : product(c, &s, terms, n_terms, width, bias, fusing, mine, c->dtype));
    return c->split.by_rows ? TESS_OK : tess_stream_from_columns(c, s.outputs, mine, y);
}

tess_status tess_split_forward(const tess_layer_call *c, const tess_linear *linear, const void *x, void *y)
{
    split_term term = {.linear = linear, .forward = true, .x = x};
    const void *bias = linear->bias >= 0 ? tess_at(c, c->w[linear->bias], linear->first) : NULL;
    return split_product(c, &term, 1, linear->n_out, bias, NULL, y);
}

tess_status tess_split_backward_inputs(const tess_layer_call *c, const tess_linear_grad *grads, int n, void *fusing,
                                       void *dx)
{
    split_term terms[1 + TESS_GEMM_TERMS];
    for (int i = 0; i < n; i++)
        terms[i] = (split_term){.linear = grads[i].linear, .x = grads[i].dy};
    return split_product(c, terms, n, grads[0].linear->n_in, NULL, fusing, dx);
}

tess_status tess_split_gather_params(const tess_layer_call *c, const tess_linear *l)
{
    const int64_t row = l->in_out ? 1 : l->n_in; /* elements of the matrix for each output, in a row of it */
    const tess_cut part = {l->out.size * row, l->out.unit * row};
    if (tess_wants(c, l->bias))
        TESS_TRY(tess_split_gather_gradient(c, l->out, c->dw[l->bias] + l->first, 1, l->out.size));
    if (!tess_wants(c, l->weight))
        return TESS_OK;
    return tess_split_gather_gradient(c, part, c->dw[l->weight] + l->offset, l->in_out ? l->n_in : 1,
                                      l->in_out ? l->ld : part.size);
}

/* Rows of a norm of heads on one rank that has all of them. */
typedef struct whole_rows {
    tess_cut channels;
    int64_t n, width; /* n rows of `width` channels */
} whole_rows;

static whole_rows all_rows(const tess_layer_call *c, tess_cut heads)
{
    const tess_attention_params *p = c->own;
    const int64_t D = p->head_size, all = heads.size * D;
    return (whole_rows){
        {all, heads.unit * D}, p->wide_norms ? c->T : c->T * heads.size, p->wide_norms ? all : p->head_size};
}

/* The statistics of a row over all heads need all of it, so every rank computes whole rows. */
tess_status tess_split_head_norm_forward(const tess_layer_call *c, const tess_norm *norm, tess_cut heads, const void *x,
                                         float *rstd, void *y)
{
    const whole_rows rows = all_rows(c, heads);
    void *all_x = c->split.operands, *all_y = tess_at(c, all_x, c->T * rows.channels.size);
    TESS_TRY(tess_split_gather(c, rows.channels, tess_dtype_size(c->dtype), x, all_x, rows.channels.size));
    TESS_TRY(tess_head_norm_own_forward(c, norm, rows.n, rows.width, all_x, rstd, all_y));
    return tess_split_own(c, rows.channels, all_y, y);
}

/* The sum over (token, head) runs over the heads of each token, so it cannot be split by heads: every rank computes
 * all of it. */
tess_status tess_split_head_norm_backward(const tess_layer_call *c, const tess_norm *norm, tess_cut heads,
                                          const void *x, const float *rstd, const void *dy, void *dx)
{
    const tess_attention_params *p = c->own;
    const whole_rows rows = all_rows(c, heads);
    const int64_t width = rows.channels.size;
    size_t element = tess_dtype_size(c->dtype);
    void *all_x = c->split.operands, *all_dy = tess_at(c, all_x, c->T * width),
         *all_dx = tess_at(c, all_dy, c->T * width);
    TESS_TRY(tess_split_gather(c, rows.channels, element, x, all_x, width));
    TESS_TRY(tess_split_gather(c, rows.channels, element, dy, all_dy, width));
    if (!p->wide_norms) {
        TESS_TRY(tess_split_gather(c, heads, sizeof(float), rstd, c->split.rstd, heads.size));
        rstd = c->split.rstd;
    }
    TESS_TRY(tess_head_norm_own_backward(c, norm, rows.n, rows.width, all_x, rstd, all_dy, all_dx));
    return tess_split_own(c, rows.channels, all_dx, dx);
}
