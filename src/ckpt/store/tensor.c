#include "ckpt/store/tensor.h"

#include <stdio.h>
#include <string.h>

#include "ckpt/store/store_impl.h"

void tess_store_tensor_name(tess_ckpt_kind kind, const char *parameter, char name[TESS_STORE_NAME])
{
    static const char *const prefixes[] = {"model.", "optimizer.", "optimizer."};
    static const char *const suffixes[] = {"", ".exp_avg", ".exp_avg_sq"};
    snprintf(name, TESS_STORE_NAME, "%s%s%s", prefixes[kind], parameter, suffixes[kind]);
}

const char *tess_store_dtype_text(tess_dtype dtype)
{
    static const char *const texts[TESS_DTYPE_COUNT] = {"F32", "BF16", "F16", "I32", "I64", "U8"};
    return dtype < TESS_DTYPE_COUNT ? texts[dtype] : NULL;
}

const float *tess_ckpt_primary_data(const tess_ckpt_tensor *tensor)
{
    if (tensor->primary_rows == 0)
        return tensor->data;
    return tensor->data + (tensor->primary_begin - tensor->row_begin) * tess_shape_row_count(&tensor->shape);
}

tess_status tess_ckpt_check_tensors(const tess_ckpt_tensor *tensors, int n_tensors)
{
    TESS_CHECK(n_tensors >= 0, TESS_E_INVALID, "%d tensors in a checkpoint", n_tensors);
    for (int i = 0; i < n_tensors; i++) {
        const tess_ckpt_tensor *t = &tensors[i];
        int64_t rows = tess_shape_rows(&t->shape);
        bool held = t->row_begin >= 0 && t->n_rows >= 0 && (t->n_rows == 0 || t->row_begin + t->n_rows <= rows);
        bool primary = t->primary_rows == 0 || (t->primary_rows > 0 && t->primary_begin >= t->row_begin &&
                                                t->primary_begin + t->primary_rows <= t->row_begin + t->n_rows);
        TESS_CHECK(held && primary && strlen(t->name) < TESS_STORE_NAME - 32, TESS_E_INVALID,
                   "checkpoint: tensor '%.1000s' of %lld rows: this rank holds [%lld, +%lld) and owns [%lld, +%lld)",
                   t->name, (long long)rows, (long long)t->row_begin, (long long)t->n_rows, (long long)t->primary_begin,
                   (long long)t->primary_rows);
    }
    return TESS_OK;
}
