/* The progress of a queue. The GPU writes the number of the newest operation that it has finished into the log, which
 * is pinned memory of the host. A write takes about a microsecond, so only one in several operations is followed by a
 * write. There is also one before each point where the host or another queue may wait. */
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
    d->cu->queue_write(s->queue, s->done, (uint32_t)enqueued, 0); /* if it fails, the next call reports the error */
}

void tess_cuda_note(tess_stream *stream, const char *what, size_t bytes)
{
    if (((cuda_stream *)stream)->done == 0)
        return;
    tess_stream_log_add(stream->log, what, bytes);
    if (atomic_load_explicit(&stream->log->enqueued, memory_order_relaxed) % MARK_EVERY == 0)
        tess_cuda_mark(stream);
}

/* The first write shows whether the driver supports such writes. Without them the log would never change, and would
 * name the wrong operation. */
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
