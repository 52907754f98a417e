/* AdamW, the definition:
 *
 *     p' = p decay   m += (1 - beta1) (g - m)   v = v beta2 + (1 - beta2) g g
 *     p = p' - step m / (sqrt(v) / sqrt(bias2) + eps) */
#include "device/adamw.h"

#include <math.h>
#include <string.h>

#include "device/ref/ref_impl.h"
#include "device/undo.h"

static void record(const tess_adamw_update *u, int64_t i)
{
    float(*old)[TESS_UNDO_BLOCK] = tess_undo_slot(u->undo);
    int64_t n = u->n - i < TESS_UNDO_BLOCK ? u->n - i : TESS_UNDO_BLOCK;
    memcpy(old[0], u->p + i, (size_t)n * sizeof(float));
    memcpy(old[1], u->m + i, (size_t)n * sizeof(float));
    memcpy(old[2], u->v + i, (size_t)n * sizeof(float));
    tess_undo_mark(u->undo, i, n);
}

tess_status tess_ref_adamw(TESS_UNUSED tess_stream *s, const tess_adamw_update *u)
{
    TESS_TRY(tess_check_convert(TESS_F32, u->copy_dtype));
    adamw_step a = adamw_step_of(u);
    float *p = u->p, *m = u->m, *v = u->v;
    for (int64_t i = 0; i < u->n; i++) {
        if (u->undo != NULL && i % TESS_UNDO_BLOCK == 0)
            record(u, i);
        float grad = u->g[i] * a.grad_scale;
        m[i] = m[i] + a.one_minus_beta1 * (grad - m[i]);
        v[i] = v[i] * a.beta2 + a.one_minus_beta2 * grad * grad;
        p[i] = p[i] * a.decay - a.step_size * m[i] / (sqrtf(v[i]) / a.sqrt_bias2 + a.eps);
        if (u->copy != NULL)
            tess_put_float(u->copy, u->copy_dtype, (size_t)i, p[i]);
    }
    return TESS_OK;
}
