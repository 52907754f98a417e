/* Groups of products (kernel_args.h), computed one product after another. This is their definition, and the
 * implementation for tables that have no faster one. */
#include <inttypes.h>

#include "device/gemm_check.h"
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
