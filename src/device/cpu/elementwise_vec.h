/* Collects all kernels that are written once in `vec`. A table_<isa>.c includes a header of vectors, then this one, so
 * that one translation unit contains them for that instruction set. */
#ifndef TESS_DEVICE_CPU_ELEMENTWISE_VEC_H
#define TESS_DEVICE_CPU_ELEMENTWISE_VEC_H

#include "device/cpu/adamw_vec.h"
#include "device/cpu/convert_vec.h"
#include "device/cpu/cross_entropy_vec.h"
#include "device/cpu/embedding_vec.h"
#include "device/cpu/fp8_vec.h"
#include "device/cpu/glu_vec.h"
#include "device/cpu/moments_vec.h"
#include "device/cpu/norm_vec.h"
#include "device/cpu/norm_backward_vec.h"
#include "device/cpu/reduce_vec.h"
#include "device/cpu/rope_vec.h"

static void override_elementwise(tess_kernels *k)
{
    k->rmsnorm_forward = rmsnorm_forward;
    k->rmsnorm_backward = rmsnorm_backward;
    k->layernorm_forward = layernorm_forward;
    k->layernorm_backward = layernorm_backward;
    k->rope = rope;
    k->glu_forward = glu_forward;
    k->glu_backward = glu_backward;
    k->act_forward = act_forward;
    k->act_backward = act_backward;
    k->add = add;
    k->scale = scale;
    k->embedding_forward = embedding_forward;
    k->embedding_backward = embedding_backward;
    k->column_sum = column_sum;
    k->cross_entropy = cross_entropy;
    k->adamw = adamw;
    k->convert = convert;
    k->round_fp8 = round_fp8;
    k->reduce = reduce;
    k->copy = copy;
    k->row_sumsq = row_sumsq;
    k->encode_8bit = encode_8bit;
    k->decode_8bit = decode_8bit;
    k->round_randomly = round_randomly;
}

#endif
