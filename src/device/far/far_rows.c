/* The rows of the far device. Each takes its arguments by value, adds the constant to the device's pointers, and
 * enqueues the same row of the host's table. */
#include <string.h>

#include "device/elementwise.h"
#include "device/far/far_impl.h"

/* Converts the caller's pointers to those that kernels use. */
typedef struct far_mover {
    const far_stream *stream;
    const char *row;
    tess_status status;
} far_mover;

static void *move(far_mover *m, const void *p)
{
    const far_device *d = (const far_device *)m->stream->base.device;
    if (p == NULL)
        return NULL;
    if (!far_is_mine(d, p)) {
        if (m->status == TESS_OK)
            m->status = TESS_FAIL(TESS_E_INVALID, "%s: %p is not memory of device far; allocate it there and upload",
                                  m->row, p);
        return NULL;
    }
    return (char *)p + d->constant;
}

/* Enqueues a row whose pointers are all in `p`. */
static tess_status enqueue(tess_stream *stream, far_call call)
{
    far_mover m = {(const far_stream *)stream, call.row, TESS_OK};
    for (int i = 0; i < FAR_POINTERS; i++)
        call.p[i] = move(&m, call.p[i]);
    TESS_TRY(m.status);
    return far_enqueue((far_stream *)stream, &call, NULL, 0);
}

/* ---- Products ---- */
static void move_gemm(far_mover *m, tess_gemm *g)
{
    g->a = move(m, g->a);
    g->b = move(m, g->b);
    g->c = move(m, g->c);
    g->bias = move(m, g->bias);
}

static tess_status run_gemm(tess_stream *s, const far_call *c)
{
    return s->kernels->gemm(s, &c->gemm);
}

static tess_status gemm(tess_stream *s, const tess_gemm *g)
{
    far_call c = {.row = "gemm", .run = run_gemm, .gemm = *g};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    move_gemm(&m, &c.gemm);
    TESS_TRY(m.status);
    return far_enqueue((far_stream *)s, &c, NULL, 0);
}

static tess_status run_gemm_fused(tess_stream *s, const far_call *c)
{
    return s->kernels->gemm_fused(s, &c->fused);
}

static tess_status gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    far_call c = {.row = "gemm_fused", .run = run_gemm_fused, .fused = *f};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    move_gemm(&m, &c.fused.g);
    for (int i = 0; i < f->n_terms && i < TESS_GEMM_TERMS; i++) {
        c.fused.terms[i].a = move(&m, f->terms[i].a);
        c.fused.terms[i].b = move(&m, f->terms[i].b);
    }
    c.fused.gate = move(&m, f->gate);
    c.fused.up = move(&m, f->up);
    c.fused.y = move(&m, f->y);
    c.fused.work = move(&m, f->work);
    TESS_TRY(m.status);
    return far_enqueue((far_stream *)s, &c, NULL, 0);
}

