/* Products in bfloat16 by cublasLt, on tensor cores, where that is installed: a table of its own, whose bits are those
 * of the GPU and of the library's version. All other products are the plug-in's. */
#ifndef TESS_DEVICE_CUDA_CUDA_PRODUCTS_H
#define TESS_DEVICE_CUDA_CUDA_PRODUCTS_H

#include "device/cuda/cuda_impl.h"

/* *products NULL: cuBLAS is not installed, or shall not be used. Else the device's kernels are named after it, too. */
tess_status tess_cuda_products_create(cuda_device *device, cuda_products **products);
void tess_cuda_products_destroy(cuda_products **products);

/* Puts its rows into the stream's table. */
void tess_cuda_products_fill(cuda_stream *stream);

#endif
