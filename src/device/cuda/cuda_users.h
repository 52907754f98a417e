/* Lists the processes that use a GPU, with NVIDIA's management library (libnvidia-ml.so.1, a part of the driver). */
#ifndef TESS_DEVICE_CUDA_CUDA_USERS_H
#define TESS_DEVICE_CUDA_CUDA_USERS_H

#include <stddef.h>

/* Describes the processes that use the GPU at this address ("0000:10:00.0"), without this process: "process 812
 * (python3) has 70.1 GiB of it, process 813 ...". The text is "" if there are none, or nothing is known. Returns the
 * text's length. Thread-safe. */
size_t tess_cuda_describe_users(const char *place, char *text, size_t size);

#endif