/* ---- Attention ---- */
static int64_t pages_of(const tess_attention_seq *s)
{
    return s->pages != NULL && s->k_len > 0 ? (s->k_len + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK : 0;
}

/* Enqueues a call of attention. The sequences contain pointers, so they are sent as the call's tail, followed by their
 * pages. */
static tess_status enqueue_attention(tess_stream *s, far_call *c, far_mover *m)
{
    tess_attention *a = &c->attention.a;
    int64_t n = a->n_seqs > 0 ? a->n_seqs : 0;
    size_t bytes = (size_t)n * sizeof(*a->seqs);
    for (int64_t i = 0; i < n; i++)
        bytes += (size_t)pages_of(&a->seqs[i]) * sizeof(int32_t);
    void *block;
    TESS_TRY(tess_mem_alloc(s->mem, TESS_POOL_MISC, bytes, "sequences", &block));
    tess_attention_seq *seqs = block;
    int32_t *pages = (int32_t *)(seqs + n);
    for (int64_t i = 0; i < n; i++) {
        seqs[i] = a->seqs[i];
        seqs[i].k = move(m, seqs[i].k);
        seqs[i].v = move(m, seqs[i].v);
        int64_t n_pages = pages_of(&seqs[i]);
        if (n_pages > 0)
            memcpy(pages, seqs[i].pages, (size_t)n_pages * sizeof(int32_t));
        pages += n_pages;
    }
    a->q = move(m, a->q);
    a->out = move(m, a->out);
    a->lse = move(m, a->lse);
    tess_status status = m->status;
    if (status == TESS_OK)
        status = far_enqueue((far_stream *)s, c, seqs, bytes);
    tess_mem_free(s->mem, seqs);
    return status;
}

/* Returns the sequences of a call's tail, with pointers to their pages set. */
static const tess_attention_seq *arrived_seqs(const far_call *c)
{
    tess_attention_seq *seqs = (void *)(uintptr_t)c->tail; /* the call's own copy */
    const int32_t *pages = (const int32_t *)(seqs + c->attention.a.n_seqs);
    for (int64_t i = 0; i < c->attention.a.n_seqs; i++) {
        int64_t n = pages_of(&seqs[i]);
        seqs[i].pages = n > 0 ? pages : NULL;
        pages += n;
    }
    return seqs;
}

static tess_status run_attention_forward(tess_stream *s, const far_call *c)
{
    tess_attention a = c->attention.a;
    a.seqs = arrived_seqs(c);
    return s->kernels->attention_forward(s, &a);
}

static tess_status attention_forward(tess_stream *s, const tess_attention *a)
{
    far_call c = {.row = "attention_forward", .run = run_attention_forward, .attention = {.a = *a}};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    return enqueue_attention(s, &c, &m);
}

static tess_status run_attention_backward(tess_stream *s, const far_call *c)
{
    tess_attention a = c->attention.a;
    a.seqs = c->tail;
    return s->kernels->attention_backward(s, &a, &c->attention.g);
}

static tess_status attention_backward(tess_stream *s, const tess_attention *a, const tess_attention_grad *g)
{
    far_call c = {.row = "attention_backward", .run = run_attention_backward, .attention = {*a, *g}};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    tess_attention_grad *moved = &c.attention.g;
    moved->dout = move(&m, g->dout);
    moved->dq = move(&m, g->dq);
    moved->dk = move(&m, g->dk);
    moved->dv = move(&m, g->dv);
    return enqueue_attention(s, &c, &m);
}

/* ---- Norms ---- */
static tess_status run_rmsnorm_forward(tess_stream *s, const far_call *c)
{
    return s->kernels->rmsnorm_forward(s, c->p[0], c->p[1], (void *)c->p[2], c->p[3], (void *)c->p[4], (void *)c->p[5],
                                       c->n[0], c->n[1], c->number, c->dtype);
}

static tess_status rmsnorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                   void *y, float *rstd, int64_t T, int64_t C, float eps, tess_dtype dtype)
{
    return enqueue(s, (far_call){"rmsnorm_forward", run_rmsnorm_forward, .p = {x, residual, h_out, w, y, rstd},
                                 .n = {T, C}, .number = eps, .dtype = dtype});
}

static tess_status run_rmsnorm_backward(tess_stream *s, const far_call *c)
{
    return s->kernels->rmsnorm_backward(s, c->p[0], c->p[1], c->p[2], c->p[3], c->p[4], (void *)c->p[5],
                                        (void *)c->p[6], c->n[0], c->n[1], c->dtype);
}

static tess_status rmsnorm_backward(tess_stream *s, const void *h, const void *w, const float *rstd, const void *dy,
                                    const void *dresidual, void *dx, float *dw, int64_t T, int64_t C, tess_dtype dtype)
{
    return enqueue(s, (far_call){"rmsnorm_backward", run_rmsnorm_backward, .p = {h, w, rstd, dy, dresidual, dx, dw},
                                 .n = {T, C}, .dtype = dtype});
}

static tess_status run_layernorm_forward(tess_stream *s, const far_call *c)
{
    return s->kernels->layernorm_forward(s, c->p[0], c->p[1], (void *)c->p[2], c->p[3], c->p[4], (void *)c->p[5],
                                         (void *)c->p[6], (void *)c->p[7], c->n[0], c->n[1], c->number, c->dtype);
}

static tess_status layernorm_forward(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                     const void *b, void *y, float *mean, float *rstd, int64_t T, int64_t C, float eps,
                                     tess_dtype dtype)
{
    return enqueue(s, (far_call){"layernorm_forward", run_layernorm_forward,
                                 .p = {x, residual, h_out, w, b, y, mean, rstd}, .n = {T, C}, .number = eps,
                                 .dtype = dtype});
}

static tess_status run_layernorm_backward(tess_stream *s, const far_call *c)
{
    return s->kernels->layernorm_backward(s, c->p[0], c->p[1], c->p[2], c->p[3], c->p[4], c->p[5], (void *)c->p[6],
                                          (void *)c->p[7], (void *)c->p[8], c->n[0], c->n[1], c->dtype);
}

