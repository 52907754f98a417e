/* Checkpoints of which every host keeps a part: the rows that its ranks hold.
 *
 * Ranks of a host that hold the same rows (replicas, or all of them where nothing is sharded) share the writing of
 * them. So a host's folder has all that its ranks need to go on, whoever counts the rows in norms and sums. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/agree.h"
#include "ckpt/store/store_impl.h"

typedef struct range {
    int64_t begin, n;
} range;

/* Rows of `tensor` that each rank of the host holds: (size of the host's team, n_tensors). */
typedef struct holdings {
    const range *all;
    int n_ranks, n_tensors, me;
} holdings;

static const range *held_by(const holdings *h, int rank, int tensor)
{
    return &h->all[(size_t)rank * (size_t)h->n_tensors + (size_t)tensor];
}

static bool same_rows(const range *a, const range *b)
{
    return a->begin == b->begin && a->n == b->n;
}

static bool overlap(const range *a, const range *b)
{
    return a->n > 0 && b->n > 0 && a->begin < b->begin + b->n && b->begin < a->begin + a->n;
}

static tess_status divide(const holdings *h, int tensor, tess_ckpt_tensor *own)
{
    const range *mine = held_by(h, h->me, tensor);
    int n_sharing = 0, number = 0;
    for (int rank = 0; rank < h->n_ranks; rank++) {
        const range *theirs = held_by(h, rank, tensor);
        bool same = same_rows(mine, theirs);
        TESS_CHECK(same || !overlap(mine, theirs), TESS_E_INVALID,
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
    range *mine, *all;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, ((size_t)h.n_ranks + 1) * (size_t)n, sizeof(*all), "rows",
                                  (void **)&all));
    mine = all + (size_t)h.n_ranks * (size_t)n;
    for (int i = 0; i < n; i++)
        mine[i] = (range){tensors[i].row_begin, tensors[i].n_rows};
    tess_status status = n > 0 ? tess_all_gather(hosts->mine, mine, all, 2 * (size_t)n, TESS_I64, NULL) : TESS_OK;
    h.all = all;
    for (int i = 0; i < n && status == TESS_OK; i++) {
        own[i] = tensors[i];
        status = divide(&h, i, &own[i]);
    }
    tess_mem_free(mem, all);
    return status;
}
