/* A stream whose table has the rows of src/device/cuda, run by the shim, and ref's peak loops. */
#ifndef TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_STREAM_H
#define TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_STREAM_H

#include "device/stream.h"

tess_status cuda_shim_stream(tess_mem *mem, tess_stream **stream);

#endif
