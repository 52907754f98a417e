/* The checks of the arguments of attention, which all attention kernels share. */
#ifndef TESS_DEVICE_REF_REF_ATTENTION_H
#define TESS_DEVICE_REF_REF_ATTENTION_H

#include "device/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks the arguments. With `g` it also checks what the backward pass needs: k_len == q_len, and lse.
 * TESS_E_UNSUPPORTED: a dtype other than F32 and BF16. TESS_E_INVALID: numbers of heads that do not divide, an
 * impossible size, a scale that is not positive, or a sequence with fewer keys than queries. */
tess_status tess_attention_check(const tess_attention *a, const tess_attention_grad *g);

/* The soft cap of scores that are not scaled yet, as v_soft_cap takes it. */
typedef struct tess_score_cap {
    float cap, inverse; /* cap 0: none */
} tess_score_cap;

static inline tess_score_cap tess_score_cap_of(const tess_attention *a)
{
    tess_score_cap none = {0, 0}, cap = {a->soft_cap / a->scale, a->scale / a->soft_cap};
    return a->soft_cap != 0 ? cap : none;
}

#ifdef __cplusplus
}
#endif

#endif
