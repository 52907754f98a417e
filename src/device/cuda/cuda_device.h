/* NVIDIA GPUs: memory, queues and events of the driver, kernels of the plug-in. */
#ifndef TESS_DEVICE_CUDA_CUDA_DEVICE_H
#define TESS_DEVICE_CUDA_CUDA_DEVICE_H

#include "device/device.h"

/* "cuda:1" is GPU 1 of those that the process sees (CUDA_VISIBLE_DEVICES); "cuda" is number `number`, counted over them
 * again and again. TESS_E_INVALID, TESS_E_NOT_FOUND, TESS_E_UNSUPPORTED: there is no such GPU, or something is missing
 * for its use, which the message names. */
tess_status tess_cuda_device_open(tess_mem *mem, const char *name, int number, tess_device **device);

/* Serves libraries of NVIDIA's: makes the GPU's context the thread's; returns the driver's queue behind a stream.
 * TESS_E_INVALID: the device is not one of NVIDIA's. */
tess_status tess_cuda_device_enter(tess_device *device);
tess_status tess_cuda_stream_queue(tess_stream *stream, void **queue);

#endif
