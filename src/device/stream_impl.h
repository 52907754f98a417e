/* The members of a stream, for kernels and devices. A device that needs more puts this first in its own structure. */
#ifndef TESS_DEVICE_STREAM_IMPL_H
#define TESS_DEVICE_STREAM_IMPL_H

#include "device/device.h"

struct tess_stream {
    const tess_kernels *kernels;
    tess_device *device;
    tess_threads *threads;
    tess_mem *mem;
    tess_stream_log *log;                         /* NULL: none is kept */
    void *scratch, *outer_scratch, *wide_scratch; /* one block each, see tess_stream_scratch */
    size_t scratch_bytes, outer_scratch_bytes, wide_scratch_bytes;
};

/* The same holds for an event. */
struct tess_event {
    tess_device *device;
};

/* Work space of the stream's device of at least `bytes` (aligned to 64), valid until the next kernel on this stream
 * asks for its own: for the inside of one kernel only. Grows and stays (activations pool). */
tess_status tess_stream_scratch(tess_stream *stream, size_t bytes, void **scratch);
/* The same for a kernel that calls others: apart from theirs. Widened operands (widen.c) are apart from both. */
tess_status tess_stream_outer_scratch(tess_stream *stream, size_t bytes, void **scratch);
tess_status tess_stream_wide_scratch(tess_stream *stream, size_t bytes, void **scratch);

/* Before the stream is destroyed, once all that it was given is done. */
void tess_stream_log_close(tess_stream *stream);

#endif
