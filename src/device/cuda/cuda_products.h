/* Products in bfloat16 by cublasLt, on tensor cores, where that is installed: a table of its own, whose bits are those
 * of the GPU and of the library's version. All other products are the plug-in's. */
#ifndef TESS_DEVICE_CUDA_CUDA_PRODUCTS_H
#define TESS_DEVICE_CUDA_CUDA_PRODUCTS_H

#include <stdio.h>

#include "device/cuda/cuda_impl.h"

/* *products NULL: cuBLAS is not installed, or shall not be used. Else the device's kernels are named after it, too. */
tess_status tess_cuda_products_create(cuda_device *device, cuda_products **products);
void tess_cuda_products_destroy(cuda_products **products);

/* Puts its rows into the stream's table. */
void tess_cuda_products_fill(cuda_stream *stream);

/* Writes a line for each plan of a CUDA device: shape, members, and for many and for few rows the chosen member, its
 * algorithm and the milliseconds of a product (0: not timed). Returns how many plans leave the product to the plug-in.
 * Thread-safe. */
int tess_cuda_products_log(const tess_device *device, FILE *to);

#endif
