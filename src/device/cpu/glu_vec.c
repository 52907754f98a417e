/* Gated and plain activations, also those that follow a product. A plain activation is computed as one long row. */
#include "device/cpu/gemm_impl.h"
#include "device/cpu/vec_rows.h"
#include "device/vmath.h"
#include "device/activation.h"

/* The arguments of the four rows. The results may lie where their operands do. */
typedef struct glu {
    const void *gate, *up, *dy; /* up is NULL for a plain activation, dy is NULL in the forward pass */
    void *y, *dgate, *dup;      /* y may be NULL in the backward pass */
    int64_t stride, dstride, F;
    tess_activation act;
    tess_dtype dtype;
} glu;

typedef struct glu_row {
    const glu *glu;
    int64_t in, out, contiguous; /* offsets of the row in gate and up, in dgate and dup, and in y and dy */
    tess_activation act;
    tess_dtype dtype;
} glu_row;

TESS_INLINE void glu_forward_part(const void *context, int64_t i, int64_t n)
{
    const glu_row *r = context;
    p_ahead(r->glu->gate, r->in + i, r->dtype);
    p_ahead(r->glu->y, r->contiguous + i, r->dtype);
    pair x = p_get(r->glu->gate, r->in + i, n, r->dtype);
    pair y = {v_activate(x.a, r->act), v_activate(x.b, r->act)};
    if (r->glu->up != NULL) {
        p_ahead(r->glu->up, r->in + i, r->dtype);
        y = p_mul(y, p_get(r->glu->up, r->in + i, n, r->dtype));
    }
    p_put(r->glu->y, r->contiguous + i, y, n, r->dtype);
}

TESS_INLINE void glu_backward_part(const void *context, int64_t i, int64_t n)
{
    const glu_row *r = context;
    p_ahead(r->glu->gate, r->in + i, r->dtype);
    p_ahead(r->glu->dy, r->contiguous + i, r->dtype);
    p_ahead(r->glu->dgate, r->out + i, r->dtype);
    pair gate = p_get(r->glu->gate, r->in + i, n, r->dtype), d = p_get(r->glu->dy, r->contiguous + i, n, r->dtype);
    pair slope, activated;
    activated.a = v_activate_with_slope(gate.a, r->act, &slope.a);
    activated.b = v_activate_with_slope(gate.b, r->act, &slope.b);
    if (r->glu->up != NULL) {
        p_ahead(r->glu->up, r->in + i, r->dtype);
        p_ahead(r->glu->dup, r->out + i, r->dtype);
        pair up = p_get(r->glu->up, r->in + i, n, r->dtype);
        p_put(r->glu->dup, r->out + i, p_mul(d, activated), n, r->dtype);
        d = p_mul(d, up);
        activated = p_mul(activated, up);
    }
    p_put(r->glu->dgate, r->out + i, p_mul(d, slope), n, r->dtype);
    if (r->glu->y != NULL)
        p_put(r->glu->y, r->contiguous + i, activated, n, r->dtype);
}

TESS_INLINE void glu_part(const glu *a, int64_t t, int64_t begin, int64_t end, tess_activation act, tess_dtype dtype)
{
    const glu copy = *a; /* a copy on the stack, so that the compiler knows that stores do not change its pointers */
    glu_row r = {&copy, t * a->stride, t * a->dstride, t * a->F, act, dtype};
    if (a->dy != NULL)
        row_pairs(glu_backward_part, &r, begin, end);
    else
        row_pairs(glu_forward_part, &r, begin, end);
}

/* Computes the elements begin .. end of row t. */
static void glu_span(const glu *a, int64_t t, int64_t begin, int64_t end)
{
    bool f32 = a->dtype == TESS_F32;
    if (a->act == TESS_ACT_SILU && f32)
        glu_part(a, t, begin, end, TESS_ACT_SILU, TESS_F32);
    else if (a->act == TESS_ACT_SILU)
        glu_part(a, t, begin, end, TESS_ACT_SILU, TESS_BF16);
    else if (a->act == TESS_ACT_GELU_TANH && f32)
        glu_part(a, t, begin, end, TESS_ACT_GELU_TANH, TESS_F32);
    else if (a->act == TESS_ACT_GELU_TANH)
        glu_part(a, t, begin, end, TESS_ACT_GELU_TANH, TESS_BF16);
    else if (f32)
        glu_part(a, t, begin, end, TESS_ACT_GELU_ERF, TESS_F32);
    else
        glu_part(a, t, begin, end, TESS_ACT_GELU_ERF, TESS_BF16);
}

static void glu_rows_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const glu *a = context;
    for (int64_t t = begin; t < end; t++)
        glu_span(a, t, 0, a->F);
}

static void act_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    glu_span(context, 0, begin, end);
}

tess_status VEC_NAME(glu_forward)(tess_stream *s, const tess_glu_args *c)
{
    TESS_TRY(tess_check_dtype("glu", c->dtype));
    glu a = {.gate = c->gate, .up = c->up, .y = c->y, .stride = c->stride, .F = c->F, .act = c->act, .dtype = c->dtype};
    tess_threads_run(s->threads, glu_rows_loop, &a, c->T, tess_loop_grain(c->F));
    return TESS_OK;
}

