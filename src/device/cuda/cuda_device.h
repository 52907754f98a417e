/* NVIDIA GPUs, in two parts:
 *
 *   driver   memory, queues, events and the meaning of errors. It is C in the program, with our own declarations.
 *            libcuda.so.1 is opened when a GPU is first used, so the program links no CUDA (cuda_driver.h).
 *   rows     libtessera_cuda.so. nvcc builds it, if installed, with CUDA's runtime inside. The two parts share one
 *            symbol and a digest of their common headers (cuda_plugin.h).
 *
 * The rows give the same bits as `ref` (apart from the bits of a NaN). That includes products and attention, which are
 * float32 chains for both element types. In bfloat16 other rows replace these two, unless TESSERA_CUBLAS=off: attention
 * runs on tensor cores (tensor_attention_*.cu), and products run in cublasLt, if it is installed and proves that rows
 * are independent (cuda_products.c), otherwise on tensor cores (tensor_gemm.cu). Tensor cores add in an order of their
 * own, so the table then has another name.
 *
 * Tests compile the rows for the host (tests/device/cuda_shim runs the threads of a block as fibres) and compare them
 * with `ref`. They also run the whole device, with the rows as a plug-in and a driver that simulates GPUs in the host's
 * memory. */
#ifndef TESS_DEVICE_CUDA_CUDA_DEVICE_H
#define TESS_DEVICE_CUDA_CUDA_DEVICE_H

#include "device/device.h"

/* Opens a GPU. "cuda:1" is GPU 1 of those that the process sees (CUDA_VISIBLE_DEVICES). "cuda" is the GPU with index
 * `number`, modulo the number of GPUs. TESS_E_INVALID, TESS_E_NOT_FOUND, TESS_E_UNSUPPORTED: there is no such GPU, or
 * something that it needs is missing, which the message names. */
tess_status tess_cuda_device_open(tess_mem *mem, const char *name, int number, tess_device **device);

/* tess_cuda_device_enter makes the GPU's context current on the calling thread. The next function returns the driver's
 * queue of a stream. Both serve NVIDIA's libraries. TESS_E_INVALID: the device is not an NVIDIA GPU. */
tess_status tess_cuda_device_enter(tess_device *device);
tess_status tess_cuda_stream_queue(tess_stream *stream, void **queue);

#endif
