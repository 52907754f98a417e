/* Returns the stream on which a tess_fsdp enqueues its work: the device's, or one on the host. */
#include "parallel/fsdp/fsdp_impl.h"

tess_status tess_fsdp_host_stream(tess_fsdp *fsdp, tess_stream **stream)
{
    bool has_host = fsdp->stream != NULL && fsdp->device == NULL;
    if (!has_host && fsdp->own_stream == NULL)
        TESS_TRY(tess_stream_create(fsdp->mem, tess_runtime_threads(fsdp->runtime), tess_runtime_kernels(fsdp->runtime),
                                    &fsdp->own_stream));
    *stream = has_host ? fsdp->stream : fsdp->own_stream;
    return TESS_OK;
}

tess_status tess_fsdp_stream(tess_fsdp *fsdp, tess_stream **stream)
{
    if (fsdp->stream == NULL)
        TESS_TRY(tess_fsdp_host_stream(fsdp, &fsdp->stream));
    *stream = fsdp->stream;
    return TESS_OK;
}
