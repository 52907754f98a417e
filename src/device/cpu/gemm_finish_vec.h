/* The end of a tile of C: adds the bias and writes the sums. Written once in `vec`; include a header of vectors
 * first. */
#ifndef TESS_DEVICE_CPU_GEMM_FINISH_VEC_H
#define TESS_DEVICE_CPU_GEMM_FINISH_VEC_H

#include "device/cpu/gemm_impl.h"
#include "device/cpu/vec_typed.h"

static void finish(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, int64_t columns, const float *sum,
                   int64_t ld)
{
    for (int64_t c = 0; c < columns; c += 16) {
        int64_t n = columns - c < 16 ? columns - c : 16;
        vec bias = g->bias != NULL ? v_get(g->bias, j + c, n, g->ab_dtype) : v_set(0);
        for (int64_t r = 0; r < rows; r++) {
            vec value = v_load(sum + r * ld + c, n);
            v_put(g->c, (i + r) * g->ldc + j + c, g->bias != NULL ? v_add(value, bias) : value, n, g->c_dtype);
        }
    }
}

#endif
