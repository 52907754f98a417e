/* Lays out a copy of the model as one run of bytes, and computes the digests of its units. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/core/round_up.h"
#include "rl/sync/weight_sync_impl.h"

enum { ALIGNMENT = 64 };

/* Places the frozen parameters, or the others, from `at` on. Returns their end. */
static size_t place(weight_layout *layout, bool frozen, size_t at)
{
    for (int i = 0; i < tess_model_n_params(layout->model); i++) {
        if (tess_param_is_constant(tess_model_param(layout->model, i)) != frozen)
            continue;
        layout->at[i] = at;
        at += tess_round_up(layout->size[i], ALIGNMENT);
    }
    return at;
}

tess_status weight_layout_create(tess_scope *scope, const tess_model *model, tess_dtype dtype, size_t bucket_bytes,
                                 weight_layout *layout)
{
    const size_t n = (size_t)tess_model_n_params(model);
    *layout = (weight_layout){.model = model};
    TESS_TRY(TESS_NEW_IN(scope, n, "layout of weights", &layout->at));
    TESS_TRY(TESS_NEW_IN(scope, n, "layout of weights", &layout->size));
    for (size_t i = 0; i < n; i++) {
        const tess_param *param = tess_model_param(model, (int)i);
        layout->size[i] = (size_t)tess_shape_count(&param->shape) * tess_dtype_size(tess_param_dtype(param, dtype));
    }
    const size_t frozen = place(layout, true, 0), others = place(layout, false, 0);
    const size_t most = frozen > others ? frozen : others;
    layout->bucket_bytes = bucket_bytes < most ? bucket_bytes : most;
    layout->n_frozen = (int64_t)((frozen + layout->bucket_bytes - 1) / layout->bucket_bytes);
    layout->bytes = place(layout, false, (size_t)layout->n_frozen * layout->bucket_bytes);
    layout->n_buckets = (int64_t)((layout->bytes + layout->bucket_bytes - 1) / layout->bucket_bytes);
    return TESS_OK;
}

int64_t weight_layout_first_bucket(const weight_layout *layout, int64_t n)
{
    return n < WEIGHT_SYNC_COPIES ? 0 : layout->n_frozen;
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
