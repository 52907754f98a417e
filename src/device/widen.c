/* Rows for float16, computed by the rows for float32. Inputs are widened first and results are rounded afterwards;
 * everything in between is float32. So float16 has the same bits on all tables, as float32 has. It saves memory, not
 * time: no arithmetic here is faster in float16, and each operand is converted when it is used. */
#include "device/gemm_check.h"

#include "device/stream_impl.h"

enum { ALIGNED = 16, PART = 1 << 20, FEWEST_COLUMNS = 64, MOST_PARTS = 8 }; /* floats */

static const tess_kernels *plain(const tess_stream *s)
{
    return s->kernels->plain;
}

static int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Reserves work space for n arrays of size[i] floats. */
static tess_status open_room(tess_stream *s, int n, const int64_t *size, float **part)
{
    int64_t at[MOST_PARTS + 1] = {0};
    void *block;
    for (int i = 0; i < n; i++)
        at[i + 1] = at[i] + (size[i] + ALIGNED - 1) / ALIGNED * ALIGNED;
    TESS_TRY_CTX(tess_stream_wide_scratch(s, (size_t)most_of(at[n], ALIGNED) * sizeof(float), &block), "float16");
    for (int i = 0; i < n; i++)
        part[i] = (float *)block + at[i];
    return TESS_OK;
}

static const uint16_t *half(const void *x, int64_t i)
{
    return (const uint16_t *)x + i;
}

/* widen converts rows of x, `stride` elements apart, to contiguous floats. The next function converts floats to such
 * rows. */
static tess_status widen(tess_stream *s, const void *x, int64_t stride, int64_t rows, int64_t columns, float *y)
{
    if (stride == columns)
        return plain(s)->convert(s, x, TESS_F16, y, TESS_F32, rows * columns);
    for (int64_t r = 0; r < rows; r++)
        TESS_TRY(plain(s)->convert(s, half(x, r * stride), TESS_F16, y + r * columns, TESS_F32, columns));
    return TESS_OK;
}

static tess_status narrow(tess_stream *s, const float *x, int64_t rows, int64_t columns, void *y, int64_t stride)
{
    if (stride == columns)
        return plain(s)->convert(s, x, TESS_F32, y, TESS_F16, rows * columns);
    for (int64_t r = 0; r < rows; r++)
        TESS_TRY(plain(s)->convert(s, x + r * columns, TESS_F32, (uint16_t *)y + r * stride, TESS_F16, columns));
    return TESS_OK;
}

static tess_status widen_all(tess_stream *s, const void *x, int64_t n, float *y)
{
    return widen(s, x, n, 1, n, y);
}

static tess_status narrow_all(tess_stream *s, const float *x, int64_t n, void *y)
{
    return narrow(s, x, 1, n, y, n);
}

/* ---- Products ---- */
/* Computes columns [j, j + n) of C. wide: A, and work space for B, the bias and C. */
static tess_status gemm_columns(tess_stream *s, const tess_gemm *g, int64_t j, int64_t n, float *const *wide)
{
    tess_gemm w = *g;
    bool narrows = g->c_dtype == TESS_F16;
    w.n = n;
    w.a = wide[0];
    w.lda = g->trans_a ? g->m : g->k;
    w.b = wide[1];
    w.ldb = g->trans_b ? g->k : n;
    w.ab_dtype = w.c_dtype = TESS_F32;
    TESS_TRY(g->trans_b ? widen(s, half(g->b, j * g->ldb), g->ldb, n, g->k, wide[1])
                        : widen(s, half(g->b, j), g->ldb, g->k, n, wide[1]));
    if (g->bias != NULL) {
        w.bias = wide[2];
        TESS_TRY(widen_all(s, half(g->bias, j), n, wide[2]));
    }
    w.c = narrows ? wide[3] : (float *)g->c + j;
    w.ldc = narrows ? n : g->ldc;
    TESS_TRY(plain(s)->gemm(s, &w));
    return narrows ? narrow(s, wide[3], g->m, n, (uint16_t *)g->c + j, g->ldc) : TESS_OK;
}

