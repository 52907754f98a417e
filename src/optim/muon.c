/* Muon (Keller Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): a hidden matrix moves along its momentum
 * with all singular values made about 1, by five steps of a Newton-Schulz iteration.
 *
 *     B = B + (1 - mu) (G - B);  U = G + mu (B - G), without Nesterov B
 *     X = U / max(|U|, eps);  five times: A = X X', X = a X + (b A + c A A) X;  W = W (1 - lr decay) - rate X
 *
 * Everything is float32 (torch computes X in bfloat16). For a matrix with more rows than columns, X' X is used instead,
 * since that product is smaller. The iteration needs whole matrices. Ranks that have parts of them work on n matrices
 * at a time, n being the number of ranks: each rank gathers one of the next n matrices, computes on it alone, and sends
 * the other ranks their parts back. So the bits do not depend on the rank that computes, and ranks compute at the same
 * time. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/exact_sum.h"
#include "base/os/threads.h"
#include "device/device.h"
#include "optim/optim_impl.h"

enum { NS_STEPS = 5 };
static const float ns_a = 3.4445f, ns_b = -4.7750f, ns_c = 2.0315f;
static const double eps = 1e-7;

/* ---- Elements, on the stream's threads ---- */
enum { GRAIN = 4096 };

typedef struct muon_elements {
    float a, b;
    const float *x;
    float *y;
} muon_elements;

/* y = y / b */
static void divide(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const muon_elements *e = context;
    for (int64_t i = begin; i < end; i++)
        e->y[i] /= e->b;
}

/* y = a x + b y */
static void combine(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const muon_elements *e = context;
    for (int64_t i = begin; i < end; i++)
        e->y[i] = e->a * e->x[i] + e->b * e->y[i];
}

static void run(const tess_stream *s, tess_loop_fn fn, const muon_elements *e, int64_t n)
{
    muon_elements elements = *e;
    tess_threads_run(tess_stream_threads(s), fn, &elements, n, GRAIN);
}

/* ---- A whole matrix ---- */
typedef struct muon_matrix {
    int64_t rows, columns, least; /* least: the smaller of the two */
    float *x;                     /* (rows, columns) the matrix X */
    float *next;                  /* (rows, columns) the next X */
    float *gram, *polynomial;     /* (least, least) A, and b A + c A A */
    double *sums;                 /* (rows) sums of squares */
} muon_matrix;

size_t optim_muon_work(int64_t rows, int64_t columns)
{
    int64_t least = rows < columns ? rows : columns;
    return (size_t)(rows * columns + 2 * least * least + 2 * rows) + 2;
}

static muon_matrix matrix_at(int64_t rows, int64_t columns, float *x, float *work)
{
    int64_t least = rows < columns ? rows : columns;
    muon_matrix m = {.rows = rows, .columns = columns, .least = least, .x = x};
    m.sums = (double *)(((uintptr_t)work + 7) / 8 * 8);
    m.next = (float *)(m.sums + rows);
    m.gram = m.next + rows * columns;
    m.polynomial = m.gram + least * least;
    return m;
}

static tess_status product(tess_stream *s, const float *a, const float *b, float *c, tess_gemm g)
{
    g.a = a;
    g.b = b;
    g.c = c;
    g.ldc = g.n;
    return tess_stream_kernels(s)->gemm(s, &g);
}

/* x /= max(|x|, eps). The sum of the rows' squares is exact, up to its last rounding. */
static tess_status normalise(tess_stream *s, muon_matrix *m)
{
    tess_exact_sum sum = {0};
    TESS_TRY(tess_stream_kernels(s)->row_sumsq(
        s, &(tess_row_sumsq_args){.x = m->x, .out = m->sums, .rows = m->rows, .C = m->columns}));
    for (int64_t i = 0; i < m->rows; i++)
        tess_exact_add(&sum, m->sums[i]);
    float norm = (float)fmax(sqrt(tess_exact_value(&sum)), eps);
    run(s, divide, &(muon_elements){.b = norm, .y = m->x}, m->rows * m->columns);
    return TESS_OK;
}

/* The products of a step: A (or X' X, with more rows than columns), A A, and the matrix that is added to X. */
typedef struct muon_products {
    tess_gemm gram, square, apply;
} muon_products;

