/* A stream: where kernels run. On the CPU it is a thread pool, scratch memory and the kernel table chosen for this
 * machine. Work on one stream is in order; CPU kernels are complete when they return. */
#ifndef TESS_DEVICE_STREAM_H
#define TESS_DEVICE_STREAM_H

#include "base/os/threads.h"
#include "device/kernels.h"

struct tess_stream {
    const tess_kernels *kernels;
    tess_threads *threads;
    tess_mem *mem;
    void *scratch; /* one block, see tess_stream_scratch */
    size_t scratch_bytes;
};

/* `kernels` as in tess_kernels_select. */
tess_status tess_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream);
void tess_stream_destroy(tess_stream **stream);

/* Work space of at least `bytes` (aligned to 64), valid until the next kernel on this stream asks for its own: for the
 * inside of one kernel only. Grows and stays (activations pool). */
tess_status tess_stream_scratch(tess_stream *stream, size_t bytes, void **scratch);

#endif
