/* Returns the stream on which a tess_fsdp enqueues its work: the device's, or one on the host. */
#include "parallel/fsdp/fsdp_impl.h"

tess_status tess_fsdp_host_stream(tess_fsdp_place *place, tess_stream **stream)
{
    bool has_host = place->stream != NULL && place->device == NULL;
    if (!has_host && place->own_stream == NULL)
        TESS_TRY(tess_stream_create(place->mem, tess_runtime_threads(place->runtime),
                                    tess_runtime_kernels(place->runtime), &place->own_stream));
    *stream = has_host ? place->stream : place->own_stream;
    return TESS_OK;
}

tess_status tess_fsdp_stream(tess_fsdp_place *place, tess_stream **stream)
{
    if (place->stream == NULL)
        TESS_TRY(tess_fsdp_host_stream(place, &place->stream));
    *stream = place->stream;
    return TESS_OK;
}