tess_status VEC_NAME(glu_backward)(tess_stream *s, const tess_glu_grad_args *c)
{
    TESS_TRY(tess_check_dtype("glu backward", c->dtype));
    glu a = {c->gate, c->up, c->dy, c->y, c->dgate, c->dup, c->stride, c->dstride, c->F, c->act, c->dtype};
    tess_threads_run(s->threads, glu_rows_loop, &a, c->T, tess_loop_grain(c->F));
    return TESS_OK;
}

tess_status VEC_NAME(act_forward)(tess_stream *s, const tess_act_args *c)
{
    TESS_TRY(tess_check_dtype("activation", c->dtype));
    glu a = {.gate = c->x, .y = c->y, .act = c->act, .dtype = c->dtype};
    tess_threads_run(s->threads, act_loop, &a, c->n, tess_loop_grain(0));
    return TESS_OK;
}

tess_status VEC_NAME(act_backward)(tess_stream *s, const tess_act_grad_args *c)
{
    TESS_TRY(tess_check_dtype("activation backward", c->dtype));
    glu a = {.gate = c->x, .dy = c->dy, .y = c->y, .dgate = c->dx, .act = c->act, .dtype = c->dtype};
    tess_threads_run(s->threads, act_loop, &a, c->n, tess_loop_grain(0));
    return TESS_OK;
}

/* ---- After a product ---- */
void VEC_NAME(follow)(const tess_gemm_fused *f, int64_t i, int64_t j, int64_t rows, int64_t columns)
{
    const bool backward = f->then == TESS_THEN_ACT_BACKWARD;
    void *x = backward ? f->up : f->g.c;
    glu a = {.gate = x,
             .dgate = x,
             .y = f->y,
             .stride = f->g.ldc,
             .dstride = f->g.ldc,
             .F = f->g.ldc,
             .act = f->act,
             .dtype = f->g.c_dtype};
    if (f->gate != NULL) {
        a.gate = a.dgate = f->gate;
        a.up = a.dup = x;
    }
    if (backward)
        a.dy = f->y;
    for (int64_t t = i; t < i + rows; t++)
        glu_span(&a, t, j, j + columns);
}

/* ---- Pairs of gate and up, next to each other ---- */
typedef struct pairs {
    const void *x, *dy; /* dy is NULL in the forward pass */
    void *dx, *y;
    int64_t F;
    float alpha, limit;
    tess_dtype dtype;
} pairs;

/* Computes n pairs from pair i on, 0 < n <= 16. bf16 loads already separate even and odd elements. */
TESS_INLINE void pairs_part(const pairs *a, int64_t i, int64_t n, tess_dtype dtype)
{
    pair x = p_get(a->x, 2 * i, 2 * n, dtype);
    if (dtype == TESS_F32)
        v_split(x.a, x.b, &x.a, &x.b);
    if (a->dy == NULL) {
        v_put(a->y, i, v_clamped_glu(x.a, x.b, a->alpha, a->limit), n, dtype);
        return;
    }
    const vec d = v_get(a->dy, i, n, dtype);
    v_put(a->y, i, v_clamped_glu_with_slopes(&x.a, &x.b, a->alpha, a->limit), n, dtype);
    x = (pair){v_mul(d, x.a), v_mul(d, x.b)};
    if (dtype == TESS_F32)
        v_join(x.a, x.b, &x.a, &x.b);
    p_put(a->dx, 2 * i, x, 2 * n, dtype);
}

TESS_INLINE void pairs_rows(const pairs *a, int64_t begin, int64_t end, tess_dtype dtype)
{
    const pairs copy = *a;
    for (int64_t i = begin; i < end; i += 16)
        pairs_part(&copy, i, end - i < 16 ? end - i : 16, dtype);
}

static void pairs_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const pairs *a = context;
    for (int64_t t = begin; t < end; t++)
        if (a->dtype == TESS_F32)
            pairs_rows(a, t * a->F, (t + 1) * a->F, TESS_F32);
        else
            pairs_rows(a, t * a->F, (t + 1) * a->F, TESS_BF16);
}

tess_status VEC_NAME(clamped_glu_forward)(tess_stream *s, const tess_clamped_glu_args *c)
{
    TESS_TRY(tess_check_dtype("clamped glu", c->dtype));
    pairs a = {.x = c->x, .y = c->y, .F = c->C / 2, .alpha = c->alpha, .limit = c->limit, .dtype = c->dtype};
    tess_threads_run(s->threads, pairs_loop, &a, c->T, tess_loop_grain(c->C));
    return TESS_OK;
}

tess_status VEC_NAME(clamped_glu_backward)(tess_stream *s, const tess_clamped_glu_grad_args *c)
{
    TESS_TRY(tess_check_dtype("clamped glu backward", c->dtype));
    pairs a = {c->x, c->dy, c->dx, c->y, c->C / 2, c->alpha, c->limit, c->dtype};
    tess_threads_run(s->threads, pairs_loop, &a, c->T, tess_loop_grain(c->C));
    return TESS_OK;
}
