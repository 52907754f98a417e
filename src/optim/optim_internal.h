/* What other modules of the library may ask of an optimizer besides the public contract. */
#ifndef TESS_OPTIM_INTERNAL_H
#define TESS_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "job/keep/keep.h"
#include "tessera/optim.h"

/* Updates run on `stream` (borrowed until destroy) instead of a stream of the optimizer's own, which has one thread. */
void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream);

/* tess_adamw_create with the moments in `keep` (borrowed until destroy; NULL: private memory) as they are found there.
 * Updates then keep a journal (journal.h): a process with the same keep, spans and arguments ends the tess_adamw_step
 * that another began, or was about to begin, at whatever instruction that broke off. */
tess_status tess_adamw_create_kept(tess_mem *mem, const tess_span *spans, int n_spans,
                                   const tess_adamw_options *options, tess_keep *keep, tess_adamw **adamw);

/* Hears of an update with a journal: before ("shard") and after ("shard-done") each span that has elements, which are
 * numbered from 0. */
typedef void (*tess_adamw_observer)(void *self, const char *moment, int64_t number);
void tess_adamw_set_observer(tess_adamw *adamw, tess_adamw_observer observer, void *self);

#endif
