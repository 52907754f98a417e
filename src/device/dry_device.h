/* A device that computes nothing. It finds how much memory a computation needs. Its kernels are the host's, but their
 * loops do not run, and its memory is addresses without pages. Code of kernels outside of loops runs, on zeros. Its
 * streams count what the kernels would move and compute. */
#ifndef TESS_DEVICE_DRY_DEVICE_H
#define TESS_DEVICE_DRY_DEVICE_H

#include "device/device.h"
#include "device/kernel_rows.h"
#include "device/dry/work_trace.h"

/* Opens the dry counterpart of the device `name` (tess_device_open). tess_device_open calls it if `mem` is dry
 * (base/mem/dry_mem.h). NULL and "cpu": its memory is the host's, counted in the pools of `mem`. Any other name: it has
 * memory of its own. The n_threads of a stream is the number that its kernels request work space for. */
tess_status tess_dry_device_open(tess_mem *mem, const char *name, tess_device **device);

/* Creates a stream of the dry host. tess_stream_create calls it if `mem` is dry. */
tess_status tess_dry_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream);

/* Returns the work space that the stream's kernels have requested so far. */
size_t tess_stream_work_bytes(const tess_stream *stream);

/* Returns the work of all kernels that were called on this stream of a dry device. A kernel that others are composed
 * of is counted once, with its caller. */
tess_kernel_work tess_dry_stream_work(const tess_stream *stream);

/* Makes the stream record its calls in `trace` from now on (borrowed; NULL: no more). If the trace has a timer, the
 * timer runs the first calls of each kind on the operands' memory, which must be there (tess_mem_dry_fill). Streams of
 * other devices ignore it. */
void tess_dry_stream_trace(tess_stream *stream, tess_work_trace *trace);
/* Returns even_experts of the trace of a stream; false: it has no trace, or its device is not dry. */
bool tess_dry_stream_has_even_experts(const tess_stream *stream);

#endif
