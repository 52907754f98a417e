/* AdamW: reads p, m, v, g and writes p, m, v: 28 bytes an element, and 2 or 4 more for a copy of p. Memory sets the
 * pace: the record of what a block held, 3 stores into the first cache, is hidden behind it. Compiled once per
 * instruction set, by its table. */
#ifndef TESS_DEVICE_CPU_ADAMW_VEC_H
#define TESS_DEVICE_CPU_ADAMW_VEC_H

#include "device/adamw.h"
#include "device/cpu/vec_typed.h"

typedef struct adamw_arrays {
    float *p, *m, *v;
    const float *g;
    void *copy; /* or NULL */
    tess_dtype copy_dtype;
    tess_undo *undo; /* or NULL */
    adamw_step step;
} adamw_arrays;

TESS_INLINE void adamw_record(tess_undo *undo, int64_t i, int64_t n, vec p, vec m, vec v)
{
    float(*old)[TESS_UNDO_BLOCK] = tess_undo_slot(undo);
    v_store(old[0], p, n);
    v_store(old[1], m, n);
    v_store(old[2], v, n);
    tess_undo_mark(undo, i, n);
}

TESS_INLINE vec adamw_part(const adamw_arrays *a, int64_t i, int64_t n)
{
    const adamw_step *c = &a->step;
    const float *const streams[] = {a->g, a->m, a->v, a->p};
    for (int k = 0; k < 4; k++)
        v_ahead(streams[k], i, TESS_F32);
    vec g = v_mul(v_load(a->g + i, n), v_set(c->grad_scale));
    vec m = v_load(a->m + i, n), v = v_load(a->v + i, n), p = v_load(a->p + i, n);
    if (a->undo != NULL)
        adamw_record(a->undo, i, n, p, m, v);
    m = v_add(m, v_mul(v_set(c->one_minus_beta1), v_sub(g, m)));
    v = v_add(v_mul(v, v_set(c->beta2)), v_mul(v_mul(v_set(c->one_minus_beta2), g), g));
    vec denominator = v_add(v_div(v_sqrt(v), v_set(c->sqrt_bias2)), v_set(c->eps));
    p = v_sub(v_mul(p, v_set(c->decay)), v_div(v_mul(v_set(c->step_size), m), denominator));
    v_store(a->m + i, m, n);
    v_store(a->v + i, v, n);
    v_store(a->p + i, p, n);
    return p;
}

TESS_INLINE void adamw_alone(const void *context, int64_t i, int64_t n)
{
    adamw_part(context, i, n);
}

TESS_INLINE void adamw_with_f32(const void *context, int64_t i, int64_t n)
{
    const adamw_arrays *a = context;
    v_put(a->copy, i, adamw_part(a, i, n), n, TESS_F32);
}

TESS_INLINE void adamw_with_bf16(const void *context, int64_t i, int64_t n)
{
    const adamw_arrays *a = context;
    v_put(a->copy, i, adamw_part(a, i, n), n, TESS_BF16);
}

static void adamw_loop(void *context, int64_t begin, int64_t end, int worker)
{
    const adamw_arrays copy = *(const adamw_arrays *)context; /* on the stack: the stores cannot alias its constants */
    (void)worker;
    if (copy.copy == NULL)
        row_each(adamw_alone, &copy, begin, end);
    else if (copy.copy_dtype == TESS_F32)
        row_each(adamw_with_f32, &copy, begin, end);
    else
        row_each(adamw_with_bf16, &copy, begin, end);
}

static tess_status adamw(tess_stream *s, float *p, float *m, float *v, const float *g, int64_t n, float lr, float beta1,
                         float beta2, float eps, float weight_decay, float bias1, float bias2, float grad_scale,
                         void *copy, tess_dtype copy_dtype, tess_undo *undo)
{
    TESS_TRY(tess_check_dtype("adamw", copy_dtype));
    adamw_arrays a = {.p = p, .m = m, .v = v, .g = g, .copy = copy, .copy_dtype = copy_dtype, .undo = undo};
    a.step = adamw_step_of(lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale);
    if (undo != NULL)
        adamw_loop(&a, 0, n, 0);
    else
        tess_threads_run(s->threads, adamw_loop, &a, n, tess_loop_grain(0));
    return TESS_OK;
}

#endif
