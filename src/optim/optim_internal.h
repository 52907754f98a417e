/* What other modules of the library may ask of an optimizer besides the public contract. */
#ifndef TESS_OPTIM_OPTIM_INTERNAL_H
#define TESS_OPTIM_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/optim.h"

/* Updates run on `stream` (borrowed until destroy) instead of a stream of the optimizer's own, which has one thread. */
void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream);

/* Hears of an update with a journal: before ("shard") and after ("shard-done") each span that has elements, which are
 * numbered from 0. */
typedef void (*tess_adamw_observer)(void *self, const char *moment, int64_t number);
void tess_adamw_set_observer(tess_adamw *adamw, tess_adamw_observer observer, void *self);

#endif
