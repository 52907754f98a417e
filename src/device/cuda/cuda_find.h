/* Finds libraries of NVIDIA's where packages, CUDA's toolkit and Python's wheels put them. */
#ifndef TESS_DEVICE_CUDA_CUDA_FIND_H
#define TESS_DEVICE_CUDA_CUDA_FIND_H

#include <limits.h>
#include <stdbool.h>

/* Finds the first file of that name (a pattern of glob(3)): in LD_LIBRARY_PATH, then in the usual folders, then in the
 * packages of each python3 in PATH, which is not run. */
bool tess_cuda_find_library(const char *file, char path[PATH_MAX]);

#endif
