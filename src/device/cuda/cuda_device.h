/* NVIDIA GPUs, in two parts.
 *
 *   driver   memory, queues, events, the meaning of errors: C in the program, with declarations of its own.
 *            libcuda.so.1 is opened when a GPU is asked for, so the program links no CUDA (cuda_driver.h).
 *   rows     libtessera_cuda.so, made by nvcc where that is installed, with CUDA's runtime inside. The two parts know
 *            each other by one symbol and a digest of the headers that they share (cuda_plugin.h).
 *
 * The rows have the bits of `ref` (apart from a NaN's own bits), products and attention too, as float32 chains for both
 * element types. In bfloat16 other rows replace these two, unless TESSERA_CUBLAS=off: attention on tensor cores
 * (tensor_attention_*.cu), and products by cublasLt, if it is there and proves that rows are independent
 * (cuda_products.c), or on tensor cores (tensor_gemm.cu). Tensor cores add in an order of their own, so the table then
 * has another name.
 *
 * Tests compile the rows for the host (tests/device/cuda_shim: a block's threads are fibres) and compare them with
 * `ref`. As a plug-in, with a driver that plays GPUs in the host's memory, they run through the whole device. */
#ifndef TESS_DEVICE_CUDA_CUDA_DEVICE_H
#define TESS_DEVICE_CUDA_CUDA_DEVICE_H

#include "device/device.h"

/* "cuda:1" is GPU 1 of those that the process sees (CUDA_VISIBLE_DEVICES); "cuda" is number `number`, counted over them
 * again and again. TESS_E_INVALID, TESS_E_NOT_FOUND, TESS_E_UNSUPPORTED: there is no such GPU, or something is missing
 * for its use, which the message names. */
tess_status tess_cuda_device_open(tess_mem *mem, const char *name, int number, tess_device **device);

/* Serves libraries of NVIDIA's: makes the GPU's context the thread's; returns the driver's queue of a stream.
 * TESS_E_INVALID: the device is not one of NVIDIA's. */
tess_status tess_cuda_device_enter(tess_device *device);
tess_status tess_cuda_stream_queue(tess_stream *stream, void **queue);

#endif
