/* Fused products, and groups of products, computed with the other rows of the stream's table. This is their
 * definition, and the implementation for tables that have no faster one.
 *
 * Some products of one kind are computed at a time, as a batch: their first terms, then each further term, then what
 * follows. The gradient of y, which is the product C, is stored in the work space, for a few rows at a time. */
#include "device/gemm_check.h"

#include <inttypes.h>

#include "device/stream_impl.h"

size_t tess_gemm_fused_work(int64_t m, int64_t n, bool terms, tess_then then, tess_dtype c_dtype)
{
    int64_t rows = m < TESS_FUSED_ROWS ? m : TESS_FUSED_ROWS;
    if (then == TESS_THEN_ACT_BACKWARD)
        return (size_t)(rows * n) * tess_dtype_size(c_dtype);
    return terms && c_dtype != TESS_F32 ? (size_t)(m * n) * sizeof(float) : 0;
}

tess_status tess_gemm_fused_check(const tess_gemm_fused *f)
{
    TESS_TRY(tess_gemm_check(&f->g));
    TESS_CHECK(f->n_terms >= 0 && f->n_terms <= TESS_GEMM_TERMS && !f->g.accumulate, TESS_E_INVALID,
               "gemm: %d further terms; at most %d, and no accumulation", f->n_terms, TESS_GEMM_TERMS);
    TESS_CHECK(f->n_terms == 0 || (f->g.bias == NULL && f->then == TESS_THEN_NOTHING), TESS_E_INVALID,
               "gemm: further terms go with neither a bias nor an activation");
    for (int i = 0; i < f->n_terms; i++)
        TESS_CHECK(f->g.leaf == 0 || f->terms[i].k == f->g.k, TESS_E_INVALID,
                   "gemm: terms of %" PRId64 " and %" PRId64 " k; with leaves they are alike", f->g.k, f->terms[i].k);
    if (f->then == TESS_THEN_NOTHING)
        return TESS_OK;
    TESS_CHECK(!f->g.trans_a && f->g.ldc == f->g.n && f->g.c_dtype == f->g.ab_dtype && f->g.leaf == 0, TESS_E_INVALID,
               "gemm: an activation needs A as stored, contiguous rows of C, one dtype and no leaves");
    bool needs = f->then == TESS_THEN_ACT ? f->y != NULL : f->up != NULL;
    TESS_CHECK(needs, TESS_E_INVALID, "gemm: an activation has nowhere to write to");
    return TESS_OK;
}

enum { MOST_TOGETHER = 32, ALIGNMENT = 64 };
_Static_assert(TESS_GROUP_SLACK >= MOST_TOGETHER * ALIGNMENT, "the results of a batch are aligned");

typedef struct batch {
    tess_gemm_fused of[MOST_TOGETHER];    /* all are plain, or have terms, or have the same `then` */
    tess_gemm_fused plain[MOST_TOGETHER]; /* one product of each */
    int n;
    bool grouped; /* even a single product is computed as a group, so that work space does not depend on the rows */
    int64_t rows;
    char *work;
    size_t used; /* bytes of the work space */
} batch;

/* Sets what is read of a batch without products. */
static void empty(batch *b)
{
    b->n = 0;
    b->rows = 0;
    b->used = 0;
}

static tess_status multiply(tess_stream *s, const batch *b, const tess_gemm_fused *plain, int64_t n)
{
    if (n == 1 && !b->grouped)
        return s->kernels->gemm(s, &plain->g);
    return s->kernels->gemm_grouped(
        s, &(tess_gemm_grouped){.products = plain, .n_products = n, .ab_dtype = plain->g.ab_dtype});
}

static tess_status add_term(tess_stream *s, const batch *b, int term)
{
    tess_gemm_fused plain[MOST_TOGETHER];
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        if (b->of[i].n_terms <= term)
            continue;
        const tess_gemm_term *x = &b->of[i].terms[term];
        tess_gemm *g = &plain[n].g;
        plain[n++] = b->plain[i];
        g->accumulate = true;
        g->a = x->a;
        g->lda = x->lda;
        g->b = x->b;
        g->ldb = x->ldb;
        g->k = x->k;
    }
    return n > 0 ? multiply(s, b, plain, n) : TESS_OK;
}

/* Converts the sums of terms to C. */
static tess_status round_sums(tess_stream *s, const tess_gemm *sums, const tess_gemm *g)
{
    int64_t whole = g->ldc == g->n ? g->m : 1; /* rows for each call */
    for (int64_t i = 0; i < g->m; i += whole)
        TESS_TRY(s->kernels->convert(s, &(tess_convert_args){.x = (float *)sums->c + i * g->n,
                                                             .from = TESS_F32,
                                                             .y = (uint16_t *)g->c + i * g->ldc,
                                                             .to = g->c_dtype,
                                                             .n = whole * g->n}));
    return TESS_OK;
}