static tess_status gemm(tess_stream *s, const tess_gemm *g)
{
    if (g->ab_dtype != TESS_F16)
        return plain(s)->gemm(s, g);
    TESS_TRY(tess_gemm_check(g));
    int64_t n = most_of(PART / most_of(g->k, 1) / FEWEST_COLUMNS, 1) * FEWEST_COLUMNS;
    n = n < g->n ? n : g->n;
    const int64_t sizes[] = {g->m * g->k, n * g->k, n, g->c_dtype == TESS_F16 ? g->m * n : 0};
    float *wide[4];
    TESS_TRY(open_room(s, 4, sizes, wide));
    TESS_TRY(g->trans_a ? widen(s, g->a, g->lda, g->k, g->m, wide[0]) : widen(s, g->a, g->lda, g->m, g->k, wide[0]));
    for (int64_t j = 0; j < g->n; j += n)
        TESS_TRY(gemm_columns(s, g, j, g->n - j < n ? g->n - j : n, wide));
    return TESS_OK;
}

static tess_status gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    return f->g.ab_dtype == TESS_F16 ? tess_gemm_fused_by_rows(s, f) : plain(s)->gemm_fused(s, f);
}

/* ---- Attention ---- */
/* A call with float32 operands in the stream's work space: q and out are (T, H D), k and v are (rows of keys, G D). */
typedef struct wide_attention {
    tess_attention a;
    int64_t T, heads, keys; /* number of rows; elements of a row of q, and of k */
    float *dout, *dq, *dk, *dv;
} wide_attention;

static tess_status widen_keys(tess_stream *s, const tess_attention *a, int64_t keys, tess_attention_seq *seqs, float *k,
                              float *v)
{
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const tess_attention_seq *from = &a->seqs[i];
        seqs[i] = *from;
        seqs[i].k = k;
        seqs[i].v = v;
        TESS_TRY(widen(s, from->k, a->k_stride, from->k_len, keys, k));
        TESS_TRY(widen(s, from->v, a->v_stride, from->k_len, keys, v));
        k += from->k_len * keys;
        v += from->k_len * keys;
    }
    return TESS_OK;
}

static tess_status widen_attention(tess_stream *s, const tess_attention *a, bool backward, wide_attention *w)
{
    int64_t all_keys = 0, T = 0, heads = a->n_heads * a->head_size, keys = a->n_kv_heads * a->head_size;
    for (int64_t i = 0; i < a->n_seqs; i++) {
        TESS_CHECK(a->seqs[i].pages == NULL, TESS_E_UNSUPPORTED,
                   "attention in float16: keys in pages, which generation has, are float32 or bfloat16");
        all_keys += a->seqs[i].k_len;
        T = most_of(T, a->seqs[i].q_begin + a->seqs[i].q_len);
    }
    const int64_t seq_floats = (int64_t)(sizeof(tess_attention_seq) / sizeof(float));
    const int64_t sizes[] = {a->n_seqs * seq_floats,
                             T * heads,
                             T * heads,
                             all_keys * keys,
                             all_keys * keys,
                             backward ? T * heads : 0,
                             backward ? T * heads : 0,
                             backward ? 2 * T * keys : 0};
    float *part[MOST_PARTS];
    TESS_TRY(open_room(s, MOST_PARTS, sizes, part));
    tess_attention_seq *seqs = (void *)part[0];
    *w = (wide_attention){.a = *a,
                          .T = T,
                          .heads = heads,
                          .keys = keys,
                          .dout = part[5],
                          .dq = part[6],
                          .dk = part[7],
                          .dv = part[7] + T * keys};
    w->a.seqs = seqs;
    w->a.q = part[1];
    w->a.out = part[2];
    w->a.q_stride = w->a.out_stride = heads;
    w->a.k_stride = w->a.v_stride = keys;
    w->a.dtype = TESS_F32;
    TESS_TRY(widen(s, a->q, a->q_stride, T, heads, part[1]));
    return widen_keys(s, a, keys, seqs, part[3], part[4]);
}

static tess_status attention_forward(tess_stream *s, const tess_attention *a)
{
    wide_attention w;
    if (a->dtype != TESS_F16)
        return plain(s)->attention_forward(s, a);
    TESS_TRY(widen_attention(s, a, false, &w));
    TESS_TRY(plain(s)->attention_forward(s, &w.a));
    return narrow(s, w.a.out, w.T, w.heads, a->out, a->out_stride);
}

