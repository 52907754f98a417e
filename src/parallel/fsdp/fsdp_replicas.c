/* Finds memory whose content several ranks share, for checks that it is still equal. */
#include <string.h>

#include "parallel/fsdp/fsdp_impl.h"

tess_team *tess_fsdp_holders(const tess_fsdp *fsdp, int index)
{
    if (!tess_fsdp_has_param(fsdp, index))
        return NULL;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    const tess_fsdp_family *family = fsdp->params[index].unit->family;
    bool whole = p->tp.kind != TESS_SHARD && fsdp->topology.n_tp > 1;
    if (family->facts.replicated && !p->narrow)
        return whole ? fsdp->topology.model_team : fsdp->topology.data_team;
    if (family->teams.n_replicas > 1)
        return whole ? family->teams.copies_team : family->teams.replicate_team;
    return whole ? fsdp->topology.tp_team : NULL;
}

/* Returns the gathered copy of parameter `p` of `unit`, beginning with this rank's own rows. NULL: no copy is in
 * use. */
static const char *own_rows_of_copy(const tess_unit *unit, const tess_fsdp_param *p)
{
    const tess_fsdp_slot *slot = unit->slot;
    if (unit->family->facts.direct || slot == NULL || !slot->valid || slot->work != NULL)
        return NULL;
    size_t before_own = (size_t)(p->own.begin[0] - p->part.begin[0]);
    return (const char *)slot->data + p->full_at + before_own * tess_fsdp_row_bytes(p);
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

/* Searches on the host, a row at a time. A row may consist of codes. */
static tess_status find_in_rows(tess_fsdp *fsdp, const tess_unit *unit, const tess_fsdp_param *p, const float *master,
                                const char *copy, int64_t *found)
{
    size_t bytes = tess_fsdp_row_bytes(p), size = tess_dtype_size(p->form->moves);
    char *row = NULL;
    TESS_TRY(tess_mem_alloc(fsdp->place.mem, TESS_POOL_MISC, bytes, "a row", (void **)&row));
    tess_status status = TESS_OK;
    for (int64_t r = 0; r < p->own.size[0] && *found < 0 && status == TESS_OK; r++) {
        if (p->narrow)
            memcpy(row, unit->codes + p->codes_at + (size_t)r * bytes, bytes);
        else
            status = tess_fsdp_convert_rows(&fsdp->place, p, master + r * p->row, 1, row);
        int64_t at = first_difference(copy + (size_t)r * bytes, row, (int64_t)(bytes / size), size);
        if (status == TESS_OK && at >= 0)
            *found = r * p->row + (p->form->element != NULL ? p->form->element(p->row, at) : at);
    }
    tess_mem_free(fsdp->place.mem, row);
    return status;
}

/* Searches on a device, a block at a time. */
enum { AT_ONCE = 8192 };

/* `room` is device memory. */
static tess_status compare_blocks(tess_stream *stream, const tess_wire_form *form, const float *master,
                                  const char *copy, int64_t n, void *room, int64_t *found)
{
    const size_t size = tess_dtype_size(form->moves);
    char rounded[AT_ONCE * sizeof(float)], copied[AT_ONCE * sizeof(float)];
    for (int64_t begin = 0; begin < n && *found < 0; begin += AT_ONCE) {
        int64_t now = n - begin < AT_ONCE ? n - begin : AT_ONCE;
        const void *seen;
        TESS_TRY(form->encode(form, stream, master + begin, 1, now, room));
        TESS_TRY(tess_fetch(stream, rounded, room, (size_t)now * size));
        TESS_TRY(tess_view(stream, copy + (size_t)begin * size, (size_t)now * size, copied, &seen));
        int64_t at = first_difference(seen, rounded, now, size);
        *found = at >= 0 ? begin + at : -1;
    }
    return TESS_OK;
}

static tess_status find_in_blocks(tess_fsdp_place *place, const tess_wire_form *form, const float *master,
                                  const char *copy, int64_t n, int64_t *found)
{
    float *room;
    TESS_TRY(tess_fsdp_alloc(place, TESS_POOL_MISC, AT_ONCE, "rounded weights", &room));
    tess_status status = compare_blocks(place->stream, form, master, copy, n, room, found);
    tess_fsdp_free(place, room);
    return status;
}

tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at)
{
    *at = -1;
    TESS_CHECK(tess_fsdp_has_param(fsdp, index), TESS_E_INVALID, "fsdp: parameter %d of %d", index, fsdp->n_params);
    TESS_CHECK(fsdp->state != TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: copy_differs %d before materialize", index);
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    const char *copy = own_rows_of_copy(unit, p);
    const float *master = unit->master + p->master_offset + (p->own.begin[0] - p->held.begin[0]) * p->row;
    int64_t n = copy != NULL ? p->own.size[0] * p->row : 0, found = -1;
    tess_stream *stream = NULL;
    if (n == 0)
        return TESS_OK;
    TESS_TRY(tess_fsdp_stream(&fsdp->place, &stream));
    tess_status status = fsdp->place.device != NULL ? find_in_blocks(&fsdp->place, p->form, master, copy, n, &found)
                                                    : find_in_rows(fsdp, unit, p, master, copy, &found);
    *at = status == TESS_OK && found >= 0 ? tess_fsdp_element(p, &p->own, found) : -1;
    return status;
}
