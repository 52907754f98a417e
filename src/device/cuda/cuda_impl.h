/* The structures of a device and a stream of NVIDIA's, for this folder. */
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
    cuda_context context;       /* the GPU's primary one, which CUDA's runtime in the plug-in uses, too */
    bool tensor_cores;          /* bfloat16 by them; else by kernels with the bits of ref */
    char kernels[40];           /* the table's name, which says what its bits depend on (docs/gpu.md) */
    cuda_products *products;    /* NULL: cuBLAS is not there */
    const char *_Atomic newest; /* kernel that was enqueued, for messages */
} cuda_device;

typedef struct cuda_stream {
    tess_stream base;
    tess_kernels table, own; /* own: all rows by the plug-in */
    cuda_queue queue;
    char *uploads;     /* (UPLOAD_BYTES) pinned; NULL: none yet */
    size_t uploaded;   /* bytes of it that the queue may still read */
    cuda_address done; /* the log's, as the GPU reaches it; 0: no log */
} cuda_stream;

/* cuda_context.c. Enter: before every call that works in the context of the thread. Check: what the driver said of a
 * call; an error of enqueued work names the newest kernel. */
tess_status tess_cuda_enter(const cuda_device *device);
tess_status tess_cuda_check_call(const cuda_device *device, int error, const char *what);

/* cuda_log.c. What was enqueued, for the stream's log. Mark: the GPU will write how far it has come; before the host
 * waits, and before others may. `log` is the device's table's. */
void tess_cuda_note(tess_stream *stream, const char *what, size_t bytes);
void tess_cuda_mark(tess_stream *stream);
tess_status tess_cuda_log_stream(tess_stream *stream);

#endif
