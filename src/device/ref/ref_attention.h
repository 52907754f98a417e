/* The checks of the arguments of every attention kernel, once, in one place. */
#ifndef TESS_DEVICE_REF_REF_ATTENTION_H
#define TESS_DEVICE_REF_REF_ATTENTION_H

#include "device/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TESS_E_UNSUPPORTED: a dtype other than F32 and BF16. TESS_E_INVALID: heads that do not divide, an impossible size, a
 * scale that is not positive, a sequence with fewer keys than queries. With `g`, also what the backward pass needs:
 * k_len == q_len, lse. */
tess_status tess_attention_check(const tess_attention *a, const tess_attention_grad *g);

#ifdef __cplusplus
}
#endif

#endif