static tess_status activate(tess_stream *s, const tess_gemm_fused *f, const void *gate, const void *up, void *y,
                            int64_t rows)
{
    int64_t n = f->g.n;
    tess_dtype dtype = f->g.c_dtype;
    if (gate == NULL)
        return s->kernels->act_forward(s,
                                       &(tess_act_args){.x = up, .y = y, .n = rows * n, .act = f->act, .dtype = dtype});
    return s->kernels->glu_forward(
        s, &(tess_glu_args){
               .gate = gate, .up = up, .stride = n, .y = y, .T = rows, .F = n, .act = f->act, .dtype = dtype});
}

static void *row_of(const tess_gemm_fused *f, void *matrix, int64_t row)
{
    return matrix != NULL ? (char *)matrix + (size_t)(row * f->g.n) * tess_dtype_size(f->g.c_dtype) : NULL;
}

/* Replaces rows of up and, if there is one, of the gate by their gradients, for the gradient dy of y. */
static tess_status replace_by_gradients(tess_stream *s, const tess_gemm_fused *f, void *gate, void *up, const void *dy,
                                        int64_t rows)
{
    int64_t n = f->g.n;
    tess_dtype dtype = f->g.c_dtype;
    if (gate == NULL)
        return s->kernels->act_backward(
            s, &(tess_act_grad_args){.x = up, .dy = dy, .dx = up, .n = rows * n, .act = f->act, .dtype = dtype});
    return s->kernels->glu_backward(s, &(tess_glu_grad_args){.gate = gate,
                                                             .up = up,
                                                             .stride = n,
                                                             .dy = dy,
                                                             .dgate = gate,
                                                             .dup = up,
                                                             .dstride = n,
                                                             .T = rows,
                                                             .F = n,
                                                             .act = f->act,
                                                             .dtype = dtype});
}

/* Whether the rows of y continue those of x in memory. */
static bool continues(const tess_gemm_fused *f, const void *x, int64_t rows, const void *y)
{
    return x == NULL ? y == NULL : row_of(f, (void *)(uintptr_t)x, rows) == y;
}

/* Returns how many products from number `first` on have all their rows one after another in memory, and counts those
 * rows. */
static int follow_up(const batch *b, int first, int64_t *rows)
{
    const tess_gemm_fused *f = &b->of[first];
    int n = 0;
    *rows = 0;
    for (; first + n < b->n; n++) {
        const tess_gemm_fused *next = &f[n];
        if (next->g.n != f->g.n || next->act != f->act || !continues(f, f->gate, *rows, next->gate) ||
            !continues(f, f->up, *rows, next->up) || !continues(f, f->y, *rows, next->y) ||
            !continues(f, b->plain[first].g.c, *rows, b->plain[first + n].g.c))
            break;
        *rows += next->g.m;
    }
    return n;
}

/* Computes what follows the products. */
static tess_status follow(tess_stream *s, const batch *b)
{
    int64_t rows;
    for (int i = 0; i < b->n; i += follow_up(b, i, &rows)) {
        const tess_gemm_fused *f = &b->of[i];
        const void *c = b->plain[i].g.c;
        follow_up(b, i, &rows);
        if (f->then == TESS_THEN_ACT)
            TESS_TRY(activate(s, f, f->gate, c, f->y, rows));
        if (f->then != TESS_THEN_ACT_BACKWARD)
            continue;
        if (f->y != NULL)
            TESS_TRY(activate(s, f, f->gate, f->up, f->y, rows));
        TESS_TRY(replace_by_gradients(s, f, f->gate, f->up, c, rows));
    }
    return TESS_OK;
}

static tess_status compute(tess_stream *s, batch *b)
{
    if (b->n == 0)
        return TESS_OK;
    TESS_TRY(multiply(s, b, b->plain, b->n));
    for (int term = 0; term < TESS_GEMM_TERMS; term++)
        TESS_TRY(add_term(s, b, term));
    for (int i = 0; i < b->n; i++)
        if (b->plain[i].g.c_dtype != b->of[i].g.c_dtype)
            TESS_TRY(round_sums(s, &b->plain[i].g, &b->of[i].g));
    if (b->of[0].then != TESS_THEN_NOTHING)
        TESS_TRY(follow(s, b));
    empty(b);
    return TESS_OK;
}

