/* Devices and streams, for engines whose weights are in the memory of a GPU.
 *
 * A device has memory of its own, and streams. The kernels and copies of one stream run one after the other. On the
 * host ("cpu") memory is that of tess_mem, and every call is complete when it returns. On a GPU, calls only enqueue,
 * and the host waits with tess_fetch or tess_stream_synchronize. "far" is a device for tests: its memory is the host's,
 * but the host may not touch it.
 *
 *     tess_device_open(tess_runtime_mem(runtime), "cuda", local_rank, &device);
 *     tess_device_stream(device, tess_runtime_threads(runtime), tess_runtime_kernels(runtime), &stream);
 *     tess_runtime_use_device(runtime, device, stream);   (tessera/runtime.h: collectives take its memory)
 *     tess_fsdp_set_stream(fsdp, stream);                 (tessera/fsdp.h: shards and parameters are there)
 *
 * If an enqueued operation fails, the next call that waits for its stream returns the error. Until then the stream's
 * later operations are dropped. Every call that uses a GPU can return the GPU's own errors:
 *   TESS_E_DEVICE                      its hardware failed
 *   TESS_E_INTERNAL, TESS_E_TIMEOUT    a kernel failed, or ran longer than the driver allows
 * Thread-safe, but only one thread at a time may use a stream. */
#ifndef TESSERA_DEVICES_H
#define TESSERA_DEVICES_H

#include "tessera/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_device tess_device;
typedef struct tess_stream tess_stream;

/* Opens a device. Close it with tess_device_close.
 * mem     the host's memory; borrowed until the device is closed
 * name    "cpu", "far", "cuda" or "cuda:1"; NULL: the one that TESSERA_DEVICE names, otherwise "cpu"
 * number  the caller's index among the processes of its host that open the same name; it selects a GPU
 *   TESS_E_INVALID                        unknown name
 *   TESS_E_UNSUPPORTED, TESS_E_NOT_FOUND  this build or this machine lacks the device; the message says what to install
 */
TESS_API tess_status tess_device_open(tess_mem *mem, const char *name, int number, tess_device **device);
/* Closes the device and nulls the handle. Destroy its streams, and what was made on them, before. Returns the number of
 * memory blocks that were never freed, normally 0. Blocks of the host device are counted in its pools instead. */
TESS_API size_t tess_device_close(tess_device **device);

/* Allocates zeroed memory of the device, aligned to 64 bytes, counted in the device's pool. Free it with
 * tess_device_free, which waits for the enqueued operations of the device; NULL is allowed there.
 * TESS_E_NOMEM: the message names `what`, the pool and the size */
TESS_API tess_status tess_device_alloc(tess_device *device, tess_pool pool, size_t bytes, const char *what, void **out);
TESS_API void tess_device_free(tess_device *device, void *memory);

/* Create a stream of a device, or of the host whose memory is `mem`. Destroy it with tess_stream_destroy.
 * n_threads  number of threads for loops of the host, including the caller's
 * kernels    "ref", "avx2", "avx512", "avx512_bf16" or "amx"; NULL: TESSERA_CPU, or the best table of this machine
 *   TESS_E_INVALID      unknown kernels, or fewer than 1 thread
 *   TESS_E_UNSUPPORTED  this machine cannot run these kernels
 *   TESS_E_NOMEM        memory ran out */
TESS_API tess_status tess_device_stream(tess_device *device, int n_threads, const char *kernels, tess_stream **stream);
TESS_API tess_status tess_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream);
/* Waits until the enqueued operations are done, frees the stream and nulls the handle. NULL is allowed. */
TESS_API void tess_stream_destroy(tess_stream **stream);

/* Enqueues a copy from host to device, for small data. `from` may be changed when this returns.
 * TESS_E_INVALID: `to` is freed memory, or the range goes beyond its block; the message names the block */
TESS_API tess_status tess_upload(tess_stream *stream, void *to, const void *from, size_t bytes);
/* Copies from device to host after all enqueued operations, and waits until `to` has the values.
 * TESS_E_INVALID: `from` is freed memory, or the range goes beyond its block; the message names the block */
TESS_API tess_status tess_fetch(tess_stream *stream, void *to, const void *from, size_t bytes);
/* Waits until all enqueued operations are done. */
TESS_API tess_status tess_stream_synchronize(tess_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
