/* Removes checkpoints of which every host has a part. A checkpoint counts only if every host has its part undamaged: a
 * part that one host has lost cannot be replaced by the others'. */
#include <stdlib.h>

#include "comm/agree.h"
#include "ckpt/store/store_impl.h"

/* The lowest and the highest value of the hosts' first ranks. */
static tess_status span_of(const tess_ckpt_hosts *hosts, int64_t mine, int64_t *lowest, int64_t *highest)
{
    int64_t words[2] = {INT64_MAX, INT64_MAX};
    if (tess_ckpt_hosts_is_first(hosts)) {
        words[0] = mine;
        words[1] = -mine;
    }
    TESS_TRY(tess_all_reduce(hosts->all, words, words, 2, TESS_I64, TESS_MIN, NULL));
    *lowest = words[0];
    *highest = -words[1];
    return TESS_OK;
}

tess_status tess_ckpt_keep_from(const tess_ckpt_hosts *hosts, int keep, tess_ckpt_newest_good_fn newest_good,
                                void *self, int64_t *from)
{
    int64_t limit = INT64_MAX, lowest = -1, highest;
    *from = -1;
    for (int kept = 0; kept < keep;) {
        int64_t mine = tess_ckpt_hosts_is_first(hosts) ? newest_good(self, limit) : -1;
        TESS_TRY(span_of(hosts, mine, &lowest, &highest));
        if (lowest < 0)
            return TESS_OK;
        kept += lowest == highest;
        limit = lowest == highest ? lowest - 1 : lowest; /* no common step lies above the lowest */
    }
    *from = lowest;
    return TESS_OK;
}

/* A host's folder. */
typedef struct part_holder {
    const tess_ckpt_pruner *pruner;
    const char *dir;
    int64_t newest;
} part_holder;

static int64_t newest_good(void *self, int64_t limit)
{
    const part_holder *h = self;
    int64_t step = -1;
    int n;
    if (tess_ckpt_list_good(h->pruner, h->dir, limit < h->newest ? limit : h->newest, 0, 1, &step, &n) != TESS_OK) {
        tess_error_clear();
        return -1;
    }
    return n > 0 ? step : -1;
}

static tess_status count_whole(const part_holder *h, int64_t *n)
{
    tess_store_names names;
    TESS_TRY(tess_store_list_whole(h->dir, h->newest, &names));
    *n = (int64_t)names.n;
    free(names.items);
    return TESS_OK;
}

tess_status tess_ckpt_prune_local(const tess_ckpt_pruner *pruner, const tess_ckpt_hosts *hosts, const char *dir,
                                  int keep_latest_k, int64_t newest)
{
    part_holder h = {pruner, dir, newest};
    bool first = tess_ckpt_hosts_is_first(hosts);
    int64_t n = 0, fewest, most, from = -1;
    TESS_TRY(tess_team_agree(hosts->all, first ? count_whole(&h, &n) : TESS_OK));
    TESS_TRY(span_of(hosts, n, &fewest, &most));
    if (keep_latest_k > 0 && most > keep_latest_k) /* else there is nothing to remove, so nothing is read */
        TESS_TRY(tess_ckpt_keep_from(hosts, keep_latest_k, newest_good, &h, &from));
    return tess_team_agree(hosts->all, first ? tess_ckpt_prune_below(pruner, dir, from) : TESS_OK);
}