static muon_products products_of(int64_t R, int64_t C)
{
    bool wide = R <= C;
    int64_t n = wide ? R : C;
    return (muon_products){
        .gram = {.m = n, .n = n, .k = wide ? C : R, .lda = C, .ldb = C, .trans_a = !wide, .trans_b = wide},
        .square = {.m = n, .n = n, .k = n, .lda = n, .ldb = n},
        .apply = {.m = R, .n = C, .k = n, .lda = wide ? n : C, .ldb = wide ? C : n},
    };
}

static tess_status iterate(tess_stream *s, muon_matrix *m)
{
    int64_t R = m->rows, C = m->columns, n = m->least;
    const muon_products p = products_of(R, C);
    TESS_TRY(product(s, m->x, m->x, m->gram, p.gram));
    TESS_TRY(product(s, m->gram, m->gram, m->polynomial, p.square));
    run(s, combine, &(muon_elements){.a = ns_b, .x = m->gram, .b = ns_c, .y = m->polynomial}, n * n);
    TESS_TRY(R <= C ? product(s, m->polynomial, m->x, m->next, p.apply)
                    : product(s, m->x, m->polynomial, m->next, p.apply));
    run(s, combine, &(muon_elements){.a = 1, .x = m->next, .b = ns_a, .y = m->x}, R * C);
    return TESS_OK;
}

static tess_status orthogonalise(tess_stream *s, muon_matrix *m)
{
    TESS_TRY(normalise(s, m));
    for (int i = 0; i < NS_STEPS; i++)
        TESS_TRY(iterate(s, m));
    return TESS_OK;
}

/* ---- A span ---- */
static tess_status momentum(const optim_pass *pass, int64_t begin, int n)
{
    const optim_update *u = pass->u;
    const float *g = pass->span->grad + begin;
    float buffer[OPTIM_BLOCK], weight = (float)(1.0 - (double)u->optimizer->options.momentum);
    TESS_TRY(optim_moment_load(pass, 0, begin, n, buffer));
    for (int i = 0; i < n; i++)
        buffer[i] = buffer[i] + weight * (g[i] * u->call.grad_scale - buffer[i]);
    optim_moment_store(pass, 0, begin, n, buffer);
    return TESS_OK;
}

static tess_status apply(const optim_pass *pass, int64_t begin, int n)
{
    float *p = pass->span->param + begin, decay = pass->u->decay[pass->span->decay];
    for (int i = 0; i < n; i++)
        p[i] = p[i] * decay - pass->rate * pass->direction[begin + i];
    return TESS_OK;
}

/* The rank's elements of U, by blocks. */
typedef struct muon_direction {
    const optim_pass *pass;
    float *to;
    _Atomic int status; /* the last status that was not TESS_OK */
} muon_direction;

static void direct_blocks(void *context, int64_t first, int64_t last, TESS_UNUSED int worker)
{
    muon_direction *d = context;
    const optim_pass *pass = d->pass;
    const tess_optimizer_options *o = &pass->u->optimizer->options;
    for (int64_t block = first; block < last; block++) {
        const int64_t begin = block * OPTIM_BLOCK, left = pass->span->n - begin;
        const int n = left < OPTIM_BLOCK ? (int)left : OPTIM_BLOCK;
        tess_status status = optim_moment_load(pass, 0, begin, n, d->to + begin);
        if (status != TESS_OK)
            atomic_store(&d->status, status);
        for (int64_t i = begin; i < begin + n && o->nesterov; i++) {
            float g = pass->span->grad[i] * pass->u->call.grad_scale;
            d->to[i] = g + o->momentum * (d->to[i] - g);
        }
    }
}

/* Computes these elements. They depend only on gradient and momentum, so computing them twice gives the same values. */
static tess_status direction_of(const optim_pass *pass, float *to)
{
    muon_direction d = {.pass = pass, .to = to};
    const tess_stream *stream = pass->u->optimizer->stream;
    tess_threads_run(tess_stream_threads(stream), direct_blocks, &d, (pass->span->n + OPTIM_BLOCK - 1) / OPTIM_BLOCK,
                     GRAIN / OPTIM_BLOCK);
    return (tess_status)atomic_load(&d.status);
}

static float rate_of(const optim_update *u, const tess_span *span)
{
    double rows = (double)span->shape.dim[0], columns = (double)span->shape.dim[1];
    double factor = u->optimizer->options.muon_rate == TESS_MUON_ORIGINAL ? sqrt(fmax(1, rows / columns))
                                                                          : 0.2 * sqrt(fmax(rows, columns));
    return (float)((double)u->lr * factor);
}

