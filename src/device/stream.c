#include "device/stream.h"

tess_status tess_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream)
{
    const tess_kernels *table;
    TESS_TRY_CTX(tess_kernels_select(kernels, &table), "create stream");
    TESS_CHECK(n_threads >= 1, TESS_E_INVALID, "create stream: %d threads; it takes at least 1", n_threads);
    void *block;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_stream), "stream", &block));
    tess_stream *s = block;
    s->kernels = table;
    s->mem = mem;
    tess_status status = tess_threads_create(mem, n_threads, &s->threads);
    if (status != TESS_OK) {
        tess_mem_free(mem, s);
        return tess_fail_context(status, "create stream");
    }
    *stream = s;
    return TESS_OK;
}

void tess_stream_destroy(tess_stream **stream)
{
    tess_stream *s = *stream;
    if (s == NULL)
        return;
    tess_threads_destroy(&s->threads);
    tess_mem_free(s->mem, s->scratch);
    tess_mem_free(s->mem, s);
    *stream = NULL;
}
