/* A stream runs kernels in the order in which they are called. On the host it is a thread pool, scratch memory and the
 * kernel table chosen for this machine, and a kernel is complete when its call returns. On a device it is a queue: a
 * call returns when the kernel is enqueued, and device/device.h says how to wait. One thread at a time may use a
 * stream. On the host several may, for kernels that use neither its threads nor scratch memory. */
#ifndef TESS_DEVICE_STREAM_H
#define TESS_DEVICE_STREAM_H

#include "base/os/threads.h"
#include "device/kernels.h"
#include "tessera/devices.h"

const tess_kernels *tess_stream_kernels(const tess_stream *stream);
tess_device *tess_stream_device(const tess_stream *stream);
tess_threads *tess_stream_threads(const tess_stream *stream); /* threads for loops of the host */
tess_mem *tess_stream_mem(const tess_stream *stream);         /* the host's memory */

#endif
