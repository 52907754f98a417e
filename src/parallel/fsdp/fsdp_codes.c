/* Units of which something is gathered as fp8 codes (device/fp8_rows.h) are gathered as bytes. What this rank owns is
 * put into the form of the gathered copy once its weights have changed, not at each gather; where there are no peers it
 * is put into the copy itself. */
#include "device/fp8_rows.h"
#include "parallel/fsdp/fsdp_impl.h"

size_t tess_fsdp_row_bytes(const tess_fsdp *fsdp, const tess_fsdp_param *p)
{
    return p->fp8 ? tess_fp8_row_bytes(p->row) : (size_t)p->row * tess_dtype_size(fsdp->policy.param_dtype);
}

tess_status tess_fsdp_convert_rows(tess_fsdp *fsdp, const tess_fsdp_param *p, const float *rows, int64_t n, void *to)
{
    tess_dtype dtype = fsdp->policy.param_dtype;
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(fsdp, &stream));
    if (!p->fp8)
        return tess_stream_kernels(stream)->convert(stream, rows, TESS_F32, to, dtype, n * p->row);
    tess_fp8_encode_rows(stream, rows, n, p->row, dtype, to);
    return TESS_OK;
}

tess_status tess_fsdp_codes_alloc(tess_unit *unit)
{
    return unit->codes_bytes == 0 ? TESS_OK
                                  : tess_mem_alloc(unit->fsdp->mem, TESS_POOL_PARAMS, unit->codes_bytes,
                                                   "own weights as they are gathered", (void **)&unit->codes);
}

tess_status tess_fsdp_codes_refresh(tess_unit *unit)
{
    for (int i = 0; i < unit->n_params && !unit->codes_fresh; i++) {
        const tess_fsdp_param *p = &unit->params[i];
        const float *own = unit->master + p->master_offset + (p->own.begin[0] - p->held.begin[0]) * p->row;
        TESS_TRY(tess_fsdp_convert_rows(unit->fsdp, p, own, p->own.size[0], unit->codes + p->codes_at));
    }
    unit->codes_fresh = true;
    return TESS_OK;
}
