/* The stream that conversions, additions and norms run on: the caller's, or else one of fsdp's own. */
#include "parallel/fsdp/fsdp_impl.h"

void tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream)
{
    fsdp->stream = stream;
}

tess_status tess_fsdp_stream(tess_fsdp *fsdp, tess_stream **stream)
{
    if (fsdp->stream == NULL) {
        TESS_TRY(tess_stream_create(fsdp->mem, 1, NULL, &fsdp->own_stream));
        fsdp->stream = fsdp->own_stream;
    }
    *stream = fsdp->stream;
    return TESS_OK;
}
