/* How far a queue has come: the GPU itself writes the number of the newest operation that it has finished into the log,
 * which is pinned memory of the host. A write costs about a microsecond, so there is one for every few operations, and
 * one wherever the host or another queue may come to wait. */
#include "device/cuda/cuda_impl.h"

enum { MARK_EVERY = 8 };

void tess_cuda_mark(tess_stream *stream)
{
    cuda_stream *s = (cuda_stream *)stream;
    const cuda_device *d = (const cuda_device *)stream->device;
    if (s->done == 0)
        return;
    uint64_t enqueued = atomic_load_explicit(&stream->log->enqueued, memory_order_relaxed);
    if (enqueued == atomic_load_explicit(&stream->log->marked, memory_order_relaxed))
        return;
    atomic_store_explicit(&stream->log->marked, enqueued, memory_order_release);
    d->cu->queue_write(s->queue, s->done, (uint32_t)enqueued, 0); /* its error is the next call's, too */
}

void tess_cuda_note(tess_stream *stream, const char *what, size_t bytes)
{
    if (((cuda_stream *)stream)->done == 0)
        return;
    tess_stream_log_add(stream->log, what, bytes);
    if (atomic_load_explicit(&stream->log->enqueued, memory_order_relaxed) % MARK_EVERY == 0)
        tess_cuda_mark(stream);
}

/* The first write shows whether the driver has such writes at all: a log that never moves would name the wrong
 * operation.
 */
tess_status tess_cuda_log_stream(tess_stream *stream)
{
    cuda_stream *s = (cuda_stream *)stream;
    const cuda_device *d = (const cuda_device *)stream->device;
    cuda_address done;
    stream->log->stride = MARK_EVERY;
    TESS_TRY(tess_cuda_enter(d));
    TESS_TRY(
        tess_cuda_check_call(d, d->cu->host_address(&done, (void *)&stream->log->done, 0), "find memory of the host"));
    TESS_TRY(
        tess_cuda_check_call(d, d->cu->queue_write(s->queue, done, 0, 0), "have a queue write to memory of the host"));
    s->done = done;
    return TESS_OK;
}