static tess_status layernorm_backward(tess_stream *s, const void *h, const void *w, const float *mean,
                                      const float *rstd, const void *dy, const void *dresidual, void *dx, float *dw,
                                      float *db, int64_t T, int64_t C, tess_dtype dtype)
{
    return enqueue(s, (far_call){"layernorm_backward", run_layernorm_backward,
                                 .p = {h, w, mean, rstd, dy, dresidual, dx, dw, db}, .n = {T, C}, .dtype = dtype});
}

/* ---- Element-wise ---- */
static tess_status run_rope(tess_stream *s, const far_call *c)
{
    return s->kernels->rope(s, (void *)c->p[0], c->n[0], c->p[1], c->p[2], c->p[3], c->n[1], c->n[2], c->n[3], c->n[4],
                            c->flag, c->dtype);
}

static tess_status rope(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                        const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse,
                        tess_dtype dtype)
{
    return enqueue(s, (far_call){"rope", run_rope, .p = {x, pos, cos_table, sin_table}, .n = {stride, T, n_heads, D, R},
                                 .flag = inverse, .dtype = dtype});
}

static tess_status run_glu_forward(tess_stream *s, const far_call *c)
{
    return s->kernels->glu_forward(s, c->p[0], c->p[1], c->n[0], (void *)c->p[2], c->n[1], c->n[2], c->act, c->dtype);
}

static tess_status glu_forward(tess_stream *s, const void *gate, const void *up, int64_t stride, void *y, int64_t T,
                               int64_t F, tess_activation act, tess_dtype dtype)
{
    return enqueue(s, (far_call){"glu_forward", run_glu_forward, .p = {gate, up, y}, .n = {stride, T, F}, .act = act,
                                 .dtype = dtype});
}

static tess_status run_glu_backward(tess_stream *s, const far_call *c)
{
    return s->kernels->glu_backward(s, c->p[0], c->p[1], c->n[0], c->p[2], (void *)c->p[3], (void *)c->p[4], c->n[1],
                                    c->n[2], c->n[3], c->act, c->dtype);
}

static tess_status glu_backward(tess_stream *s, const void *gate, const void *up, int64_t stride, const void *dy,
                                void *dgate, void *dup, int64_t dstride, int64_t T, int64_t F, tess_activation act,
                                tess_dtype dtype)
{
    return enqueue(s, (far_call){"glu_backward", run_glu_backward, .p = {gate, up, dy, dgate, dup},
                                 .n = {stride, dstride, T, F}, .act = act, .dtype = dtype});
}

static tess_status run_act_forward(tess_stream *s, const far_call *c)
{
    return s->kernels->act_forward(s, c->p[0], (void *)c->p[1], c->n[0], c->act, c->dtype);
}

static tess_status act_forward(tess_stream *s, const void *x, void *y, int64_t n, tess_activation act, tess_dtype dtype)
{
    return enqueue(s, (far_call){"act_forward", run_act_forward, .p = {x, y}, .n = {n}, .act = act, .dtype = dtype});
}

static tess_status run_act_backward(tess_stream *s, const far_call *c)
{
    return s->kernels->act_backward(s, c->p[0], c->p[1], (void *)c->p[2], c->n[0], c->act, c->dtype);
}

static tess_status act_backward(tess_stream *s, const void *x, const void *dy, void *dx, int64_t n, tess_activation act,
                                tess_dtype dtype)
{
    return enqueue(
        s, (far_call){"act_backward", run_act_backward, .p = {x, dy, dx}, .n = {n}, .act = act, .dtype = dtype});
}

static tess_status run_add(tess_stream *s, const far_call *c)
{
    return s->kernels->add(s, c->p[0], c->p[1], (void *)c->p[2], c->n[0], c->dtype);
}

static tess_status add(tess_stream *s, const void *a, const void *b, void *y, int64_t n, tess_dtype dtype)
{
    return enqueue(s, (far_call){"add", run_add, .p = {a, b, y}, .n = {n}, .dtype = dtype});
}

static tess_status run_scale(tess_stream *s, const far_call *c)
{
    return s->kernels->scale(s, c->p[0], c->number, (void *)c->p[1], c->n[0], c->dtype);
}

static tess_status scale(tess_stream *s, const void *x, float factor, void *y, int64_t n, tess_dtype dtype)
{
    return enqueue(s, (far_call){"scale", run_scale, .p = {x, y}, .n = {n}, .number = factor, .dtype = dtype});
}

