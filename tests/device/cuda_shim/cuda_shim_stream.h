/* A stream whose table has the rows of src/device/cuda, run by the shim, and ref's peak loops; `tensor`: those of
 * tensor cores where there are any. */
#ifndef TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_STREAM_H
#define TESS_TESTS_DEVICE_CUDA_SHIM_CUDA_SHIM_STREAM_H

#include <stdlib.h>

#include "device/stream.h"

tess_status cuda_shim_stream(tess_mem *mem, bool tensor, tess_stream **stream);
/* Sets what tess_cuda_leaf_bytes returns; 0: the value of the plug-in. */
void cuda_shim_limit_leaves(int64_t bytes);

/* Fibres take minutes for large products under clang's ASan, and so does the interpreter of PTX; test_device_cuda has
 * every row there, with small ones. */
static inline bool cuda_shim_is_slow(void)
{
#if defined(TESS_TEST_PTX)
    return getenv("TESS_PTX_LARGE") == NULL;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    return true;
#endif
#endif
    return false;
}

#endif
