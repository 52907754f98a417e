/* AdamW. Reads p, m, v, g and writes p, m, v: 28 bytes per element, and 2 or 4 more for a copy of p. Memory bandwidth
 * is the limit. Recording the old values of a block takes 3 stores into L1, whose time is hidden by it. An alternative
 * is slower: copying 512 to 1024 elements of each array before a call without a record made an update take 1.05 to 1.2
 * times as long. */
#include "device/adamw.h"
#include "device/cpu/vec_rows.h"
#include "device/undo.h"

typedef struct adamw_call {
    tess_adamw_update u;
    adamw_step step;
} adamw_call;

TESS_INLINE void adamw_record(tess_undo *undo, int64_t i, int64_t n, vec p, vec m, vec v)
{
    float(*old)[TESS_UNDO_BLOCK] = tess_undo_slot(undo);
    v_store(old[0], p, n);
    v_store(old[1], m, n);
    v_store(old[2], v, n);
    tess_undo_mark(undo, i, n);
}

TESS_INLINE vec adamw_part(const adamw_call *a, int64_t i, int64_t n)
{
    const tess_adamw_update *u = &a->u;
    const adamw_step *c = &a->step;
    const float *const streams[] = {u->g, u->m, u->v, u->p};
    for (int k = 0; k < 4; k++)
        v_ahead(streams[k], i, TESS_F32);
    vec g = v_mul(v_load(u->g + i, n), v_set(c->grad_scale));
    vec m = v_load(u->m + i, n), v = v_load(u->v + i, n), p = v_load(u->p + i, n);
    if (u->undo != NULL)
        adamw_record(u->undo, i, n, p, m, v);
    m = v_add(m, v_mul(v_set(c->one_minus_beta1), v_sub(g, m)));
    v = v_add(v_mul(v, v_set(c->beta2)), v_mul(v_mul(v_set(c->one_minus_beta2), g), g));
    vec denominator = v_add(v_div(v_sqrt(v), v_set(c->sqrt_bias2)), v_set(c->eps));
    p = v_sub(v_mul(p, v_set(c->decay)), v_div(v_mul(v_set(c->step_size), m), denominator));
    v_store(u->m + i, m, n);
    v_store(u->v + i, v, n);
    v_store(u->p + i, p, n);
    return p;
}

TESS_INLINE void adamw_alone(const void *context, int64_t i, int64_t n)
{
    adamw_part(context, i, n);
}

TESS_INLINE void adamw_with_f32(const void *context, int64_t i, int64_t n)
{
    const adamw_call *a = context;
    v_put(a->u.copy, i, adamw_part(a, i, n), n, TESS_F32);
}

TESS_INLINE void adamw_with_bf16(const void *context, int64_t i, int64_t n)
{
    const adamw_call *a = context;
    v_put(a->u.copy, i, adamw_part(a, i, n), n, TESS_BF16);
}

TESS_INLINE void adamw_with_f16(const void *context, int64_t i, int64_t n)
{
    const adamw_call *a = context;
    v_put(a->u.copy, i, adamw_part(a, i, n), n, TESS_F16);
}

static void adamw_loop(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const adamw_call call =
        *(const adamw_call *)context; /* a copy on the stack, so that the stores cannot alias its constants */
    if (call.u.copy == NULL)
        row_each(adamw_alone, &call, begin, end);
    else if (call.u.copy_dtype == TESS_F32)
        row_each(adamw_with_f32, &call, begin, end);
    else if (call.u.copy_dtype == TESS_BF16)
        row_each(adamw_with_bf16, &call, begin, end);
    else
        row_each(adamw_with_f16, &call, begin, end);
}

tess_status VEC_NAME(adamw)(tess_stream *s, const tess_adamw_update *u)
{
    TESS_TRY(tess_check_convert(TESS_F32, u->copy_dtype));
    adamw_call call = {*u, adamw_step_of(u)};
    if (u->undo != NULL)
        adamw_loop(&call, 0, u->n, 0);
    else
        tess_threads_run(s->threads, adamw_loop, &call, u->n, tess_loop_grain(0));
    return TESS_OK;
}
