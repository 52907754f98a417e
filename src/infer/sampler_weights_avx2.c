/* tess_weight_sum_of with AVX2: the flags come from the name of this file. */
#include "infer/sampler_weights.h"

tess_weight_sum tess_weight_sum_avx2(const float *logits, int64_t n, double inv_temperature, bool want_sum,
                                     bool *broken)
{
    return tess_weight_sum_of(logits, n, inv_temperature, want_sum, broken);
}
