/* The members of a stream that kernels use: table, device, threads and memory. */
#include "device/stream_impl.h"

void tess_stream_destroy(tess_stream **stream)
{
    if (*stream != NULL)
        (*stream)->device->table->stream_destroy(*stream);
    *stream = NULL;
}

const tess_kernels *tess_stream_kernels(const tess_stream *stream)
{
    return stream->kernels;
}

tess_device *tess_stream_device(const tess_stream *stream)
{
    return stream->device;
}

tess_threads *tess_stream_threads(const tess_stream *stream)
{
    return stream->threads;
}

tess_mem *tess_stream_mem(const tess_stream *stream)
{
    return stream->mem;
}
