/* Scratch memory of a stream: kernels ask for it, so it stands apart from what chooses kernels. */
#include "device/stream_impl.h"

tess_status tess_stream_scratch(tess_stream *s, size_t bytes, void **scratch)
{
    if (s->scratch == NULL || bytes > s->scratch_bytes) {
        /* The old content is dead: freeing first keeps the pool's peak at one block. */
        tess_mem_free(s->mem, s->scratch);
        s->scratch = NULL;
        s->scratch_bytes = 0;
        TESS_TRY(tess_mem_alloc(s->mem, TESS_POOL_ACTIVATIONS, bytes, "kernel scratch", &s->scratch));
        s->scratch_bytes = bytes;
    }
    *scratch = s->scratch;
    return TESS_OK;
}
