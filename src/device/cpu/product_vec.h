/* Computes a tile of a matrix product with the `vec` of the header that was included before. Each element is one chain
 * of FMAs over ascending k, as in the reference, so results are the same bits for each `vec` and each tile shape. */
#ifndef TESS_DEVICE_CPU_PRODUCT_VEC_H
#define TESS_DEVICE_CPU_PRODUCT_VEC_H

#include "device/cpu/gemm_impl.h"

enum { LANES = 16, PRODUCT_ROWS = 12, PRODUCT_VECTORS = 8 /* vectors of the largest tiles */ };

/* A matrix of floats with a stride for its rows and one for its columns. */
typedef struct matrix {
    const float *at;
    int64_t row, column;
} matrix;

/* Computes (mr, 16 nv) elements: c = a b, or c = c * correction + a b if `add` is set. correction has a factor for each
 * lane; NULL: factors of 1. mr and nv are constants. */
static inline __attribute__((always_inline)) void product_tile(const int mr, const int nv, int64_t k, matrix a,
                                                               const float *b, int64_t ldb, float *c, int64_t ldc,
                                                               bool add, const vec *correction)
{
    vec sum[PRODUCT_ROWS][PRODUCT_VECTORS];
    GEMM_UNROLLED
    for (int i = 0; i < mr; i++)
        GEMM_UNROLLED
    for (int j = 0; j < nv; j++) {
        sum[i][j] = add ? v_load(c + i * ldc + j * LANES, LANES) : v_set(0);
        if (correction != NULL)
            sum[i][j] = v_mul(sum[i][j], correction[j]);
    }
    for (int64_t l = 0; l < k; l++) {
        vec row[PRODUCT_VECTORS];
        GEMM_UNROLLED
        for (int j = 0; j < nv; j++)
            row[j] = v_load(b + l * ldb + j * LANES, LANES);
        GEMM_UNROLLED
        for (int i = 0; i < mr; i++) {
            const vec factor = v_set(a.at[i * a.row + l * a.column]);
            GEMM_UNROLLED
            for (int j = 0; j < nv; j++)
                sum[i][j] = v_fma(factor, row[j], sum[i][j]);
        }
    }
    GEMM_UNROLLED
    for (int i = 0; i < mr; i++)
        GEMM_UNROLLED
    for (int j = 0; j < nv; j++)
        v_store(c + i * ldc + j * LANES, sum[i][j], LANES);
}

#endif
