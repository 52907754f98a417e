/* What other modules of the library may ask of an optimizer besides the public contract. */
#ifndef TESS_OPTIM_INTERNAL_H
#define TESS_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "tessera/optim.h"

/* Updates run on `stream` (borrowed until destroy) instead of a stream of the optimizer's own, which has one thread. */
void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream);

#endif
