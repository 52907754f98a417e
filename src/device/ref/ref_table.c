#include "device/ref/ref_impl.h"

void tess_kernels_ref(tess_kernels *k)
{
    k->name = "ref";
    tess_kernels_ref_gemm(k);
    tess_kernels_gemm_fused(k);
    tess_kernels_ref_attention(k);
    tess_ref_norm(k);
    tess_ref_rope(k);
    tess_ref_glu(k);
    tess_ref_embedding(k);
    tess_ref_cross_entropy(k);
    tess_ref_adamw(k);
    tess_ref_convert(k);
    tess_ref_sums(k);
}
