/* tess_weight_sum_of compiled for AVX2. The build sets the flags by this file's name. */
#include "infer/sampler_weights.h"

tess_weight_sum tess_weight_sum_avx2(const float *logits, int64_t n, double inv_temperature, bool want_sum,
                                     bool *broken)
{
    return tess_weight_sum_of(logits, n, inv_temperature, want_sum, broken);
}
