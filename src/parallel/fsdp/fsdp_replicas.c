/* What several ranks hold alike, for the checks that it still is. */
#include <string.h>

#include "device/fp8.h"
#include "parallel/fsdp/fsdp_impl.h"

tess_team *tess_fsdp_replicas_agree(const tess_fsdp *fsdp)
{
    return fsdp->replicated ? fsdp->data_team : fsdp->n_replicas > 1 ? fsdp->replicate_team : NULL;
}

/* The gathered copy of parameter `p` of `unit`, from this rank's own rows on; NULL: none is in use. */
static const char *own_rows_of_copy(const tess_unit *unit, const tess_fsdp_param *p)
{
    const tess_fsdp_slot *slot = unit->slot;
    if (unit->fsdp->direct || slot == NULL || !slot->valid || slot->work != NULL)
        return NULL;
    size_t before_own = (size_t)(p->own.begin[0] - p->part.begin[0]);
    return (const char *)slot->data + p->full_at + before_own * tess_fsdp_row_bytes(unit->fsdp, p);
}

static int64_t first_difference(const char *a, const char *b, int64_t n, size_t size)
{
    if (memcmp(a, b, (size_t)n * size) == 0)
        return -1;
    int64_t i = 0;
    while (memcmp(a + (size_t)i * size, b + (size_t)i * size, size) == 0)
        i++;
    return i;
}

/* A row at a time: it may be codes. */
tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at)
{
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = &unit->params[fsdp->params[index].index];
    const char *copy = own_rows_of_copy(unit, p);
    const float *master = unit->master + p->master_offset + (p->own.begin[0] - p->held.begin[0]) * p->row;
    size_t bytes = tess_fsdp_row_bytes(fsdp, p), size = p->fp8 ? 1 : tess_dtype_size(fsdp->policy.param_dtype);
    int64_t n = copy != NULL && p->row > 0 ? p->own.size[0] : 0;
    char *row = NULL;
    *at = -1;
    if (n == 0)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc(fsdp->mem, TESS_POOL_MISC, bytes, "a row", (void **)&row));
    tess_status status = TESS_OK;
    for (int64_t r = 0; r < n && *at < 0 && status == TESS_OK; r++) {
        if (p->narrow)
            memcpy(row, unit->codes + p->codes_at + (size_t)r * bytes, bytes);
        else
            status = tess_fsdp_convert_rows(fsdp, p, master + r * p->row, 1, row);
        int64_t found = first_difference(copy + (size_t)r * bytes, row, (int64_t)(bytes / size), size);
        if (found >= p->row) /* a scale: its block's first */
            found = (found - p->row) * TESS_FP8_BLOCK;
        if (status == TESS_OK && found >= 0)
            *at = tess_fsdp_element(p, &p->own, r * p->row + found);
    }
    tess_mem_free(fsdp->mem, row);
    return status;
}
