/* What other modules of the library may ask of an optimizer besides the public contract. */
#ifndef TESS_OPTIM_INTERNAL_H
#define TESS_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "job/keep/keep.h"
#include "tessera/optim.h"

/* Updates run on `stream` (borrowed until destroy) instead of a stream of the optimizer's own, which has one thread. */
void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream);

/* tess_adamw_create with the moments in `keep` (borrowed until destroy; NULL: private memory) as they are found there.
 * Updates then keep a journal (journal.h): one that broke off at any instruction can be ended. */
tess_status tess_adamw_create_kept(tess_fsdp *fsdp, const tess_adamw_options *options, tess_keep *keep,
                                   tess_adamw **adamw);

/* The rest of tess_adamw_step with the same arguments, which a process began, or was about to begin, that had the same
 * keep; this one has its weights, moments and gradients. Gathered copies are not in use. Not collective. */
tess_status tess_adamw_end_step(tess_adamw *adamw, int64_t step, float lr, float grad_scale);

#endif
