/* Checkpoints of which every host stores a part: the rows that its ranks hold.
 *
 * Ranks of a host that hold the same rows (replicas, or all ranks if nothing is sharded) share writing them. So a
 * host's folder has all rows that its ranks need to resume, no matter which rank counts them in norms and sums. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/agree.h"
#include "ckpt/store/store_impl.h"

tess_status tess_store_gather_rows(tess_mem *mem, tess_team *team, const tess_ckpt_tensor *tensors, int n,
                                   tess_row_range **rows)
{
    tess_row_range *all = NULL;
    size_t count = (size_t)n, world = (size_t)tess_team_size(team);
    tess_status status = tess_team_agree(
        team, tess_mem_alloc_array(mem, TESS_POOL_MISC, world * count, sizeof(*all), "rows of ranks", (void **)&all));
    *rows = all;
    if (status != TESS_OK || n == 0)
        return status;
    tess_row_range *mine = all + (size_t)tess_team_rank(team) * count;
    for (int i = 0; i < n; i++)
        mine[i] = (tess_row_range){tensors[i].row_begin, tensors[i].n_rows};
    return tess_all_gather(team, mine, all, 2 * count, TESS_I64, NULL);
}

/* The rows of each tensor that each rank of the host holds: (size of the host's team, n_tensors). */
typedef struct holdings {
    const tess_row_range *all;
    int n_ranks, n_tensors, me;
} holdings;

static const tess_row_range *held_by(const holdings *h, int rank, int tensor)
{
    return &h->all[(size_t)rank * (size_t)h->n_tensors + (size_t)tensor];
}

static tess_status divide(const holdings *h, int tensor, tess_ckpt_tensor *own)
{
    const tess_row_range *mine = held_by(h, h->me, tensor);
    int n_sharing = 0, number = 0;
    for (int rank = 0; rank < h->n_ranks; rank++) {
        const tess_row_range *theirs = held_by(h, rank, tensor);
        bool same = mine->begin == theirs->begin && mine->n == theirs->n;
        bool apart = mine->n == 0 || theirs->n == 0 || mine->begin >= theirs->begin + theirs->n ||
                     theirs->begin >= mine->begin + mine->n;
        TESS_CHECK(same || apart, TESS_E_INVALID,
                   "checkpoint: ranks of a host hold rows [%" PRId64 ", +%" PRId64 ") and [%" PRId64 ", +%" PRId64
                   ") of '%s': neither the same nor apart",
                   mine->begin, mine->n, theirs->begin, theirs->n, own->name);
        n_sharing += same;
        number += same && rank < h->me;
    }
    tess_shard_rows(mine->n, n_sharing, number, &own->primary_begin, &own->primary_rows);
    own->primary_begin += own->row_begin;
    return TESS_OK;
}

tess_status tess_ckpt_share(tess_mem *mem, const tess_ckpt_hosts *hosts, const tess_ckpt_tensor *tensors, int n,
                            tess_ckpt_tensor *own)
{
    holdings h = {.n_ranks = tess_team_size(hosts->mine), .n_tensors = n, .me = tess_team_rank(hosts->mine)};
    tess_row_range *all = NULL;
    tess_status status = tess_store_gather_rows(mem, hosts->mine, tensors, n, &all);
    h.all = all;
    for (int i = 0; i < n && status == TESS_OK; i++) {
        own[i] = tensors[i];
        status = divide(&h, i, &own[i]);
    }
    tess_mem_free(mem, all);
    return status;
}
