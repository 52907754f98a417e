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

#ifdef __cplusplus
}
#endif

#endif
