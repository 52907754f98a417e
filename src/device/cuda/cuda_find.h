/* Finds NVIDIA's libraries in the folders where packages, CUDA's toolkit and Python's wheels install them. */
#ifndef TESS_DEVICE_CUDA_CUDA_FIND_H
#define TESS_DEVICE_CUDA_CUDA_FIND_H

#include <limits.h>
#include <stdbool.h>

/* Finds the first file with this name (a pattern of glob(3)). It searches LD_LIBRARY_PATH, then the usual folders, then
 * the packages of each python3 in PATH, without running it. */
bool tess_cuda_find_library(const char *file, char path[PATH_MAX]);

#endif
