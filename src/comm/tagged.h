/* Sums of what ranks must have been given alike. */
#ifndef TESS_COMM_TAGGED_H
#define TESS_COMM_TAGGED_H

#include "tessera/comm.h"

/* tess_all_reduce that waits. `tag` is part of the fingerprint, as a label is: TESS_E_MISMATCH names the ranks that
 * pass another one. */
tess_status tess_all_reduce_tagged(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                                   uint64_t tag);

#endif
