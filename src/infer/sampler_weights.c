#include "infer/sampler_weights.h"

#include "device/cpuid.h"

static tess_weight_sum sum_of_any(const float *logits, int64_t n, double inv_temperature, bool want_sum, bool *broken)
{
    return tess_weight_sum_of(logits, n, inv_temperature, want_sum, broken);
}

tess_weight_sum_fn tess_weight_sum_select(void)
{
    char missing[256];
    return tess_cpu_supports(CPU_AVX2, missing, sizeof(missing)) ? tess_weight_sum_avx2 : sum_of_any;
}
