#include "device/cuda_shim/cuda_shim_stream.h"

#include "device/cuda/cuda_rows.h"
#include "device/device.h"
#include "device/stream_impl.h"

#ifdef TESS_TEST_PTX /* The interpreter knows which memory holds no value. */
#include "device/ptx/ptx_heap.h"
#define FORGET(memory, bytes) ptx_heap_forget(memory, bytes)
#define LEARN(memory, bytes) ptx_heap_learn(memory, bytes)
#else
#define FORGET(memory, bytes)
#define LEARN(memory, bytes)
#endif

tess_status cuda_shim_stream(tess_mem *mem, bool tensor, tess_stream **stream)
{
    static tess_kernels tables[2];
    tess_kernels *table = &tables[tensor];
    TESS_TRY(tess_stream_create(mem, 1, "ref", stream));
    *table = *(*stream)->kernels;
    table->name = tensor ? "cuda-tc" : "cuda";
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
    if (tensor) {
        tess_kernels_cuda_tensor_gemm(table);
        tess_kernels_cuda_tensor_gemm_grouped(table);
        tess_kernels_cuda_tensor_attention_forward(table);
        tess_kernels_cuda_tensor_attention_backward(table);
        tess_kernels_cuda_tensor_cross_entropy(table);
    }
    (*stream)->kernels = table;
    return TESS_OK;
}

static int64_t leaf_bytes = TESS_CUDA_LEAF_BYTES;

void cuda_shim_limit_leaves(int64_t bytes)
{
    leaf_bytes = bytes > 0 ? bytes : TESS_CUDA_LEAF_BYTES;
}

int64_t tess_cuda_leaf_bytes(void)
{
    return leaf_bytes;
}

/* The functions that the rows ask for (cuda_launch.h). */
tess_status tess_cuda_scratch(tess_stream *stream, size_t bytes, void **memory);
tess_status tess_cuda_scratch(tess_stream *stream, size_t bytes, void **memory)
{
    TESS_TRY(tess_stream_scratch(stream, bytes, memory));
    FORGET(*memory, bytes);
    return TESS_OK;
}

tess_status tess_cuda_upload(tess_stream *stream, void *to, const void *from, size_t bytes);
tess_status tess_cuda_upload(tess_stream *stream, void *to, const void *from, size_t bytes)
{
    LEARN(to, bytes);
    return tess_upload(stream, to, from, bytes);
}

struct CUstream_st *tess_cuda_queue(tess_stream *stream);
struct CUstream_st *tess_cuda_queue(tess_stream *stream)
{
    (void)stream;
    return NULL;
}

tess_status tess_cuda_launched(tess_stream *stream, const char *kernel);
tess_status tess_cuda_launched(tess_stream *stream, const char *kernel)
{
    (void)stream;
    (void)kernel;
    return TESS_OK;
}