static tess_status attention_backward(tess_stream *s, const tess_attention *a, const tess_attention_grad *g)
{
    wide_attention w;
    if (a->dtype != TESS_F16)
        return plain(s)->attention_backward(s, a, g);
    TESS_TRY(widen_attention(s, a, true, &w));
    TESS_TRY(widen(s, a->out, a->out_stride, w.T, w.heads, w.a.out));
    TESS_TRY(widen(s, g->dout, g->dout_stride, w.T, w.heads, w.dout));
    tess_attention_grad wide = *g;
    wide.dout = w.dout;
    wide.dq = w.dq;
    wide.dk = w.dk;
    wide.dv = w.dv;
    wide.dout_stride = wide.dq_stride = w.heads;
    wide.dk_stride = wide.dv_stride = w.keys;
    TESS_TRY(plain(s)->attention_backward(s, &w.a, &wide));
    TESS_TRY(narrow(s, w.dq, w.T, w.heads, g->dq, g->dq_stride));
    TESS_TRY(narrow(s, w.dk, w.T, w.keys, g->dk, g->dk_stride));
    return narrow(s, w.dv, w.T, w.keys, g->dv, g->dv_stride);
}

/* ---- Norms ---- */
/* Computes h of a norm, rounded as the norm reads it, into wide[0]. wide[1] is work space for the residual. */
static tess_status wide_sum(tess_stream *s, const void *x, const void *residual, void *h_out, int64_t n,
                            float *const *wide)
{
    TESS_TRY(widen_all(s, x, n, wide[0]));
    if (residual == NULL)
        return TESS_OK;
    TESS_TRY(widen_all(s, residual, n, wide[1]));
    TESS_TRY(plain(s)->add(s, wide[0], wide[1], wide[0], n, TESS_F32));
    TESS_TRY(narrow_all(s, wide[0], n, h_out));
    return widen_all(s, h_out, n, wide[0]);
}

static tess_status rmsnorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                   void *y, float *rstd, int64_t T, int64_t C, float eps, tess_dtype dtype)
{
    float *wide[3];
    if (dtype != TESS_F16)
        return plain(s)->rmsnorm_forward(s, x, residual, h_out, w, y, rstd, T, C, eps, dtype);
    TESS_TRY(open_room(s, 3, (int64_t[]){T * C, T * C, C}, wide));
    TESS_TRY(wide_sum(s, x, residual, h_out, T * C, wide));
    TESS_TRY(widen_all(s, w, C, wide[2]));
    TESS_TRY(plain(s)->rmsnorm_forward(s, wide[0], NULL, NULL, wide[2], wide[1], rstd, T, C, eps, TESS_F32));
    return narrow_all(s, wide[1], T * C, y);
}

static tess_status layernorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                     const void *b, void *y, float *mean, float *rstd, int64_t T, int64_t C, float eps,
                                     tess_dtype dtype)
{
    float *wide[4];
    if (dtype != TESS_F16)
        return plain(s)->layernorm_forward(s, x, residual, h_out, w, b, y, mean, rstd, T, C, eps, dtype);
    TESS_TRY(open_room(s, 4, (int64_t[]){T * C, T * C, C, C}, wide));
    TESS_TRY(wide_sum(s, x, residual, h_out, T * C, wide));
    TESS_TRY(widen_all(s, w, C, wide[2]));
    if (b != NULL)
        TESS_TRY(widen_all(s, b, C, wide[3]));
    TESS_TRY(plain(s)->layernorm_forward(s, wide[0], NULL, NULL, wide[2], b != NULL ? wide[3] : NULL, wide[1], mean,
                                         rstd, T, C, eps, TESS_F32));
    return narrow_all(s, wide[1], T * C, y);
}

/* Widens h, dy, dresidual and w of a norm's backward pass into wide[0..3]. dx will be in wide[1]. */
static tess_status widen_norm(tess_stream *s, const void *h, const void *w, const void *dy, const void *dresidual,
                              int64_t T, int64_t C, float **wide)
{
    TESS_TRY(open_room(s, 4, (int64_t[]){T * C, T * C, dresidual != NULL ? T * C : 0, C}, wide));
    TESS_TRY(widen_all(s, h, T * C, wide[0]));
    TESS_TRY(widen_all(s, dy, T * C, wide[1]));
    TESS_TRY(widen_all(s, w, C, wide[3]));
    if (dresidual != NULL)
        return widen_all(s, dresidual, T * C, wide[2]);
    wide[2] = NULL;
    return TESS_OK;
}

