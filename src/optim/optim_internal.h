/* What an optimizer offers other modules of the library besides its public contract. */
#ifndef TESS_OPTIM_OPTIM_INTERNAL_H
#define TESS_OPTIM_OPTIM_INTERNAL_H

#include "device/stream.h"
#include "job/persist/persist.h"
#include "tessera/optim.h"

/* As tess_adamw_create, with moments that end with the process, even where there is a store (base/mem/named.h): it has
 * those of another optimizer. */
tess_status tess_adamw_create_private(tess_mem *mem, const tess_span *spans, int n_spans,
                                      const tess_adamw_options *options, tess_adamw **adamw);

/* Runs updates on `stream` (borrowed until destroy) instead of a stream of the optimizer's own. */
void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream);

/* Whoever has the spans of the optimizer says so, to tell later whether moments are of its parameters. */
void tess_adamw_set_owner(tess_adamw *adamw, const void *owner);
bool tess_adamw_is_of(const tess_adamw *adamw, const void *owner);

/* Called during an update with a journal: before ("shard") and after ("shard-done") each span that has elements; these
 * spans are numbered from 0. */
typedef void (*tess_adamw_observer)(void *self, const char *moment, int64_t number);
void tess_adamw_set_observer(tess_adamw *adamw, tess_adamw_observer observer, void *self);

#endif
