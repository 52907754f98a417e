/* Computes products of bfloat16 with cublasLt, on tensor cores, if the library is installed. The table then has another
 * name, because its bits depend on the GPU and on the library's version. The plug-in computes all other products. */
#ifndef TESS_DEVICE_CUDA_CUDA_PRODUCTS_H
#define TESS_DEVICE_CUDA_CUDA_PRODUCTS_H

#include <stdio.h>

#include "device/cuda/cuda_impl.h"

/* Sets *products to NULL if cuBLAS is not installed or not to be used. Otherwise adds cuBLAS to the name of the
 * device's kernels. */
tess_status tess_cuda_products_create(cuda_device *device, cuda_products **products);
void tess_cuda_products_destroy(cuda_products **products);

/* Puts the rows of cuBLAS into the stream's table. */
void tess_cuda_products_fill(cuda_stream *stream);

/* Writes a line for each plan of a CUDA device: its shape and members. For many and for few rows it adds the chosen
 * member, its algorithm and the milliseconds of a product (0: not timed). Returns the number of plans whose products
 * the plug-in computes. Thread-safe. */
int tess_cuda_products_log(const tess_device *device, FILE *to);

#endif