static tess_status rmsnorm_backward(tess_stream *s, const void *h, const void *w, const float *rstd, const void *dy,
                                    const void *dresidual, void *dx, float *dw, int64_t T, int64_t C, tess_dtype dtype)
{
    float *wide[4];
    if (dtype != TESS_F16)
        return plain(s)->rmsnorm_backward(s, h, w, rstd, dy, dresidual, dx, dw, T, C, dtype);
    TESS_TRY(widen_norm(s, h, w, dy, dresidual, T, C, wide));
    TESS_TRY(plain(s)->rmsnorm_backward(s, wide[0], wide[3], rstd, wide[1], wide[2], wide[1], dw, T, C, TESS_F32));
    return narrow_all(s, wide[1], T * C, dx);
}

static tess_status layernorm_backward(tess_stream *s, const void *h, const void *w, const float *mean,
                                      const float *rstd, const void *dy, const void *dresidual, void *dx, float *dw,
                                      float *db, int64_t T, int64_t C, tess_dtype dtype)
{
    float *wide[4];
    if (dtype != TESS_F16)
        return plain(s)->layernorm_backward(s, h, w, mean, rstd, dy, dresidual, dx, dw, db, T, C, dtype);
    TESS_TRY(widen_norm(s, h, w, dy, dresidual, T, C, wide));
    TESS_TRY(plain(s)->layernorm_backward(s, wide[0], wide[3], mean, rstd, wide[1], wide[2], wide[1], dw, db, T, C,
                                          TESS_F32));
    return narrow_all(s, wide[1], T * C, dx);
}

/* ---- Elements ---- */
static tess_status rope(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                        const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse,
                        tess_dtype dtype)
{
    int64_t C = n_heads * D;
    float *wide;
    if (dtype != TESS_F16)
        return plain(s)->rope(s, x, stride, pos, cos_table, sin_table, T, n_heads, D, R, inverse, dtype);
    TESS_TRY(open_room(s, 1, (int64_t[]){T * C}, &wide));
    TESS_TRY(widen(s, x, stride, T, C, wide));
    TESS_TRY(plain(s)->rope(s, wide, C, pos, cos_table, sin_table, T, n_heads, D, R, inverse, TESS_F32));
    return narrow(s, wide, T, C, x, stride);
}

static tess_status glu_forward(tess_stream *s, const void *gate, const void *up, int64_t stride, void *y, int64_t T,
                               int64_t F, tess_activation act, tess_dtype dtype)
{
    float *wide[3];
    if (dtype != TESS_F16)
        return plain(s)->glu_forward(s, gate, up, stride, y, T, F, act, dtype);
    TESS_TRY(open_room(s, 3, (int64_t[]){T * F, T * F, T * F}, wide));
    TESS_TRY(widen(s, gate, stride, T, F, wide[0]));
    TESS_TRY(widen(s, up, stride, T, F, wide[1]));
    TESS_TRY(plain(s)->glu_forward(s, wide[0], wide[1], F, wide[2], T, F, act, TESS_F32));
    return narrow_all(s, wide[2], T * F, y);
}

static tess_status glu_backward(tess_stream *s, const void *gate, const void *up, int64_t stride, const void *dy,
                                void *dgate, void *dup, int64_t dstride, int64_t T, int64_t F, tess_activation act,
                                tess_dtype dtype)
{
    float *wide[3];
    if (dtype != TESS_F16)
        return plain(s)->glu_backward(s, gate, up, stride, dy, dgate, dup, dstride, T, F, act, dtype);
    TESS_TRY(open_room(s, 3, (int64_t[]){T * F, T * F, T * F}, wide));
    TESS_TRY(widen(s, gate, stride, T, F, wide[0]));
    TESS_TRY(widen(s, up, stride, T, F, wide[1]));
    TESS_TRY(widen_all(s, dy, T * F, wide[2]));
    TESS_TRY(plain(s)->glu_backward(s, wide[0], wide[1], F, wide[2], wide[0], wide[1], F, T, F, act, TESS_F32));
    TESS_TRY(narrow(s, wide[0], T, F, dgate, dstride));
    return narrow(s, wide[1], T, F, dup, dstride);
}

