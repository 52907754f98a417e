/* Divides the boxes of a host among its ranks, for checkpoints of which every host stores a part.
 *
 * Ranks of a host that hold the same box (replicas, or all ranks if nothing is sharded) share the writing. So a host's
 * folder has everything that its ranks need to resume, no matter which rank counts the elements in norms and sums. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/agree.h"
#include "ckpt/store/store_impl.h"

tess_status tess_store_gather_boxes(tess_mem *mem, tess_team *team, const tess_ckpt_tensor *tensors, int n,
                                    tess_box **boxes)
{
    tess_box *all = NULL;
    size_t count = (size_t)n, world = (size_t)tess_team_size(team);
    tess_status status = tess_team_agree(team, TESS_NEW(mem, world * count, "boxes of ranks", &all));
    *boxes = all;
    if (status != TESS_OK || n == 0)
        return status;
    tess_box *mine = all + (size_t)tess_team_rank(team) * count;
    for (int i = 0; i < n; i++)
        mine[i] = tensors[i].box;
    return tess_all_gather(team, mine, all, count * (sizeof(*all) / sizeof(int64_t)), TESS_I64, NULL);
}

/* The box of each tensor that each rank of the host holds: `all` is (n_ranks, n_tensors). */
typedef struct holdings {
    const tess_box *all;
    int n_ranks, n_tensors, me;
} holdings;

static const tess_box *held_by(const holdings *h, int rank, int tensor)
{
    return &h->all[(size_t)rank * (size_t)h->n_tensors + (size_t)tensor];
}

/* Divides a box among the ranks that hold it. Each writes a chunk of rows, which is contiguous in its memory. */
static tess_status divide(const holdings *h, int tensor, tess_ckpt_tensor *own)
{
    const tess_box *mine = held_by(h, h->me, tensor);
    int n_dims = tess_ckpt_dims(own), n_sharing = 0, number = 0;
    char one[300], other[300];
    for (int rank = 0; rank < h->n_ranks; rank++) {
        const tess_box *theirs = held_by(h, rank, tensor);
        bool same = tess_box_equal(n_dims, mine, theirs);
        TESS_CHECK(same || !tess_box_meet(n_dims, mine, theirs, NULL), TESS_E_INVALID,
                   "checkpoint: ranks of a host hold %s and %s of '%s': neither the same nor apart",
                   tess_box_format(n_dims, mine, one, sizeof(one)),
                   tess_box_format(n_dims, theirs, other, sizeof(other)), own->name);
        n_sharing += same;
        number += same && rank < h->me;
    }
    own->primary = own->box;
    tess_shard_rows(mine->size[0], n_sharing, number, &own->primary.begin[0], &own->primary.size[0]);
    own->primary.begin[0] += mine->begin[0];
    return TESS_OK;
}

tess_status tess_ckpt_share(tess_mem *mem, const tess_ckpt_hosts *hosts, const tess_ckpt_tensor *tensors, int n,
                            tess_ckpt_tensor *own)
{
    holdings h = {.n_ranks = tess_team_size(hosts->mine), .n_tensors = n, .me = tess_team_rank(hosts->mine)};
    TESS_AUTO(tess_mem_drop) tess_box *all = NULL;
    TESS_TRY(tess_store_gather_boxes(mem, hosts->mine, tensors, n, &all));
    h.all = all;
    for (int i = 0; i < n; i++) {
        own[i] = tensors[i];
        TESS_TRY(divide(&h, i, &own[i]));
    }
    return TESS_OK;
}
