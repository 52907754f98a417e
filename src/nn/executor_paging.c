/* Requests to the pager for layers whose tensors are on disk. Their pages are written after the layer's forward,
 * read again one layer before its backward, and dropped after it. For a unit without tensors on disk nothing
 * happens. */
#include "nn/executor_impl.h"

static void fetch(const tess_executor *e, int slot, int unit, tess_page_use use)
{
    const tess_unit_memory *m = tess_executor_memory(e, slot, unit);
    if (m->on_disk != NULL)
        tess_pager_fetch(e->pager, m->on_disk, m->disk_bytes, use);
}

static tess_status await(const tess_executor *e, int slot, int unit)
{
    const tess_unit_memory *m = tess_executor_memory(e, slot, unit);
    return m->on_disk != NULL ? tess_pager_wait(e->pager, m->on_disk, m->disk_bytes) : TESS_OK;
}

/* The first unit's pages may already hold its input, so they are kept, not overwritten. A unit that makes
 * the stream writes the input of the next unit, so it waits for that unit's pages, too. */
tess_status tess_executor_page_forward(tess_executor *e, const tess_range *r, int unit)
{
    bool embeds = !tess_executor_reads(e, unit);
    int end = tess_executor_units_of(e, r->slot).end;
    if (e->pager == NULL)
        return TESS_OK;
    fetch(e, r->slot, unit, unit == r->begin ? TESS_PAGE_UPDATE : TESS_PAGE_OVERWRITE);
    if (unit + 1 < (embeds ? end : r->end))
        fetch(e, r->slot, unit + 1, TESS_PAGE_OVERWRITE);
    if (embeds && unit + 1 < end)
        TESS_TRY(await(e, r->slot, unit + 1));
    return await(e, r->slot, unit);
}

/* The input part of a backward writes gradients that the weight part reads. */
static tess_page_use use_of(tess_backward_part part)
{
    return part == TESS_BACKWARD_INPUT ? TESS_PAGE_UPDATE : TESS_PAGE_READ;
}

void tess_executor_page_ahead(tess_executor *e, const tess_range *r, int unit, tess_backward_part part)
{
    if (e->pager != NULL && unit >= r->begin)
        fetch(e, r->slot, unit, use_of(part));
}

tess_status tess_executor_page_backward(tess_executor *e, const tess_range *r, int unit, tess_backward_part part)
{
    if (e->pager == NULL)
        return TESS_OK;
    fetch(e, r->slot, unit, use_of(part));
    tess_executor_page_ahead(e, r, unit - 1, part);
    return await(e, r->slot, unit);
}

void tess_executor_page_done(tess_executor *e, const tess_range *r, int unit)
{
    const tess_unit_memory *m = tess_executor_memory(e, r->slot, unit);
    if (m->on_disk != NULL)
        tess_pager_release(e->pager, m->on_disk, m->disk_bytes);
}

/* Fetches and awaits the pages of the unit's input, so that no later fetch overwrites what the caller is about to
 * write there. */
void tess_executor_page_input(const tess_executor *e, int slot, int unit)
{
    if (e->pager == NULL)
        return;
    fetch(e, slot, unit, TESS_PAGE_UPDATE);
    if (await(e, slot, unit) != TESS_OK) /* the forward reports the error */
        tess_error_clear();
}
