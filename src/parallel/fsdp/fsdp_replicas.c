/* What several ranks hold alike, for the checks that it still is. */
#include <string.h>

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
    size_t own = p->full_offset + (size_t)((p->own.begin[0] - p->part.begin[0]) * p->row);
    return (const char *)slot->data + own * tess_dtype_size(unit->fsdp->policy.param_dtype);
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

tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at)
{
    enum { AT_ONCE = 8192 };
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = &unit->params[fsdp->params[index].index];
    const char *copy = own_rows_of_copy(unit, p);
    const float *master = unit->master + p->master_offset + (p->own.begin[0] - p->held.begin[0]) * p->row;
    tess_dtype dtype = fsdp->policy.param_dtype;
    size_t size = tess_dtype_size(dtype);
    int64_t n = copy != NULL ? p->own.size[0] * p->row : 0;
    tess_stream *stream = NULL;
    char rounded[AT_ONCE * sizeof(float)];
    *at = -1;
    TESS_TRY(tess_fsdp_stream(fsdp, &stream));
    for (int64_t begin = 0; begin < n && *at < 0; begin += AT_ONCE) {
        int64_t now = n - begin < AT_ONCE ? n - begin : AT_ONCE;
        TESS_TRY(tess_stream_kernels(stream)->convert(stream, master + begin, TESS_F32, rounded, dtype, now));
        int64_t found = first_difference(copy + (size_t)begin * size, rounded, now, size);
        *at = found >= 0 ? tess_fsdp_element(p, &p->own, begin + found) : -1;
    }
    return TESS_OK;
}
