/* The structures of an NVIDIA device and its streams, for the files of this folder. */
#ifndef TESS_DEVICE_CUDA_CUDA_IMPL_H
#define TESS_DEVICE_CUDA_CUDA_IMPL_H

#include "device/cuda/cuda_driver.h"
#include "device/cuda/cuda_plugin.h"
#include "device/stream_impl.h"

typedef struct cuda_products cuda_products;

typedef struct cuda_device {
    tess_device base;
    const cuda_driver *cu;
    const cuda_plugin *plugin;
    cuda_context context;       /* the GPU's primary context, which CUDA's runtime in the plug-in uses, too */
    bool tensor_cores;          /* whether bfloat16 takes tensor cores, and approximate exponentials in gradients of the
                                 * loss; otherwise all kernels have the bits of `ref` */
    char kernels[40];           /* the table's name, which says what its bits depend on (docs/gpu.md) */
    cuda_products *products;    /* NULL: cuBLAS is not installed or not wanted */
    const char *_Atomic newest; /* name of the kernel that was enqueued last, for messages */
} cuda_device;

typedef struct cuda_stream {
    tess_stream base;
    tess_kernels table, own; /* own: the plug-in's rows, without those of cuBLAS */
    cuda_queue queue;
    char *uploads;     /* (UPLOAD_BYTES) pinned memory; NULL: not yet allocated */
    size_t uploaded;   /* number of its bytes that the queue may still read */
    cuda_address done; /* the GPU's address of the log's `done`; 0: no log */
} cuda_stream;

/* cuda_context.c. tess_cuda_enter makes the device's context current on the thread; calls that depend on it come after.
 * tess_cuda_check_call fails if `error`, which a call of the driver returned, is not 0. If enqueued work failed, the
 * message names the newest kernel. */
tess_status tess_cuda_enter(const cuda_device *device);
tess_status tess_cuda_check_call(const cuda_device *device, int error, const char *what);

/* cuda_log.c. tess_cuda_note adds an operation to the stream's log. tess_cuda_mark makes the GPU write how many
 * operations it has finished; it is called before the host waits, and before other queues may wait.
 * tess_cuda_log_stream is the function of the device's table. */
void tess_cuda_note(tess_stream *stream, const char *what, size_t bytes);
void tess_cuda_mark(tess_stream *stream);
tess_status tess_cuda_log_stream(tess_stream *stream);

#endif
