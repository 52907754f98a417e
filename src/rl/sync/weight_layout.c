/* A copy of the model as one run of bytes, and the digests of its units. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "rl/sync/weight_sync_impl.h"

enum { ALIGNMENT = 64 };

tess_status weight_layout_create(tess_mem *mem, const tess_model *model, tess_dtype dtype, size_t bucket_bytes,
                                 weight_layout *layout)
{
    const size_t n = (size_t)tess_model_n_params(model);
    *layout = (weight_layout){.mem = mem, .model = model};
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(size_t), "layout of weights", (void **)&layout->at));
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(size_t), "layout of weights", (void **)&layout->size));
    for (size_t i = 0; i < n; i++) {
        layout->at[i] = layout->bytes;
        layout->size[i] = (size_t)tess_shape_count(&tess_model_param(model, (int)i)->shape) * tess_dtype_size(dtype);
        layout->bytes += (layout->size[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    layout->bucket_bytes = bucket_bytes < layout->bytes ? bucket_bytes : layout->bytes;
    layout->n_buckets = (int64_t)((layout->bytes + layout->bucket_bytes - 1) / layout->bucket_bytes);
    return TESS_OK;
}

void weight_layout_free(weight_layout *layout)
{
    tess_mem_free(layout->mem, layout->at);
    tess_mem_free(layout->mem, layout->size);
}

size_t weight_layout_bucket_size(const weight_layout *layout, int64_t bucket)
{
    const size_t left = layout->bytes - (size_t)bucket * layout->bucket_bytes;
    return left < layout->bucket_bytes ? left : layout->bucket_bytes;
}

uint64_t weight_layout_digest(const weight_layout *layout, int unit, const void *const *w)
{
    int first, n;
    uint64_t digest = 0;
    tess_model_unit_params(layout->model, unit, &first, &n);
    for (int i = 0; i < n; i++)
        digest = XXH3_64bits_withSeed(w[i], layout->size[first + i], digest);
    return digest;
}