static tess_status run_round_fp8(tess_stream *s, const far_call *c)
{
    return s->kernels->round_fp8(s, c->p[0], c->n[0], (void *)c->p[1], c->n[1], c->n[2], (tess_fp8)c->n[3], c->dtype);
}

static tess_status round_fp8(tess_stream *s, const void *x, int64_t stride, void *y, int64_t rows, int64_t C,
                             tess_fp8 format, tess_dtype dtype)
{
    return enqueue(s,
                   (far_call){"round_fp8", run_round_fp8, .p = {x, y}, .n = {stride, rows, C, format}, .dtype = dtype});
}

static tess_status run_convert(tess_stream *s, const far_call *c)
{
    return s->kernels->convert(s, c->p[0], c->dtype, (void *)c->p[1], c->to, c->n[0]);
}

static tess_status convert(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, int64_t n)
{
    return enqueue(s, (far_call){"convert", run_convert, .p = {x, y}, .n = {n}, .dtype = from, .to = to});
}

static tess_status run_copy(tess_stream *s, const far_call *c)
{
    return s->kernels->copy(s, (void *)c->p[0], c->p[1], (size_t)c->n[0], c->flag);
}

static tess_status copy(tess_stream *s, void *to, const void *from, size_t bytes, bool streams)
{
    return enqueue(s, (far_call){"copy", run_copy, .p = {to, from}, .n = {(int64_t)bytes}, .flag = streams});
}

static tess_status run_adamw(tess_stream *s, const far_call *c)
{
    return s->kernels->adamw(s, &c->adamw);
}

static tess_status adamw(tess_stream *s, const tess_adamw_update *u)
{
    far_call c = {.row = "adamw", .run = run_adamw, .adamw = *u};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    TESS_CHECK(u->undo == NULL, TESS_E_UNSUPPORTED,
               "adamw on device far: a record for recovery is written by the host alone; update without one");
    c.adamw.p = move(&m, u->p);
    c.adamw.m = move(&m, u->m);
    c.adamw.v = move(&m, u->v);
    c.adamw.g = move(&m, u->g);
    c.adamw.copy = move(&m, u->copy);
    TESS_TRY(m.status);
    return far_enqueue((far_stream *)s, &c, NULL, 0);
}

/* ---- Embedding and head ---- */
static tess_status run_embedding_forward(tess_stream *s, const far_call *c)
{
    return s->kernels->embedding_forward(s, c->p[0], c->p[1], c->p[2], c->p[3], (void *)c->p[4], c->n[0], c->n[1],
                                         c->dtype);
}

static tess_status embedding_forward(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                     const int32_t *pos, void *out, int64_t T, int64_t C, tess_dtype dtype)
{
    return enqueue(s, (far_call){"embedding_forward", run_embedding_forward, .p = {table, positions, ids, pos, out},
                                 .n = {T, C}, .dtype = dtype});
}

static tess_status run_embedding_backward(tess_stream *s, const far_call *c)
{
    return s->kernels->embedding_backward(s, c->p[0], c->p[1], (void *)c->p[2], c->n[0], c->n[1], c->n[2], c->flag,
                                          c->dtype);
}

static tess_status embedding_backward(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                      int64_t T, int64_t C, bool accumulate, tess_dtype dtype)
{
    return enqueue(s, (far_call){"embedding_backward", run_embedding_backward, .p = {ids, dout, dtable},
                                 .n = {rows, T, C}, .flag = accumulate, .dtype = dtype});
}

static tess_status run_cross_entropy(tess_stream *s, const far_call *c)
{
    return s->kernels->cross_entropy(s, &c->cross_entropy);
}

static tess_status cross_entropy(tess_stream *s, const tess_cross_entropy *rows)
{
    far_call c = {.row = "cross_entropy", .run = run_cross_entropy, .cross_entropy = *rows};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    c.cross_entropy.logits = move(&m, rows->logits);
    c.cross_entropy.targets = move(&m, rows->targets);
    c.cross_entropy.dlogprob = move(&m, rows->dlogprob);
    c.cross_entropy.dentropy = move(&m, rows->dentropy);
    c.cross_entropy.logprob = move(&m, rows->logprob);
    c.cross_entropy.entropy = move(&m, rows->entropy);
    c.cross_entropy.dlogits = move(&m, rows->dlogits);
    TESS_TRY(m.status);
    return far_enqueue((far_stream *)s, &c, NULL, 0);
}

