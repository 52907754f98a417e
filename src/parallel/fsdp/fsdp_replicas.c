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

enum { AT_ONCE = 8192 };

/* `room`: of the device, NULL on the host. */
static tess_status round_block(const tess_fsdp *fsdp, const float *master, int64_t n, void *room, char *rounded)
{
    tess_dtype dtype = fsdp->policy.param_dtype;
    TESS_TRY(tess_stream_kernels(fsdp->stream)
                 ->convert(fsdp->stream, master, TESS_F32, room != NULL ? room : rounded, dtype, n));
    return room != NULL ? tess_fetch(fsdp->stream, rounded, room, (size_t)n * tess_dtype_size(dtype)) : TESS_OK;
}

static tess_status find_difference(tess_fsdp *fsdp, const float *master, const char *copy, int64_t n, float *room,
                                   int64_t *found)
{
    size_t size = tess_dtype_size(fsdp->policy.param_dtype);
    char rounded[AT_ONCE * sizeof(float)], copied[AT_ONCE * sizeof(float)];
    for (int64_t begin = 0; begin < n && *found < 0; begin += AT_ONCE) {
        int64_t now = n - begin < AT_ONCE ? n - begin : AT_ONCE;
        const void *seen;
        TESS_TRY(round_block(fsdp, master + begin, now, room, rounded));
        TESS_TRY(tess_view(fsdp->stream, copy + (size_t)begin * size, (size_t)now * size, copied, &seen));
        int64_t at = first_difference(seen, rounded, now, size);
        *found = at >= 0 ? begin + at : -1;
    }
    return TESS_OK;
}

tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at)
{
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = &unit->params[fsdp->params[index].index];
    const char *copy = own_rows_of_copy(unit, p);
    const float *master = unit->master + p->master_offset + (p->own.begin[0] - p->held.begin[0]) * p->row;
    int64_t n = copy != NULL ? p->own.size[0] * p->row : 0;
    tess_stream *stream = NULL;
    float *room = NULL;
    int64_t found = -1;
    *at = -1;
    TESS_TRY(tess_fsdp_stream(fsdp, &stream));
    if (fsdp->device != NULL && n > 0)
        TESS_TRY(tess_fsdp_alloc(fsdp, TESS_POOL_MISC, AT_ONCE, "rounded weights", &room));
    tess_status status = find_difference(fsdp, master, copy, n, room, &found);
    if (room != NULL)
        tess_fsdp_free(fsdp, room);
    *at = found >= 0 ? tess_fsdp_element(p, &p->own, found) : -1;
    return status;
}
