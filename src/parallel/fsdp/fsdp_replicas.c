/* Finds memory whose content several ranks share, for checks that it is still equal. */
#include <string.h>

#include "parallel/fsdp/fsdp_impl.h"

tess_team *tess_fsdp_holders(const tess_fsdp *fsdp, int index)
{
    if (!tess_fsdp_has_param(fsdp, index))
        return NULL;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    const tess_fsdp_family *family = fsdp->params[index].unit->family;
    bool whole = p->tp.kind != TESS_SHARD && fsdp->topology.n_tp > 1 && !family->teams.apart;
    if (family->facts.replicated && !p->narrow)
        return whole                             ? fsdp->topology.model_team
               : family->teams.same_team != NULL ? family->teams.same_team
               : family->teams.apart             ? family->teams.shard_team
                                                 : fsdp->topology.data_team;
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

/* A search compares the rows of a parameter in a gathered copy with its weights, converted again. */
typedef struct row_search {
    const tess_unit *unit;
    const tess_fsdp_param *p;
    const float *master;
    const char *copy;
    float *room;   /* converted rows, in the memory in which the copy is */
    char *seen[2]; /* the host's copies of both, if that is a device's memory */
} row_search;

/* Compares rows [r, r + n). */
static tess_status compare_rows(tess_stream *stream, const row_search *x, int64_t r, int64_t n, int64_t *found)
{
    const tess_fsdp_param *p = x->p;
    const size_t bytes = tess_fsdp_row_bytes(p), size = tess_dtype_size(p->form->moves);
    const void *converted = x->room, *want, *got;
    if (p->narrow)
        converted = x->unit->codes + p->codes_at + (size_t)r * bytes;
    else
        TESS_TRY(tess_fsdp_convert_rows(&x->unit->fsdp->place, p, x->master + r * p->row, n, x->room));
    TESS_TRY(tess_view(stream, converted, (size_t)n * bytes, x->seen[0], &want));
    TESS_TRY(tess_view(stream, x->copy + (size_t)r * bytes, (size_t)n * bytes, x->seen[1], &got));
    for (int64_t i = 0; i < n && *found < 0; i++) {
        const size_t row = (size_t)i * bytes;
        int64_t at = first_difference((const char *)got + row, (const char *)want + row, (int64_t)(bytes / size), size);
        if (at >= 0)
            *found = (r + i) * p->row + (p->form->element != NULL ? p->form->element(p->row, at) : at);
    }
    return TESS_OK;
}

static tess_status find_in_rows(tess_fsdp_place *place, tess_stream *stream, row_search *x, int64_t *found)
{
    enum { BYTES = 1 << 16 };
    const size_t bytes = tess_fsdp_row_bytes(x->p), all = bytes < BYTES ? BYTES / bytes * bytes : bytes;
    const int64_t n = x->p->own.size[0], at_once = (int64_t)(all / bytes);
    tess_status status;
    TESS_GOTO(tess_fsdp_alloc(place, TESS_POOL_MISC, all / sizeof(float) + 1, "rounded weights", &x->room), done);
    for (int k = 0; k < 2 && place->device != NULL; k++)
        TESS_GOTO(tess_mem_alloc(place->mem, TESS_POOL_MISC, all, "rows", (void **)&x->seen[k]), done);
    for (int64_t r = 0; r < n && *found < 0; r += at_once)
        TESS_GOTO(compare_rows(stream, x, r, n - r < at_once ? n - r : at_once, found), done);
done:
    tess_mem_free(place->mem, x->seen[0]);
    tess_mem_free(place->mem, x->seen[1]);
    tess_fsdp_free(place, x->room);
    return status;
}

tess_status tess_fsdp_copy_differs(tess_fsdp *fsdp, int index, int64_t *at)
{
    *at = -1;
    TESS_CHECK(tess_fsdp_has_param(fsdp, index), TESS_E_INVALID, "fsdp: parameter %d of %d", index, fsdp->n_params);
    TESS_CHECK(fsdp->state != TESS_FSDP_BUILDING, TESS_E_INVALID, "fsdp: copy_differs %d before materialize", index);
    tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    const char *copy = own_rows_of_copy(unit, p);
    int64_t n = copy != NULL ? p->own.size[0] * p->row : 0, found = -1;
    tess_stream *stream = NULL;
    if (n == 0)
        return TESS_OK;
    TESS_TRY(tess_fsdp_stream(&fsdp->place, &stream));
    tess_fsdp_master_fetch(unit, TESS_PAGE_READ);
    TESS_TRY(tess_fsdp_master_wait(unit, TESS_PAGE_READ));
    row_search x = {.unit = unit, .p = p, .copy = copy};
    x.master = unit->master + p->master_offset + (p->own.begin[0] - p->held.begin[0]) * p->row;
    tess_status status = find_in_rows(&fsdp->place, stream, &x, &found);
    tess_fsdp_master_release(unit);
    *at = status == TESS_OK && found >= 0 ? tess_fsdp_element(p, &p->own, found) : -1;
    return status;
}
