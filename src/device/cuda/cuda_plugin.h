/* Between the program and libtessera_cuda.so, which holds the kernels and what CUDA's compiler makes of them. The
 * program reaches it through one symbol; it reaches the program through the functions that it is given. */
#ifndef TESS_DEVICE_CUDA_CUDA_PLUGIN_H
#define TESS_DEVICE_CUDA_CUDA_PLUGIN_H

#include "device/gemm_check.h"

#define CUDA_PLUGIN_FILE "libtessera_cuda.so"
#define CUDA_PLUGIN_SYMBOL "tess_cuda_plugin"
enum { CUDA_PLUGIN_VERSION = 1 };

/* The services of the program for the kernels' host code. */
typedef struct cuda_services {
    tess_status (*fail)(const char *file, int line, tess_status status, const char *text);
    const char *(*dtype_name)(tess_dtype dtype);
    tess_status (*gemm_check)(const tess_gemm *g);
    tess_status (*gemm_fused_check)(const tess_gemm_fused *f);
    tess_status (*gemm_fused_by_rows)(tess_stream *s, const tess_gemm_fused *f);
    tess_status (*attention_check)(const tess_attention *a, const tess_attention_grad *g);
    /* The calls of cuda_launch.h. */
    tess_status (*scratch)(tess_stream *s, size_t bytes, void **memory);
    tess_status (*upload)(tess_stream *s, void *to, const void *from, size_t bytes);
    /* The queue of the stream, whose context becomes the thread's. */
    void *(*queue)(tess_stream *s);
    /* Takes the error of a launch: 0 or one of CUDA's. */
    tess_status (*launched)(tess_stream *s, const char *kernel, int error);
} cuda_services;

typedef struct cuda_plugin {
    uint32_t version;          /* CUDA_PLUGIN_VERSION: stands first in every version */
    const char *build;         /* TESS_CUDA_BUILD of both sides: the version, and a digest of the shared headers */
    int cuda;                  /* the version of CUDA that it was built with: 13000 */
    const char *architectures; /* "sm_80 sm_90a" */
    void (*begin)(const cuda_services *services);
    void (*fill)(tess_kernels *table);        /* every row but those that measure a core */
    void (*fill_tensor)(tess_kernels *table); /* those that tensor cores have, over the others */
} cuda_plugin;

#endif
