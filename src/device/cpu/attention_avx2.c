/* Attention on AVX2: 16 queries a pair of registers, products in tiles of 4 rows by 16 columns (8 of the 16 registers).
 */
#include "device/cpu/vec_avx2.h"
#include "device/vmath.h"

#include "device/ref/ref_attention.h"

#define ATTENTION_MR 4
#define ATTENTION_NV 1

static inline void turn_square(vec x[16])
{
    float rows[16][16];
    for (int i = 0; i < 16; i++)
        v_store(rows[i], x[i], 16);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < i; j++) {
            const float other = rows[i][j];
            rows[i][j] = rows[j][i];
            rows[j][i] = other;
        }
    for (int i = 0; i < 16; i++)
        x[i] = v_load(rows[i], 16);
}

#include "device/cpu/attention_backward_vec.h"
#include "device/cpu/attention_forward_vec.h"

void tess_kernels_avx2_attention(tess_kernels *k)
{
    k->attention_forward = forward;
    k->attention_backward = backward;
}