/* ---- Sums ---- */
static tess_status run_column_sum(tess_stream *s, const far_call *c)
{
    return s->kernels->column_sum(s, c->p[0], c->n[0], (void *)c->p[1], c->n[1], c->n[2], c->dtype);
}

static tess_status column_sum(tess_stream *s, const void *dy, int64_t stride, float *db, int64_t T, int64_t C,
                              tess_dtype dtype)
{
    return enqueue(s, (far_call){"column_sum", run_column_sum, .p = {dy, db}, .n = {stride, T, C}, .dtype = dtype});
}

/* The call's tail: the inputs, then the outputs. */
static tess_status run_reduce(tess_stream *s, const far_call *c)
{
    tess_reduction r = c->reduction;
    r.x = c->tail;
    r.y = (void *const *)c->tail + r.n_inputs;
    return s->kernels->reduce(s, &r, (void *)c->p[0]);
}

static tess_status reduce(tess_stream *s, const tess_reduction *r, bool *finite)
{
    far_call c = {.row = "reduce", .run = run_reduce, .reduction = *r};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    size_t n = (size_t)(r->n_inputs + r->n_outputs);
    void *block;
    TESS_TRY(tess_mem_alloc_array(s->mem, TESS_POOL_MISC, n, sizeof(void *), "operands", &block));
    void **moved = block;
    for (int i = 0; i < r->n_inputs; i++)
        moved[i] = move(&m, r->x[i]);
    for (int i = 0; i < r->n_outputs; i++)
        moved[r->n_inputs + i] = move(&m, r->y[i]);
    c.p[0] = move(&m, finite);
    tess_status status = m.status;
    if (status == TESS_OK)
        status = far_enqueue((far_stream *)s, &c, moved, n * sizeof(void *));
    tess_mem_free(s->mem, moved);
    return status;
}

/* The call's tail: the runs, with pointers that kernels use. */
static tess_status run_convert_runs(tess_stream *s, const far_call *c)
{
    return s->kernels->convert_runs(s, c->tail, c->n[0], c->dtype, c->to);
}

static tess_status convert_runs(tess_stream *s, const tess_value_run *runs, int64_t n_runs, tess_dtype from,
                                tess_dtype to)
{
    far_call c = {.row = "convert_runs", .run = run_convert_runs, .n = {n_runs}, .dtype = from, .to = to};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    size_t bytes = (size_t)n_runs * sizeof(tess_value_run);
    void *block;
    TESS_TRY(tess_mem_alloc(s->mem, TESS_POOL_MISC, bytes, "runs", &block));
    tess_value_run *moved = block;
    for (int64_t i = 0; i < n_runs; i++)
        moved[i] = (tess_value_run){move(&m, runs[i].x), move(&m, runs[i].y), runs[i].n};
    tess_status status = m.status;
    if (status == TESS_OK)
        status = far_enqueue((far_stream *)s, &c, moved, bytes);
    tess_mem_free(s->mem, moved);
    return status;
}

/* The call's tail: the inputs, the output, then the runs. */
static tess_status run_reduce_runs(tess_stream *s, const far_call *c)
{
    tess_reduction r = c->reduction;
    r.x = c->tail;
    r.y = (void *const *)c->tail + r.n_inputs;
    return s->kernels->reduce_runs(s, &r, (const tess_reduce_run *)(r.y + 1), c->n[0], (void *)c->p[0]);
}

static tess_status reduce_runs(tess_stream *s, const tess_reduction *r, const tess_reduce_run *runs, int64_t n_runs,
                               bool *finite)
{
    far_call c = {.row = "reduce_runs", .run = run_reduce_runs, .n = {n_runs}, .reduction = *r};
    far_mover m = {(far_stream *)s, c.row, TESS_OK};
    size_t n = (size_t)r->n_inputs + 1, bytes = (size_t)n_runs * sizeof(tess_reduce_run);
    void *block;
    TESS_TRY(tess_check_reduce_runs(r));
    TESS_TRY(tess_mem_alloc(s->mem, TESS_POOL_MISC, n * sizeof(void *) + bytes, "runs", &block));
    void **moved = block;
    for (int i = 0; i < r->n_inputs; i++)
        moved[i] = move(&m, r->x[i]);
    moved[r->n_inputs] = move(&m, r->y[0]);
    if (n_runs > 0)
        memcpy(moved + n, runs, bytes);
    c.p[0] = move(&m, finite);
    tess_status status = m.status;
    if (status == TESS_OK)
        status = far_enqueue((far_stream *)s, &c, moved, n * sizeof(void *) + bytes);
    tess_mem_free(s->mem, moved);
    return status;
}

