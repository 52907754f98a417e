/* Functions that compile for the host's kernels and for a GPU's, so that both give the same bits. */
#ifndef TESS_DEVICE_SHARED_CODE_H
#define TESS_DEVICE_SHARED_CODE_H

#ifdef __CUDACC__
#define TESS_SHARED static __host__ __device__ inline
#else
#define TESS_SHARED static inline
#endif

#endif
