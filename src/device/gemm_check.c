#include "device/gemm_check.h"

#include <inttypes.h>

static tess_status check_rows(const char *name, int64_t rows, int64_t columns, int64_t ld)
{
    TESS_CHECK(rows == 0 || ld >= columns, TESS_E_INVALID,
               "gemm: %s has rows of %" PRId64 " elements but a stride of %" PRId64
               "; the stride counts elements, not bytes",
               name, columns, ld);
    return TESS_OK;
}

tess_status tess_gemm_check(const tess_gemm *g)
{
    bool known =
        (g->ab_dtype == TESS_F32 && g->c_dtype == TESS_F32) || ((g->ab_dtype == TESS_BF16 || g->ab_dtype == TESS_F16) &&
                                                                (g->c_dtype == g->ab_dtype || g->c_dtype == TESS_F32));
    TESS_CHECK(known, TESS_E_UNSUPPORTED,
               "gemm: operands %s with result %s; there is float32 with float32, and bfloat16 or float16 with itself "
               "or float32",
               tess_dtype_name(g->ab_dtype), tess_dtype_name(g->c_dtype));
    TESS_CHECK(!g->accumulate || g->c_dtype == TESS_F32, TESS_E_UNSUPPORTED,
               "gemm: cannot accumulate into %s; the result must be float32", tess_dtype_name(g->c_dtype));
    TESS_CHECK(g->m >= 0 && g->n >= 0 && g->k >= 0, TESS_E_INVALID,
               "gemm: negative size (m %" PRId64 ", n %" PRId64 ", k %" PRId64 ")", g->m, g->n, g->k);
    TESS_CHECK(g->leaf >= 0 && g->leaf % TESS_LEAF_UNIT == 0 && (g->leaf == 0 || !g->accumulate), TESS_E_INVALID,
               "gemm: leaves of %" PRId64 "; they are multiples of %d, and go with no accumulation", g->leaf,
               TESS_LEAF_UNIT);
    TESS_TRY(g->trans_a ? check_rows("a", g->k, g->m, g->lda) : check_rows("a", g->m, g->k, g->lda));
    TESS_TRY(g->trans_b ? check_rows("b", g->n, g->k, g->ldb) : check_rows("b", g->k, g->n, g->ldb));
    return check_rows("c", g->m, g->n, g->ldc);
}
