/* AdamW over the shards of a tess_fsdp: element-wise, so any cut of the parameters gives the same bits. */
#include "optim/optim_internal.h"

#include <math.h>

struct tess_adamw {
    tess_fsdp *fsdp;
    tess_mem *mem;
    tess_stream *stream, *own_stream;
    tess_adamw_options options;
    float *m, *v;    /* moments of all trainable shards, one after the other */
    size_t *offsets; /* (n_shards) of a shard in them; SIZE_MAX: frozen */
    int n_shards;
};

static size_t count_elements(const tess_shard *shard)
{
    return (size_t)(shard->n_rows * tess_shape_row_count(&shard->shape));
}

static tess_status check_options(const tess_adamw_options *o)
{
    TESS_CHECK(o->beta1 >= 0 && o->beta1 < 1, TESS_E_INVALID, "adamw: beta1 is %g; it must be in [0, 1)",
               (double)o->beta1);
    TESS_CHECK(o->beta2 >= 0 && o->beta2 < 1, TESS_E_INVALID, "adamw: beta2 is %g; it must be in [0, 1)",
               (double)o->beta2);
    TESS_CHECK(o->eps >= 0 && isfinite(o->eps), TESS_E_INVALID, "adamw: eps is %g; it must not be negative",
               (double)o->eps);
    TESS_CHECK(o->weight_decay >= 0 && isfinite(o->weight_decay), TESS_E_INVALID,
               "adamw: weight_decay is %g; it must not be negative", (double)o->weight_decay);
    return TESS_OK;
}

static tess_status alloc_moments(tess_adamw *adamw)
{
    adamw->n_shards = tess_fsdp_shards(adamw->fsdp);
    TESS_TRY(tess_mem_alloc_array(adamw->mem, TESS_POOL_MISC, (size_t)adamw->n_shards, sizeof(size_t), "adamw shards",
                                  (void **)&adamw->offsets));
    size_t n = 0;
    for (int i = 0; i < adamw->n_shards; i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(adamw->fsdp, i, &shard));
        adamw->offsets[i] = shard.trainable ? n : SIZE_MAX;
        n += shard.trainable ? count_elements(&shard) : 0;
    }
    TESS_TRY(tess_mem_alloc_array(adamw->mem, TESS_POOL_OPTIMIZER, n, sizeof(float), "adamw first moments",
                                  (void **)&adamw->m));
    return tess_mem_alloc_array(adamw->mem, TESS_POOL_OPTIMIZER, n, sizeof(float), "adamw second moments",
                                (void **)&adamw->v);
}

tess_status tess_adamw_create(tess_fsdp *fsdp, const tess_adamw_options *options, tess_adamw **out)
{
    *out = NULL;
    TESS_TRY(check_options(options));
    tess_mem *mem = tess_runtime_mem(tess_fsdp_runtime(fsdp));
    tess_adamw *adamw = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*adamw), "adamw", (void **)&adamw));
    *adamw = (tess_adamw){.fsdp = fsdp, .mem = mem, .options = *options};
    tess_status status = alloc_moments(adamw);
    if (status != TESS_OK) {
        tess_adamw_destroy(&adamw);
        return tess_fail_context(status, "adamw");
    }
    *out = adamw;
    return TESS_OK;
}

void tess_adamw_destroy(tess_adamw **handle)
{
    tess_adamw *adamw = *handle;
    if (adamw == NULL)
        return;
    tess_stream_destroy(&adamw->own_stream);
    tess_mem_free(adamw->mem, adamw->v);
    tess_mem_free(adamw->mem, adamw->m);
    tess_mem_free(adamw->mem, adamw->offsets);
    tess_mem_free(adamw->mem, adamw);
    *handle = NULL;
}

void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream)
{
    adamw->stream = stream;
}

static tess_status find_stream(tess_adamw *adamw, tess_stream **stream)
{
    if (adamw->stream == NULL) {
        TESS_TRY(tess_stream_create(adamw->mem, 1, NULL, &adamw->own_stream));
        adamw->stream = adamw->own_stream;
    }
    *stream = adamw->stream;
    return TESS_OK;
}

/* What all shards of a step share. */
typedef struct update {
    tess_stream *stream;
    const tess_adamw_options *options;
    float lr, bias1, bias2, grad_scale;
    tess_dtype param_dtype;
} update;

/* Rows begin .. end (of those held); `copy` gets them too. */
static tess_status update_rows(const update *u, const tess_shard *shard, float *m, float *v, int64_t begin, int64_t end,
                               void *copy)
{
    const tess_adamw_options *o = u->options;
    int64_t row = tess_shape_row_count(&shard->shape), at = begin * row;
    return u->stream->kernels->adamw(
        u->stream, shard->master + at, m + at, v + at, shard->grad + at, (end - begin) * row, u->lr, o->beta1, o->beta2,
        o->eps, shard->decay ? o->weight_decay : 0, u->bias1, u->bias2, u->grad_scale, copy, u->param_dtype);
}

/* The rows whose copy this rank writes lie in the middle of those that it holds. */
static tess_status update_shard(const update *u, const tess_shard *shard, float *m, float *v)
{
    if (shard->copy == NULL)
        return update_rows(u, shard, m, v, 0, shard->n_rows, NULL);
    int64_t begin = shard->copy_begin - shard->row_begin, end = begin + shard->copy_rows;
    TESS_TRY(update_rows(u, shard, m, v, 0, begin, NULL));
    TESS_TRY(update_rows(u, shard, m, v, begin, end, shard->copy));
    return update_rows(u, shard, m, v, end, shard->n_rows, NULL);
}

static tess_status update_all(tess_adamw *adamw, const update *u)
{
    for (int i = 0; i < adamw->n_shards; i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(adamw->fsdp, i, &shard));
        if (!shard.trainable)
            continue;
        TESS_CHECK(shard.grad != NULL, TESS_E_INVALID, "adamw: '%s' has no gradient; call tess_fsdp_step_end first",
                   shard.name);
        size_t offset = adamw->offsets[i];
        TESS_TRY_CTX(update_shard(u, &shard, adamw->m + offset, adamw->v + offset), "adamw: '%s'", shard.name);
    }
    return TESS_OK;
}

tess_status tess_adamw_step(tess_adamw *adamw, int64_t step, float lr, float grad_scale)
{
    TESS_CHECK(step >= 1, TESS_E_INVALID, "adamw: step %lld; the first is 1", (long long)step);
    const tess_adamw_options *o = &adamw->options;
    /* From the float betas that the kernel uses, so that the first step is lr * sign(g) exactly as far as floats go. */
    update u = {.options = o,
                .lr = lr,
                .bias1 = (float)(1 - pow((double)o->beta1, (double)step)),
                .bias2 = (float)(1 - pow((double)o->beta2, (double)step)),
                .grad_scale = grad_scale,
                .param_dtype = tess_fsdp_param_dtype(adamw->fsdp)};
    TESS_TRY(find_stream(adamw, &u.stream));
    TESS_TRY(tess_fsdp_update_begin(adamw->fsdp));
    TESS_TRY(update_all(adamw, &u));
    return tess_fsdp_update_end(adamw->fsdp);
}

void tess_adamw_moments(tess_adamw *adamw, int index, float **m, float **v)
{
    bool there = index >= 0 && index < adamw->n_shards && adamw->offsets[index] != SIZE_MAX;
    *m = there ? adamw->m + adamw->offsets[index] : NULL;
    *v = there ? adamw->v + adamw->offsets[index] : NULL;
}