static tess_status act_forward(tess_stream *s, const void *x, void *y, int64_t n, tess_activation act, tess_dtype dtype)
{
    float *wide;
    if (dtype != TESS_F16)
        return plain(s)->act_forward(s, x, y, n, act, dtype);
    TESS_TRY(open_room(s, 1, &n, &wide));
    TESS_TRY(widen_all(s, x, n, wide));
    TESS_TRY(plain(s)->act_forward(s, wide, wide, n, act, TESS_F32));
    return narrow_all(s, wide, n, y);
}

static tess_status act_backward(tess_stream *s, const void *x, const void *dy, void *dx, int64_t n, tess_activation act,
                                tess_dtype dtype)
{
    float *wide[2];
    if (dtype != TESS_F16)
        return plain(s)->act_backward(s, x, dy, dx, n, act, dtype);
    TESS_TRY(open_room(s, 2, (int64_t[]){n, n}, wide));
    TESS_TRY(widen_all(s, x, n, wide[0]));
    TESS_TRY(widen_all(s, dy, n, wide[1]));
    TESS_TRY(plain(s)->act_backward(s, wide[0], wide[1], wide[0], n, act, TESS_F32));
    return narrow_all(s, wide[0], n, dx);
}

static tess_status add(tess_stream *s, const void *a, const void *b, void *y, int64_t n, tess_dtype dtype)
{
    float *wide[2];
    if (dtype != TESS_F16)
        return plain(s)->add(s, a, b, y, n, dtype);
    TESS_TRY(open_room(s, 2, (int64_t[]){n, n}, wide));
    TESS_TRY(widen_all(s, a, n, wide[0]));
    TESS_TRY(widen_all(s, b, n, wide[1]));
    TESS_TRY(plain(s)->add(s, wide[0], wide[1], wide[0], n, TESS_F32));
    return narrow_all(s, wide[0], n, y);
}

static tess_status scale(tess_stream *s, const void *x, float factor, void *y, int64_t n, tess_dtype dtype)
{
    float *wide;
    if (dtype != TESS_F16)
        return plain(s)->scale(s, x, factor, y, n, dtype);
    TESS_TRY(open_room(s, 1, &n, &wide));
    TESS_TRY(widen_all(s, x, n, wide));
    TESS_TRY(plain(s)->scale(s, wide, factor, wide, n, TESS_F32));
    return narrow_all(s, wide, n, y);
}

/* ---- Tables and sums ---- */
static tess_status embedding_forward(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                     const int32_t *pos, void *out, int64_t T, int64_t C, tess_dtype dtype)
{
    size_t row_bytes = (size_t)C * sizeof(uint16_t);
    float *wide[2];
    if (dtype != TESS_F16)
        return plain(s)->embedding_forward(s, table, positions, ids, pos, out, T, C, dtype);
    if (positions == NULL)
        return plain(s)->gather_rows(s, table, ids, out, T, row_bytes);
    TESS_TRY(open_room(s, 2, (int64_t[]){T * C, T * C}, wide));
    TESS_TRY(plain(s)->gather_rows(s, positions, pos, out, T, row_bytes));
    TESS_TRY(widen_all(s, out, T * C, wide[1]));
    TESS_TRY(plain(s)->gather_rows(s, table, ids, out, T, row_bytes));
    TESS_TRY(widen_all(s, out, T * C, wide[0]));
    TESS_TRY(plain(s)->add(s, wide[0], wide[1], wide[0], T * C, TESS_F32));
    return narrow_all(s, wide[0], T * C, out);
}

static tess_status embedding_backward(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                      int64_t T, int64_t C, bool accumulate, tess_dtype dtype)
{
    float *wide;
    if (dtype != TESS_F16)
        return plain(s)->embedding_backward(s, ids, dout, dtable, rows, T, C, accumulate, dtype);
    TESS_TRY(open_room(s, 1, (int64_t[]){T * C}, &wide));
    TESS_TRY(widen_all(s, dout, T * C, wide));
    return plain(s)->embedding_backward(s, ids, wide, dtable, rows, T, C, accumulate, TESS_F32);
}

