/* A device that computes nothing, to be asked what a computation would take: its kernels are the host's, whose loops do
 * not run, and its memory is addresses without pages. What kernels do outside of loops they do, on zeros. */
#ifndef TESS_DEVICE_DRY_DEVICE_H
#define TESS_DEVICE_DRY_DEVICE_H

#include "device/device.h"

/* Counts in the pools of `mem`. A stream's n_threads are as many as its kernels are to ask work space for. */
tess_status tess_dry_device_open(tess_mem *mem, tess_device **device);

/* Work space that the stream's kernels have asked for so far. */
size_t tess_stream_work_bytes(const tess_stream *stream);

#endif
