/* The members of a stream, for kernels and devices. Devices put this first in their own structure. */
#ifndef TESS_DEVICE_STREAM_IMPL_H
#define TESS_DEVICE_STREAM_IMPL_H

#include "device/device.h"

struct tess_stream {
    const tess_kernels *kernels;
    tess_device *device;
    tess_threads *threads;
    tess_mem *mem;
    tess_stream_log *log;                         /* NULL: there is no log */
    void *scratch, *outer_scratch, *wide_scratch; /* one block each; see tess_stream_scratch */
    size_t scratch_bytes, outer_scratch_bytes, wide_scratch_bytes;
};

/* The members of an event. Devices put this first in their own structure, too. */
struct tess_event {
    tess_device *device;
};

/* Returns work space of the stream's device of at least `bytes`, aligned to 64. It is valid until the next kernel on
 * this stream requests work space, so only within one kernel. It grows and is kept (activations pool). */
tess_status tess_stream_scratch(tess_stream *stream, size_t bytes, void **scratch);
/* The outer one is for kernels that call other kernels: it is separate from theirs. The one for widened operands
 * (widen.c) is separate from both. */
tess_status tess_stream_outer_scratch(tess_stream *stream, size_t bytes, void **scratch);
tess_status tess_stream_wide_scratch(tess_stream *stream, size_t bytes, void **scratch);

/* Called before the stream is destroyed, when all its operations are done. */
void tess_stream_log_close(tess_stream *stream);

#endif
