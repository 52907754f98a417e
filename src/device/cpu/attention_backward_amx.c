#include "device/cpu/attention_impl.h"
void tess_kernels_amx_attention(tess_kernels *k)
{
    k->attention_forward = tess_attention_forward_amx;
}
