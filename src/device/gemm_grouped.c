/* Groups of products, computed with the other rows of the stream's table, or with a function that takes several
 * products at a time. */
#include "device/gemm_check.h"

#include <inttypes.h>

#include "device/stream_impl.h"

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

tess_status tess_gemm_grouped_by_rows(tess_stream *s, const tess_gemm_grouped *x)
{
    TESS_TRY(tess_gemm_grouped_check(x));
    for (int64_t i = 0; i < x->n_products; i++) {
        tess_gemm_fused f = x->products[i];
        f.work = x->work;
        TESS_TRY(tess_gemm_is_plain(&f) ? s->kernels->gemm(s, &f.g) : s->kernels->gemm_fused(s, &f));
    }
    return TESS_OK;
}

tess_status tess_ref_gemm_grouped(tess_stream *s, const tess_gemm_grouped *x)
{
    return tess_gemm_grouped_by_rows(s, x);
}

/* ---- Several products at a time ---- */
enum { MOST_ELEMENTS = 1 << 30 };

/* Whether nothing is added to a product, what follows it may follow later, and its sizes allow it. */
static bool may_wait(const tess_gemm_fused *f)
{
    const tess_gemm *g = &f->g;
    const int64_t a = g->lda * (g->trans_a ? g->k : g->m), b = g->ldb * (g->trans_b ? g->n : g->k), c = g->ldc * g->m;
    return f->n_terms == 0 && g->leaf == 0 && (f->then != TESS_THEN_ACT_BACKWARD || f->y != NULL) &&
           a <= MOST_ELEMENTS && b <= MOST_ELEMENTS && c <= MOST_ELEMENTS;
}

/* Returns the product, with its C where what follows reads it. */
static tess_gemm_fused waiting(const tess_gemm_fused *f)
{
    tess_gemm_fused x = *f;
    if (f->then == TESS_THEN_ACT_BACKWARD) {
        x.g.c = f->y;
        x.g.ldc = f->g.n;
    }
    return x;
}

static tess_status multiply_all(tess_stream *s, const tess_gemm_grouped *x, tess_gemm_several *several)
{
    tess_gemm together[TESS_GEMM_SEVERAL];
    int n = 0;
    for (int64_t i = 0; i < x->n_products; i++) {
        tess_gemm_fused f = x->products[i];
        f.work = x->work;
        if (!may_wait(&f)) {
            TESS_TRY(tess_gemm_is_plain(&f) ? s->kernels->gemm(s, &f.g) : s->kernels->gemm_fused(s, &f));
            continue;
        }
        if (f.g.m > 0 && f.g.n > 0)
            together[n++] = waiting(&f).g;
        if (n == TESS_GEMM_SEVERAL) {
            TESS_TRY(several(s, together, n));
            n = 0;
        }
    }
    return n > 0 ? several(s, together, n) : TESS_OK;
}

/* Whether the rows of `next` follow those of `f` wherever what follows reads or writes. */
static bool continues(const tess_gemm_fused *f, const tess_gemm_fused *next)
{
    const size_t bytes = (size_t)(f->g.m * f->g.n) * tess_dtype_size(f->g.c_dtype);
    const void *const ends[] = {f->g.c, f->gate, f->up, f->y}, *const begins[] = {next->g.c, next->gate, next->up,
                                                                                  next->y};
    bool follows =
        f->then == next->then && f->act == next->act && f->g.n == next->g.n && f->g.c_dtype == next->g.c_dtype;
    for (int i = 0; i < 4; i++)
        follows &= ends[i] == NULL ? begins[i] == NULL : begins[i] == (const char *)ends[i] + bytes;
    return follows;
}

/* Rows that follow each other are one call, whichever product they belong to. */
static tess_status follow_all(tess_stream *s, const tess_gemm_grouped *x)
{
    tess_gemm_fused rows = {.then = TESS_THEN_NOTHING};
    for (int64_t i = 0; i < x->n_products; i++) {
        const tess_gemm_fused f = waiting(&x->products[i]);
        if (!may_wait(&x->products[i]) || f.then == TESS_THEN_NOTHING || f.g.m == 0)
            continue;
        if (continues(&rows, &f)) {
            rows.g.m += f.g.m;
            continue;
        }
        TESS_TRY(tess_gemm_follow(s, &rows));
        rows = f;
    }
    return tess_gemm_follow(s, &rows);
}

tess_status tess_gemm_grouped_by(tess_stream *s, const tess_gemm_grouped *x, tess_gemm_several *several)
{
    TESS_TRY(tess_gemm_grouped_check(x));
    TESS_TRY(multiply_all(s, x, several));
    return follow_all(s, x);
}
