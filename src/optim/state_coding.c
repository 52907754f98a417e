/* Converts moments between float32, which a step computes with, and a narrower type, in which they are stored.
 * device/moments.h defines the bits. The random numbers for rounding to bfloat16 are a function of (seed, name,
 * moment, step, element in the whole tensor). */
#include <string.h>

#include "base/core/flat.h"
#include "optim/optim_impl.h"

size_t optim_value_bytes(optim_coding coding)
{
    return coding == OPTIM_F32 ? sizeof(float) : coding == OPTIM_BF16 ? sizeof(uint16_t) : 1;
}

static const tess_kernels *kernels_of(const optim_pass *pass)
{
    return tess_stream_kernels(pass->u->optimizer->stream);
}

static int64_t block_of(const optim_param *p, int64_t begin)
{
    int64_t per_run = (p->run + OPTIM_BLOCK - 1) / OPTIM_BLOCK;
    return begin / p->run * per_run + begin % p->run / OPTIM_BLOCK;
}

/* The address of moment k of element `begin`; each element has `bytes` bytes. */
static void *stored_at(const optim_pass *pass, int k, int64_t begin, size_t bytes)
{
    return pass->u->optimizer->state + pass->param->values[k] + (size_t)begin * bytes;
}

/* The address of the largest magnitude of the block that starts at element `begin`. */
static float *most_at(const optim_pass *pass, int k, int64_t begin)
{
    char *absmax = pass->u->optimizer->state + pass->param->absmax[k];
    return (float *)(void *)absmax + block_of(pass->param, begin);
}

/* The number of element `index` of a span in the whole tensor. */
static uint64_t element_of(const tess_span *span, int64_t index)
{
    tess_box element;
    if (span->shape.n_dims == 0)
        return (uint64_t)index;
    const tess_box whole = tess_box_whole(&span->shape);
    tess_flat_slice(span->shape.n_dims, &span->box, index, 1, &element);
    return (uint64_t)tess_flat_offset(span->shape.n_dims, &whole, &element);
}

uint64_t optim_random_of(const optim_update *u, const tess_span *span, int k)
{
    const uint64_t id[] = {tess_hash_text(span->name), (uint64_t)k, (uint64_t)u->step};
    return tess_hash_bytes(id, sizeof(id), 0);
}

tess_status optim_moment_load(const optim_pass *pass, int k, int64_t begin, int n, float *to)
{
    tess_stream *stream = pass->u->optimizer->stream;
    const void *from = stored_at(pass, k, begin, optim_value_bytes(pass->param->coding));
    switch (pass->param->coding) {
    case OPTIM_F32:
        memcpy(to, from, (size_t)n * sizeof(*to));
        break;
    case OPTIM_BF16:
        return kernels_of(pass)->convert(
            stream, &(tess_convert_args){.x = from, .from = TESS_BF16, .y = to, .to = TESS_F32, .n = n});
    case OPTIM_8BIT:
        kernels_of(pass)->decode_8bit(&pass->u->optimizer->maps[k], from, *most_at(pass, k, begin), n, to);
        break;
    }
    return TESS_OK;
}

void optim_moment_store(const optim_pass *pass, int k, int64_t begin, int n, const float *from)
{
    const tess_optimizer *o = pass->u->optimizer;
    void *to = stored_at(pass, k, begin, optim_value_bytes(pass->param->coding));
    switch (pass->param->coding) {
    case OPTIM_F32:
        memcpy(to, from, (size_t)n * sizeof(*from));
        break;
    case OPTIM_BF16: {
        const tess_moment_random random = {o->options.seed, pass->random[k], element_of(pass->span, begin)};
        kernels_of(pass)->round_randomly(&random, from, n, to);
        break;
    }
    case OPTIM_8BIT:
        kernels_of(pass)->encode_8bit(&o->maps[k], from, n, to, most_at(pass, k, begin));
        break;
    }
}
