/* The interface between the program and libtessera_cuda.so, which contains the kernels and CUDA's runtime. The program
 * calls the plug-in through one symbol. The plug-in calls the program through the functions that it receives. */
#ifndef TESS_DEVICE_CUDA_CUDA_PLUGIN_H
#define TESS_DEVICE_CUDA_CUDA_PLUGIN_H

#include "device/gemm_check.h"

#define CUDA_PLUGIN_FILE "libtessera_cuda.so"
#define CUDA_PLUGIN_SYMBOL "tess_cuda_plugin"
enum { CUDA_PLUGIN_VERSION = 3 };
/* The revision of the plug-in's own kernels on tensor cores, which is part of the kernels' name. It grows when their
 * bits change, or the calls that they compute. 2: products with leaves (model.sum_leaves). 3: all logits at a time, up
 * to TESS_DEVICE_LOGIT_BYTES, so cuBLAS adds the gradient of the head's weight in larger pieces. 4: attention with 32
 * rows a warp, approximate exponentials in the gradient of the loss in bfloat16. 5: products of small experts; cuBLAS
 * may split the sum of a weight's gradient */
enum { CUDA_TENSOR_REVISION = 5 };

/* Functions of the program for the host code of the kernels. */
typedef struct cuda_services {
    tess_status (*fail)(const char *file, int line, tess_status status, const char *text);
    const char *(*dtype_name)(tess_dtype dtype);
    tess_status (*gemm_check)(const tess_gemm *g);
    tess_status (*gemm_fused_check)(const tess_gemm_fused *f);
    tess_status (*gemm_fused_by_rows)(tess_stream *s, const tess_gemm_fused *f);
    tess_status (*gemm_grouped_by_rows)(tess_stream *s, const tess_gemm_grouped *x);
    tess_status (*gemm_grouped_by)(tess_stream *s, const tess_gemm_grouped *x, tess_gemm_several *several);
    tess_status (*attention_check)(const tess_attention *a, const tess_attention_grad *g);
    /* The functions of the same names in cuda_launch.h. */
    tess_status (*scratch)(tess_stream *s, size_t bytes, void **memory);
    tess_status (*upload)(tess_stream *s, void *to, const void *from, size_t bytes);
    /* Returns the queue of the stream, and makes its context current on the thread. */
    void *(*queue)(tess_stream *s);
    /* Converts the error of a launch to a status: 0 or an error number of CUDA. */
    tess_status (*launched)(tess_stream *s, const char *kernel, int error);
} cuda_services;

typedef struct cuda_plugin {
    uint32_t version; /* CUDA_PLUGIN_VERSION. This is the first member in every version. */
    /* TESS_CUDA_BUILD, which must be equal on both sides: the version, and a digest of the shared headers */
    const char *build;
    int cuda;                  /* version of CUDA that the plug-in was built with, such as 13000 */
    const char *architectures; /* such as "sm_80 sm_90a" */
    void (*begin)(const cuda_services *services);
    void (*fill)(tess_kernels *table);        /* fills all rows except those that measure a core */
    void (*fill_tensor)(tess_kernels *table); /* replaces the rows that have a version for tensor cores */
} cuda_plugin;

#endif