static tess_status column_sum(tess_stream *s, const void *dy, int64_t stride, float *db, int64_t T, int64_t C,
                              tess_dtype dtype)
{
    float *wide;
    if (dtype != TESS_F16)
        return plain(s)->column_sum(s, dy, stride, db, T, C, dtype);
    TESS_TRY(open_room(s, 1, (int64_t[]){T * C}, &wide));
    TESS_TRY(widen(s, dy, stride, T, C, wide));
    return plain(s)->column_sum(s, wide, C, db, T, C, TESS_F32);
}

/* Computes rows [i, i + n). Their dlogits may overwrite the logits, so they are rounded after these rows have been
 * read. */
static tess_status cross_entropy_rows(tess_stream *s, const tess_cross_entropy *a, int64_t i, int64_t n, float *wide)
{
    tess_cross_entropy part = *a;
    part.n = n;
    part.logits = a->logits + i * a->ld;
    part.targets = a->targets + i;
    part.dlogprob = a->dlogprob != NULL ? a->dlogprob + i : NULL;
    part.dentropy = a->dentropy != NULL ? a->dentropy + i : NULL;
    part.logprob = a->logprob != NULL ? a->logprob + i : NULL;
    part.entropy = a->entropy != NULL ? a->entropy + i : NULL;
    part.dlogits = wide;
    part.ldd = a->V;
    part.dtype = TESS_F32;
    TESS_TRY(plain(s)->cross_entropy(s, &part));
    return narrow(s, wide, n, a->V, (uint16_t *)a->dlogits + i * a->ldd, a->ldd);
}

static tess_status cross_entropy(tess_stream *s, const tess_cross_entropy *a)
{
    tess_cross_entropy wide_call = *a;
    float *wide;
    if (a->dtype != TESS_F16)
        return plain(s)->cross_entropy(s, a);
    wide_call.dtype = TESS_F32;
    if (a->dlogits == NULL)
        return plain(s)->cross_entropy(s, &wide_call);
    int64_t rows = most_of(PART / most_of(a->V, 1), 1);
    rows = rows < a->n ? rows : a->n;
    TESS_TRY(open_room(s, 1, (int64_t[]){rows * a->V}, &wide));
    for (int64_t i = 0; i < a->n; i += rows)
        TESS_TRY(cross_entropy_rows(s, a, i, a->n - i < rows ? a->n - i : rows, wide));
    return TESS_OK;
}

static tess_status find_not_finite(tess_stream *s, const void *x, tess_dtype dtype, int64_t n, int64_t *first)
{
    float *wide;
    if (dtype != TESS_F16)
        return plain(s)->find_not_finite(s, x, dtype, n, first);
    *first = -1;
    TESS_TRY(open_room(s, 1, (int64_t[]){n < PART ? n : PART}, &wide));
    for (int64_t i = 0; i < n && *first < 0; i += PART) {
        int64_t part = n - i < PART ? n - i : PART;
        TESS_TRY(widen_all(s, half(x, i), part, wide));
        TESS_TRY(plain(s)->find_not_finite(s, wide, TESS_F32, part, first));
        *first += *first >= 0 ? i : 0;
    }
    return TESS_OK;
}

void tess_kernels_widen(const tess_kernels *table, tess_kernels *k)
{
    *k = *table;
    k->plain = table;
    k->gemm = gemm;
    k->gemm_fused = gemm_fused;
    k->attention_forward = attention_forward;
    k->attention_backward = attention_backward;
    k->rmsnorm_forward = rmsnorm_forward;
    k->rmsnorm_backward = rmsnorm_backward;
    k->layernorm_forward = layernorm_forward;
    k->layernorm_backward = layernorm_backward;
    k->rope = rope;
    k->glu_forward = glu_forward;
    k->glu_backward = glu_backward;
    k->act_forward = act_forward;
    k->act_backward = act_backward;
    k->add = add;
    k->scale = scale;
    k->embedding_forward = embedding_forward;
    k->embedding_backward = embedding_backward;
    k->column_sum = column_sum;
    k->cross_entropy = cross_entropy;
    k->find_not_finite = find_not_finite;
}