static tess_status run_row_sumsq(tess_stream *s, const far_call *c)
{
    return s->kernels->row_sumsq(s, c->p[0], (void *)c->p[1], c->n[0], c->n[1]);
}

static tess_status row_sumsq(tess_stream *s, const float *x, double *out, int64_t rows, int64_t C)
{
    return enqueue(s, (far_call){"row_sumsq", run_row_sumsq, .p = {x, out}, .n = {rows, C}});
}

/* ---- Rows that copy bytes or search ---- */
static tess_status run_copy_rows(tess_stream *s, const far_call *c)
{
    return s->kernels->copy_rows(s, c->p[0], (size_t)c->n[0], (void *)c->p[1], (size_t)c->n[1], c->n[2],
                                 (size_t)c->n[3]);
}

static tess_status copy_rows(tess_stream *s, const void *x, size_t x_stride, void *y, size_t y_stride, int64_t n,
                             size_t row_bytes)
{
    return enqueue(s, (far_call){"copy_rows", run_copy_rows, .p = {x, y},
                                 .n = {(int64_t)x_stride, (int64_t)y_stride, n, (int64_t)row_bytes}});
}

static tess_status run_gather_rows(tess_stream *s, const far_call *c)
{
    return s->kernels->gather_rows(s, c->p[0], c->p[1], (void *)c->p[2], c->n[0], (size_t)c->n[1]);
}

static tess_status gather_rows(tess_stream *s, const void *x, const int32_t *index, void *y, int64_t n,
                               size_t row_bytes)
{
    return enqueue(s, (far_call){"gather_rows", run_gather_rows, .p = {x, index, y}, .n = {n, (int64_t)row_bytes}});
}

static tess_status run_exact_sum(tess_stream *s, const far_call *c)
{
    return s->kernels->exact_sum(s, c->p[0], c->n[0], c->flag, (void *)c->p[1]);
}

static tess_status exact_sum(tess_stream *s, const float *x, int64_t n, bool negate, tess_exact_sum *sum)
{
    return enqueue(s, (far_call){"exact_sum", run_exact_sum, .p = {x, sum}, .n = {n}, .flag = negate});
}

static tess_status run_find_not_finite(tess_stream *s, const far_call *c)
{
    return s->kernels->find_not_finite(s, c->p[0], c->dtype, c->n[0], (void *)c->p[1]);
}

static tess_status find_not_finite(tess_stream *s, const void *x, tess_dtype dtype, int64_t n, int64_t *first)
{
    return enqueue(s, (far_call){"find_not_finite", run_find_not_finite, .p = {x, first}, .n = {n}, .dtype = dtype});
}

void far_rows(tess_kernels *table, const tess_kernels *inner)
{
    *table = (tess_kernels){
        .name = inner->name,
        .gemm = gemm,
        .gemm_fused = gemm_fused,
        .attention_forward = attention_forward,
        .attention_backward = attention_backward,
        .rmsnorm_forward = rmsnorm_forward,
        .rmsnorm_backward = rmsnorm_backward,
        .layernorm_forward = layernorm_forward,
        .layernorm_backward = layernorm_backward,
        .rope = rope,
        .glu_forward = glu_forward,
        .glu_backward = glu_backward,
        .act_forward = act_forward,
        .act_backward = act_backward,
        .add = add,
        .scale = scale,
        .embedding_forward = embedding_forward,
        .embedding_backward = embedding_backward,
        .column_sum = column_sum,
        .cross_entropy = cross_entropy,
        .adamw = adamw,
        .convert = convert,
        .round_fp8 = round_fp8,
        .reduce = reduce,
        .convert_runs = convert_runs,
        .reduce_runs = reduce_runs,
        .copy = copy,
        .row_sumsq = row_sumsq,
        .copy_rows = copy_rows,
        .gather_rows = gather_rows,
        .exact_sum = exact_sum,
        .find_not_finite = find_not_finite,
        .plain = inner->plain,
        .encode_8bit = inner->encode_8bit,
        .decode_8bit = inner->decode_8bit,
        .round_randomly = inner->round_randomly,
        .peak_f32 = inner->peak_f32,
        .peak_bf16 = inner->peak_bf16,
    };
}
