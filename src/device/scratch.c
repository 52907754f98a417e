/* Scratch memory of a stream. It is a separate file, because kernels use it, but not the code that chooses kernels. */
#include "device/stream_impl.h"

static tess_status grow(tess_device *device, size_t bytes, void **block, size_t *block_bytes)
{
    if (*block != NULL && bytes <= *block_bytes)
        return TESS_OK;
    /* The old content is not needed. It is freed first, so that the pool's peak counts one block only. */
    tess_device_free(device, *block);
    *block = NULL;
    *block_bytes = 0;
    TESS_TRY(tess_device_alloc(device, TESS_POOL_ACTIVATIONS, bytes, "kernel scratch", block));
    *block_bytes = bytes;
    return TESS_OK;
}

tess_status tess_stream_scratch(tess_stream *s, size_t bytes, void **scratch)
{
    TESS_TRY(grow(s->device, bytes, &s->scratch, &s->scratch_bytes));
    *scratch = s->scratch;
    return TESS_OK;
}

tess_status tess_stream_outer_scratch(tess_stream *s, size_t bytes, void **scratch)
{
    TESS_TRY(grow(s->device, bytes, &s->outer_scratch, &s->outer_scratch_bytes));
    *scratch = s->outer_scratch;
    return TESS_OK;
}

tess_status tess_stream_wide_scratch(tess_stream *s, size_t bytes, void **scratch)
{
    TESS_TRY(grow(s->device, bytes, &s->wide_scratch, &s->wide_scratch_bytes));
    *scratch = s->wide_scratch;
    return TESS_OK;
}
