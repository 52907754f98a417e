/* What other modules of the library may ask of tess_fsdp besides the public contract. */
#ifndef TESS_PARALLEL_FSDP_INTERNAL_H
#define TESS_PARALLEL_FSDP_INTERNAL_H

#include "device/stream.h"
#include "tessera/fsdp.h"

/* Conversions, additions and norms run on `stream` (borrowed until destroy) instead of a stream of fsdp's own, which
 * has one thread. Call before materialize. The bits do not depend on it. */
void tess_fsdp_set_stream(tess_fsdp *fsdp, tess_stream *stream);

#endif
