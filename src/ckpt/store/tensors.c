/* What saving and loading both ask of a tensor: its names, its rows, its checksum. */
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ckpt/agree.h"
#include "ckpt/store/store_impl.h"

const char *tess_ckpt_stem(tess_ckpt_kind kind)
{
    return kind == TESS_CKPT_WEIGHT ? "model" : "optimizer";
}

void tess_ckpt_tensor_name(const tess_ckpt_tensor *tensor, char *name, size_t size)
{
    static const char *const suffixes[] = {
        [TESS_CKPT_WEIGHT] = "", [TESS_CKPT_EXP_AVG] = ".exp_avg", [TESS_CKPT_EXP_AVG_SQ] = ".exp_avg_sq"};
    snprintf(name, size, "%s%s", tensor->name, suffixes[tensor->kind]);
}

size_t tess_ckpt_row_bytes(const tess_ckpt_tensor *tensor)
{
    return (size_t)tess_shape_row_count(&tensor->shape) * sizeof(float);
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
        TESS_CHECK(held && primary && strlen(t->name) < 1000, TESS_E_INVALID,
                   "checkpoint: tensor '%.1000s' of %lld rows: this rank holds [%lld, +%lld) and owns [%lld, +%lld)",
                   t->name, (long long)rows, (long long)t->row_begin, (long long)t->n_rows, (long long)t->primary_begin,
                   (long long)t->primary_rows);
    }
    return TESS_OK;
}

uint64_t tess_ckpt_checksum(const void *rows, int64_t first, int64_t n, size_t row_bytes)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += XXH3_64bits_withSeed((const char *)rows + (size_t)i * row_bytes, row_bytes, (uint64_t)(first + i));
    return sum;
}

void tess_ckpt_local_checksums(const tess_ckpt_tensor *tensors, int n_tensors, uint64_t *checksums, uint64_t *rows)
{
    for (int i = 0; i < n_tensors; i++) {
        const tess_ckpt_tensor *t = &tensors[i];
        rows[i] = (uint64_t)t->primary_rows;
        checksums[i] =
            tess_ckpt_checksum(tess_ckpt_primary_data(t), t->primary_begin, t->primary_rows, tess_ckpt_row_bytes(t));
    }
}

tess_status tess_ckpt_sum(tess_mem *mem, tess_team *team, uint64_t *values, int n)
{
    uint64_t *sums;
    if (tess_ckpt_world(team) == 1 || n == 0)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n, sizeof(sums[0]), "checksums", (void **)&sums));
    tess_status status = tess_all_reduce(team, values, sums, (size_t)n, TESS_I64, TESS_SUM, NULL);
    if (status == TESS_OK)
        memcpy(values, sums, (size_t)n * sizeof(sums[0]));
    tess_mem_free(mem, sums);
    return status;
}
