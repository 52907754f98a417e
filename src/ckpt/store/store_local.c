/* Lets hosts with separate folders agree on the newest checkpoint that all have, and on the ones to keep. A checkpoint
 * counts only if every host has its part, since other hosts cannot replace a part. */
#include <inttypes.h>
#include <stdlib.h>

#include "comm/agree.h"
#include "ckpt/store/store_impl.h"

/* The lowest and the highest value among the ranks that take part. */
typedef struct span {
    int64_t lowest, highest;
} span;

static tess_status span_of(const tess_ckpt_hosts *hosts, bool counts, int64_t mine, span *all)
{
    int64_t words[2] = {counts ? mine : INT64_MAX, counts ? -mine : INT64_MAX};
    TESS_TRY(tess_all_reduce(hosts->all, words, words, 2, TESS_I64, TESS_MIN, NULL));
    *all = (span){words[0], -words[1]};
    return TESS_OK;
}

/* ---- The newest ---- */
/* Finds the newest step up to `limit` on this host (-1: none), and the lowest and highest over all hosts. */
static tess_status find_newest(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit,
                               const tess_ckpt_listener *listener, int64_t *mine, span *all)
{
    tess_status status = tess_ckpt_latest_until(dir, limit, listener, mine);
    if (status == TESS_E_NOT_FOUND) {
        tess_error_clear();
        *mine = -1;
        status = TESS_OK;
    }
    TESS_TRY(tess_team_agree(hosts->all, status));
    return span_of(hosts, true, *mine, all);
}

/* Fails because some hosts have a checkpoint and others have none. `mine`: this host's newest step. */
static tess_status refuse(const tess_ckpt_hosts *hosts, const char *dir, int64_t mine, const span *all)
{
    char without[TESS_CKPT_HOST_TEXT], with[TESS_CKPT_HOST_TEXT];
    int64_t who[2] = {mine == all->lowest ? hosts->host : hosts->n, mine == all->highest ? hosts->host : hosts->n};
    TESS_TRY(tess_all_reduce(hosts->all, who, who, 2, TESS_I64, TESS_MIN, NULL));
    return TESS_FAIL(TESS_E_INVALID,
                     "%s: %s has no complete checkpoint there, but %s has one of step %" PRId64
                     ": bring its folder back, or start anew with checkpoint.resume=false",
                     dir, tess_ckpt_hosts_format(hosts, (int)who[0], without),
                     tess_ckpt_hosts_format(hosts, (int)who[1], with), all->highest);
}

tess_status tess_ckpt_latest_local(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit,
                                   const tess_ckpt_listener *listener, int64_t *step, int64_t *highest)
{
    int64_t mine;
    span all;
    TESS_TRY(find_newest(hosts, dir, limit, listener, &mine, &all));
    *highest = all.highest;
    TESS_CHECK(all.highest >= 0, TESS_E_NOT_FOUND, "%s: no complete checkpoint there on any host", dir);
    while (all.lowest != all.highest) {
        if (all.lowest < 0)
            return refuse(hosts, dir, mine, &all);
        TESS_TRY(find_newest(hosts, dir, all.lowest, NULL, &mine, &all));
    }
    *step = all.lowest;
    return TESS_OK;
}

/* ---- Pruning ---- */
tess_status tess_ckpt_keep_from(const tess_ckpt_hosts *hosts, int keep, tess_ckpt_newest_good_fn newest_good,
                                void *self, int64_t *from)
{
    bool first = tess_ckpt_hosts_is_first(hosts);
    int64_t limit = INT64_MAX;
    span all = {-1, -1};
    *from = -1;
    for (int n_common = 0; n_common < keep;) {
        int64_t mine = first ? newest_good(self, limit) : -1;
        TESS_TRY(span_of(hosts, first, mine, &all));
        if (all.lowest < 0)
            return TESS_OK;
        n_common += all.lowest == all.highest;
        limit = all.lowest == all.highest ? all.lowest - 1 : all.lowest; /* no common step is above the lowest value */
    }
    *from = all.lowest;
    return TESS_OK;
}

/* The folder of a host, for newest_good. */
typedef struct host_folder {
    const tess_ckpt_pruner *pruner;
    const char *dir;
    int64_t newest;
} host_folder;

static int64_t newest_good(void *self, int64_t limit)
{
    const host_folder *h = self;
    int64_t step = -1;
    int n;
    if (tess_ckpt_list_good(h->pruner, h->dir, limit < h->newest ? limit : h->newest, 0, 1, &step, &n) != TESS_OK) {
        tess_error_clear();
        return -1;
    }
    return n > 0 ? step : -1;
}

tess_status tess_ckpt_prune_local(const tess_ckpt_pruner *pruner, const tess_ckpt_hosts *hosts, const char *dir,
                                  int keep_latest_k, int64_t newest)
{
    host_folder h = {pruner, dir, newest};
    bool first = tess_ckpt_hosts_is_first(hosts);
    tess_store_names names = {0};
    int64_t from = -1;
    span n_whole;
    tess_status status = tess_team_agree(hosts->all, first ? tess_store_list_whole(dir, newest, &names) : TESS_OK);
    free(names.items);
    TESS_TRY(status);
    TESS_TRY(span_of(hosts, first, (int64_t)names.n, &n_whole));
    if (keep_latest_k > 0 && n_whole.highest > keep_latest_k) /* otherwise nothing is removed, and nothing read */
        TESS_TRY(tess_ckpt_keep_from(hosts, keep_latest_k, newest_good, &h, &from));
    return tess_team_agree(hosts->all, first ? tess_ckpt_prune_below(pruner, dir, from) : TESS_OK);
}