/* ---- Matrices that ranks compute at the same time ---- */
typedef struct turn {
    optim_update *u;
    const tess_span *spans;
    int n;                         /* number of matrices, at most one for each rank */
    int which[OPTIM_MOST_TURNS];   /* numbers of their spans; rank i computes on the i-th */
    float *part[OPTIM_MOST_TURNS]; /* this rank's elements of each, contiguous in the optimizer's work memory */
    float *behind;                 /* the rest of the work memory */
} turn;

static optim_pass pass_of(const turn *t, int i)
{
    const optim_param *param = &t->u->optimizer->params[t->which[i]];
    return (optim_pass){.u = t->u, .span = &t->spans[t->which[i]], .param = param, .first = param->first};
}

static tess_status compute(const turn *t)
{
    const tess_optimizer *o = t->u->optimizer;
    const tess_matrix_exchange *x = &o->exchange;
    int own = x->rank;
    bool alone = x->n_ranks == 1;
    const tess_span *span = own < t->n ? &t->spans[t->which[own]] : NULL;
    int64_t rows = span != NULL ? span->shape.dim[0] : 0, columns = span != NULL ? span->shape.dim[1] : 0;
    float *whole = alone ? t->part[0] : t->behind, *work = alone ? t->behind : t->behind + rows * columns;
    const tess_matrix_turn shared = {t->which, t->n, t->part, whole, work};
    if (!alone)
        TESS_TRY(x->gather(x->self, &shared));
    if (span != NULL) {
        muon_matrix m = matrix_at(rows, columns, whole, work);
        TESS_TRY_CTX(orthogonalise(o->stream, &m), "muon: '%s'", span->name);
    }
    return alone ? TESS_OK : x->scatter(x->self, &shared);
}

static tess_status run_turn(turn *t, int64_t all_blocks)
{
    float *at = t->u->optimizer->work;
    for (int i = 0; i < t->n; i++) {
        optim_pass pass = pass_of(t, i);
        TESS_TRY(optim_wait(t->u, t->spans, t->which[i], OPTIM_WEIGHTS));
        t->part[i] = at;
        at += pass.span->n;
        TESS_TRY(direction_of(&pass, t->part[i]));
    }
    t->behind = at;
    TESS_TRY(compute(t));
    for (int i = 0; i < t->n; i++) {
        optim_pass pass = pass_of(t, i);
        pass.changes_weights = true;
        pass.update = apply;
        pass.direction = t->part[i];
        pass.rate = rate_of(t->u, pass.span);
        pass.first += all_blocks;
        TESS_TRY(optim_blocks_run(&pass));
        optim_let_go(t->u, t->spans, t->which[i], OPTIM_WEIGHTS);
    }
    t->n = 0;
    return TESS_OK;
}

static void fetch_all(const optim_update *u, const tess_span *spans, optim_touch touch)
{
    for (int i = 0; i < u->optimizer->n_spans; i++)
        if (u->optimizer->params[i].rule == OPTIM_MUON)
            optim_bring(u, spans, i, touch);
}

tess_status optim_muon(optim_update *u, const tess_span *spans)
{
    const tess_optimizer *o = u->optimizer;
    int64_t all_blocks = 0; /* blocks of all spans that Muon updates */
    turn t = {.u = u, .spans = spans};
    fetch_all(u, spans, OPTIM_MOMENTA);
    for (int i = 0; i < o->n_spans; i++) {
        const optim_param *param = &o->params[i];
        if (param->rule != OPTIM_MUON)
            continue;
        TESS_TRY(optim_wait(u, spans, i, OPTIM_MOMENTA));
        all_blocks += optim_blocks_count(param);
        optim_pass pass = {.u = u,
                           .span = &spans[i],
                           .param = param,
                           .changes_moments = true,
                           .update = momentum,
                           .first = param->first};
        TESS_TRY(optim_blocks_run(&pass));
        optim_let_go(u, spans, i, OPTIM_MOMENTA);
    }
    fetch_all(u, spans, OPTIM_WEIGHTS);
    for (int i = 0; i < o->n_spans; i++) {
        if (o->params[i].rule != OPTIM_MUON)
            continue;
        t.which[t.n++] = i;
        if (t.n == optim_turns(o->exchange.n_ranks))
            TESS_TRY(run_turn(&t, all_blocks));
    }
    return t.n > 0 ? run_turn(&t, all_blocks) : TESS_OK;
}