/* Adds `rows` rows of a product to the batch. Their product goes to the work space if it is not C. */
static void add_rows(batch *b, const tess_gemm_fused *f, int64_t row, int64_t rows)
{
    tess_gemm_fused *of = &b->of[b->n], *plain = &b->plain[b->n++];
    *of = *f;
    of->g.m = rows;
    if (row > 0) {
        of->g.a = (const char *)f->g.a + (size_t)(row * f->g.lda) * tess_dtype_size(f->g.ab_dtype);
        of->gate = row_of(f, f->gate, row);
        of->up = row_of(f, f->up, row);
        of->y = row_of(f, f->y, row);
    }
    *plain = (tess_gemm_fused){.g = of->g};
    const bool sums = f->n_terms > 0 && f->g.c_dtype != TESS_F32;
    if (sums || f->then == TESS_THEN_ACT_BACKWARD) {
        plain->g.c_dtype = sums ? TESS_F32 : f->g.c_dtype;
        plain->g.ldc = f->g.n;
        plain->g.c = b->work + b->used;
        b->used += (size_t)(rows * f->g.n) * tess_dtype_size(plain->g.c_dtype);
        b->used = (b->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    b->rows += rows;
}

static bool is_like(const tess_gemm_fused *f, const tess_gemm_fused *other)
{
    return f->then == other->then && (f->n_terms > 0) == (other->n_terms > 0);
}

/* Adds a product to the batch, which is computed when it is full. */
static tess_status add_product(tess_stream *s, batch *b, const tess_gemm_fused *f)
{
    int64_t row = 0;
    if (b->n > 0 && !is_like(f, &b->of[0]))
        TESS_TRY(compute(s, b));
    do {
        int64_t rows = f->g.m - row, left = TESS_FUSED_ROWS - b->rows;
        if (f->then == TESS_THEN_ACT_BACKWARD && rows > left)
            rows = left;
        add_rows(b, f, row, rows);
        row += rows;
        if (b->n == MOST_TOGETHER || (f->then == TESS_THEN_ACT_BACKWARD && b->rows == TESS_FUSED_ROWS))
            TESS_TRY(compute(s, b));
    } while (row < f->g.m);
    return TESS_OK;
}

static bool has_leaves_of_terms(const tess_gemm_fused *f)
{
    return f->n_terms > 0 && f->g.leaf > 0;
}

tess_status tess_gemm_fused_by_rows(tess_stream *s, const tess_gemm_fused *f)
{
    batch b;
    TESS_TRY(tess_gemm_fused_check(f));
    if (has_leaves_of_terms(f))
        return tess_gemm_leaves_by_rows(s, f);
    empty(&b);
    b.grouped = false;
    b.work = f->work;
    TESS_TRY(add_product(s, &b, f));
    return compute(s, &b);
}

tess_status tess_ref_gemm_fused(tess_stream *s, const tess_gemm_fused *f)
{
    return tess_gemm_fused_by_rows(s, f);
}

/* ---- Groups ---- */
tess_status tess_gemm_grouped_check(const tess_gemm_grouped *x)
{
    TESS_CHECK(x->n_products >= 0, TESS_E_INVALID, "gemm_grouped: %" PRId64 " products", x->n_products);
    for (int64_t i = 0; i < x->n_products; i++) {
        const tess_gemm_fused *f = &x->products[i];
        TESS_CHECK(f->g.ab_dtype == x->ab_dtype, TESS_E_INVALID,
                   "gemm_grouped: product %" PRId64 " has operands %s, but the call says %s", i,
                   tess_dtype_name(f->g.ab_dtype), tess_dtype_name(x->ab_dtype));
        TESS_TRY_CTX(tess_gemm_is_plain(f) ? tess_gemm_check(&f->g) : tess_gemm_fused_check(f),
                     "gemm_grouped: product %" PRId64, i);
    }
    return TESS_OK;
}

static bool are_plain(const tess_gemm_grouped *x)
{
    for (int64_t i = 0; i < x->n_products; i++)
        if (!tess_gemm_is_plain(&x->products[i]))
            return false;
    return true;
}

tess_status tess_gemm_grouped_by_rows(tess_stream *s, const tess_gemm_grouped *x)
{
    batch b;
    TESS_TRY(tess_gemm_grouped_check(x));
    if (are_plain(x)) {
        for (int64_t i = 0; i < x->n_products; i++)
            TESS_TRY(s->kernels->gemm(s, &x->products[i].g));
        return TESS_OK;
    }
    empty(&b);
    b.grouped = true;
    b.work = x->work;
    for (int64_t i = 0; i < x->n_products; i++)
        TESS_TRY(has_leaves_of_terms(&x->products[i]) ? s->kernels->gemm_fused(s, &x->products[i])
                                                      : add_product(s, &b, &x->products[i]));
    return compute(s, &b);
}

tess_status tess_ref_gemm_grouped(tess_stream *s, const tess_gemm_grouped *x)
{
    return tess_gemm_grouped_by_rows(s, x);
}
