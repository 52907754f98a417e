/* Calls a function in a child process. A disk or server that hangs then holds only the child, and the caller goes on
 * when its patience ends. */
#ifndef TESS_CKPT_STORE_COPY_APART_H
#define TESS_CKPT_STORE_COPY_APART_H

#include "tessera/status.h"

#include <stddef.h>

/* The child's side of a call. */
typedef struct copy_apart copy_apart;

/* Fills `out`, which is zeroed first. Runs in the child, whose only open files are the standard ones. */
typedef tess_status (*copy_apart_fn)(void *self, copy_apart *apart, void *out);

/* Returns what fn(self, ..., out) returns in a child process, with its message and the `size` bytes of `out`. The child
 * dies with this process.
 *   TESS_E_TIMEOUT  the child reported no progress for patience_s, and was killed
 *   TESS_E_IO       the child died, or no process could be started */
tess_status copy_run_apart(copy_apart_fn fn, void *self, double patience_s, void *out, size_t size);

/* Reports progress: the caller's patience begins anew. `apart` may be NULL. */
void copy_apart_moves(copy_apart *apart);

#endif
