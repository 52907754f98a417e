/* Units that are gathered as bytes. A unit is, if one of its parameters is gathered as fp8 codes
 * (device/fp8_rows.h), or is frozen and kept only in the dtype of the gathered copy. A rank encodes its own rows
 * once after its weights have changed, not at each gather. If no other rank has shards, the encoded rows are the
 * gathered copy itself. */
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

tess_status tess_fsdp_convert_rows(tess_fsdp_place *place, const tess_fsdp_param *p, const float *rows, int64_t n,
                                   void *to)
{
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(place, &stream));
    return p->form->encode(p->form, stream, rows, n, p->row, to);
}

tess_status tess_fsdp_codes_refresh(tess_unit *unit)
{
    for (int i = 0; i < unit->n_params && !unit->codes_fresh; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        if (p->narrow || p->own.size[0] * p->row == 0)
            continue;
        const float *own = unit->master + p->master_offset + (p->own.begin[0] - p->held.begin[0]) * p->row;
        TESS_TRY(tess_fsdp_convert_rows(&unit->fsdp->place, p, own, p->own.size[0], unit->codes + p->codes_at));
    }
    unit->codes_fresh = true;
    return TESS_OK;
}

tess_status tess_fsdp_codes_fill(tess_unit *unit, const tess_fsdp_param *p, tess_fill_fn fill, void *context)
{
    enum { AT_ONCE = 1 << 20 }; /* elements, or one row */
    const int64_t n = p->own.size[0];
    const size_t row_bytes = tess_fsdp_row_bytes(p);
    const tess_shape shape = tess_shape_atleast_1d(&p->shape);
    TESS_AUTO(tess_mem_drop) float *rows = NULL;
    if (n * p->row == 0)
        return TESS_OK;
    int64_t at_once = p->row < AT_ONCE ? AT_ONCE / p->row : 1;
    at_once = at_once < n ? at_once : n;
    TESS_TRY(tess_mem_alloc_array(unit->fsdp->place.mem, TESS_POOL_MISC, (size_t)(at_once * p->row), sizeof(float),
                                  "weights to be narrowed", (void **)&rows));
    for (int64_t r = 0; r < n; r += at_once) {
        tess_box box = p->own;
        box.begin[0] += r;
        box.size[0] = n - r < at_once ? n - r : at_once;
        TESS_TRY(fill(context, p->name, &shape, &box, rows));
        TESS_TRY(tess_fsdp_convert_rows(&unit->fsdp->place, p, rows, box.size[0],
                                        unit->codes + p->codes_at + (size_t)r * row_bytes));
    }
    return TESS_OK;
}

void *tess_fsdp_narrow(const tess_fsdp *fsdp, int index)
{
    if (!tess_fsdp_has_param(fsdp, index))
        return NULL;
    const tess_unit *unit = fsdp->params[index].unit;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    return p->narrow && unit->codes != NULL ? unit->codes + p->codes_at : NULL;
}

size_t tess_fsdp_narrow_bytes(const tess_fsdp *fsdp, int index)
{
    if (tess_fsdp_narrow(fsdp, index) == NULL)
        return 0;
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    return (size_t)p->own.size[0] * tess_fsdp_row_bytes(p);
}

size_t tess_fsdp_codes_bytes(const tess_fsdp *fsdp)
{
    size_t bytes = 0;
    for (int u = 0; u < fsdp->n_units; u++)
        bytes += fsdp->units[u]->layout.codes_bytes;
    return bytes;
}

bool tess_fsdp_is_coded(const tess_fsdp *fsdp, int index)
{
    return tess_fsdp_has_param(fsdp, index) && !tess_wire_form_is_plain(tess_fsdp_param_at(fsdp, index)->form);
}
