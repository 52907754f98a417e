/* What an optimizer offers other modules of the library besides its public contract. */
#ifndef TESS_OPTIM_OPTIM_INTERNAL_H
#define TESS_OPTIM_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/optim.h"

/* Runs updates on `stream` (borrowed until destroy) instead of a stream of the optimizer's own. */
void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream);

/* Called during an update with a journal: before ("shard") and after ("shard-done") each span that has elements; these
 * spans are numbered from 0. */
typedef void (*tess_adamw_observer)(void *self, const char *moment, int64_t number);
void tess_adamw_set_observer(tess_adamw *adamw, tess_adamw_observer observer, void *self);

#endif
