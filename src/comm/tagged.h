/* Sums of values that ranks must have been given with the same tag. */
#ifndef TESS_COMM_TAGGED_H
#define TESS_COMM_TAGGED_H

#include "tessera/comm.h"

/* Calls tess_all_reduce and waits. `tag` is part of the fingerprint, like a label. Returns TESS_E_MISMATCH if ranks
 * pass different tags, and names them. */
tess_status tess_all_reduce_tagged(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                                   uint64_t tag);

#endif
