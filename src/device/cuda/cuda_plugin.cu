/* The exported symbol of the plug-in, and the functions of the program that the rows call. */
#include "device/cuda/cuda_plugin.h"

#include <stdarg.h>
#include <stdio.h>

#include "device/cuda/cuda_launch.h"
#include "device/cuda/cuda_rows.h"
#include "device/ref/ref_attention.h"

static const cuda_services *program;

extern "C" {
tess_status tess_fail_at(const char *file, int line, tess_status status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return program->fail(file, line, status, text);
}

const char *tess_dtype_name(tess_dtype dtype)
{
    return program->dtype_name(dtype);
}

tess_status tess_gemm_check(const tess_gemm *g)
{
    return program->gemm_check(g);
}

tess_status tess_gemm_fused_check(const tess_gemm_fused *f)
{
    return program->gemm_fused_check(f);
}

tess_status tess_gemm_fused_by_rows(tess_stream *s, const tess_gemm_fused *f)
{
    return program->gemm_fused_by_rows(s, f);
}

tess_status tess_gemm_grouped_by_rows(tess_stream *s, const tess_gemm_grouped *x)
{
    return program->gemm_grouped_by_rows(s, x);
}

tess_status tess_gemm_grouped_by(tess_stream *s, const tess_gemm_grouped *x, tess_gemm_several *several)
{
    return program->gemm_grouped_by(s, x, several);
}

tess_status tess_attention_check(const tess_attention *a, const tess_attention_grad *g)
{
    return program->attention_check(a, g);
}

int64_t tess_cuda_leaf_bytes(void)
{
    return TESS_CUDA_LEAF_BYTES;
}

tess_status tess_cuda_scratch(tess_stream *s, size_t bytes, void **memory)
{
    return program->scratch(s, bytes, memory);
}

tess_status tess_cuda_upload(tess_stream *s, void *to, const void *from, size_t bytes)
{
    return program->upload(s, to, from, bytes);
}

cudaStream_t tess_cuda_queue(tess_stream *s)
{
    return (cudaStream_t)program->queue(s);
}

tess_status tess_cuda_launched(tess_stream *s, const char *kernel)
{
    return program->launched(s, kernel, (int)cudaGetLastError());
}
}

static void begin(const cuda_services *services)
{
    program = services;
}

static void fill(tess_kernels *table)
{
    tess_kernels_cuda_gemm(table);
    tess_kernels_cuda_attention(table);
    tess_kernels_cuda_elementwise(table);
    tess_kernels_cuda_norm(table);
    tess_kernels_cuda_sums(table);
    tess_kernels_cuda_reduce(table);
    tess_kernels_cuda_embedding(table);
    tess_kernels_cuda_cross_entropy(table);
    tess_kernels_cuda_copies(table);
    tess_kernels_cuda_runs(table);
    tess_kernels_cuda_routing(table);
}

static void fill_tensor(tess_kernels *table)
{
    tess_kernels_cuda_tensor_gemm(table);
    tess_kernels_cuda_tensor_gemm_grouped(table);
    tess_kernels_cuda_tensor_attention_forward(table);
    tess_kernels_cuda_tensor_attention_backward(table);
    tess_kernels_cuda_tensor_cross_entropy(table);
}

extern "C" __attribute__((visibility("default"))) const cuda_plugin tess_cuda_plugin;
const cuda_plugin tess_cuda_plugin = {
    CUDA_PLUGIN_VERSION, TESS_CUDA_BUILD, CUDART_VERSION, TESS_CUDA_CODES, begin, fill, fill_tensor};
