/* Finds the newest checkpoint that all hosts have, each in its own folder. */
#include <inttypes.h>

#include "comm/agree.h"
#include "ckpt/store/store_impl.h"

static tess_status newest_here(const char *dir, int64_t limit, const tess_ckpt_listener *listener, int64_t *step)
{
    tess_status status = tess_ckpt_latest_until(dir, limit, listener, step);
    if (status != TESS_E_NOT_FOUND)
        return status;
    tess_error_clear();
    *step = -1;
    return TESS_OK;
}

/* The lowest and highest of the hosts' newest steps, and a host of each. */
typedef struct newest_local {
    int64_t lowest, highest;
    int low_host, high_host;
} newest_local;

static tess_status ask_hosts(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit,
                             const tess_ckpt_listener *listener, newest_local *all)
{
    int64_t mine = -1, words[2], who[2];
    TESS_TRY(tess_team_agree(hosts->all, newest_here(dir, limit, listener, &mine)));
    words[0] = mine;
    words[1] = -mine;
    TESS_TRY(tess_all_reduce(hosts->all, words, words, 2, TESS_I64, TESS_MIN, NULL));
    all->lowest = words[0];
    all->highest = -words[1];
    who[0] = mine == all->lowest ? hosts->host : hosts->n;
    who[1] = mine == all->highest ? hosts->host : hosts->n;
    TESS_TRY(tess_all_reduce(hosts->all, who, who, 2, TESS_I64, TESS_MIN, NULL));
    all->low_host = (int)who[0];
    all->high_host = (int)who[1];
    return TESS_OK;
}

tess_status tess_ckpt_latest_local(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit,
                                   const tess_ckpt_listener *listener, int64_t *step, int64_t *highest)
{
    newest_local all;
    TESS_TRY(ask_hosts(hosts, dir, limit, listener, &all));
    *highest = all.highest;
    TESS_CHECK(all.highest >= 0, TESS_E_NOT_FOUND, "%s: no complete checkpoint there on any host", dir);
    while (all.lowest != all.highest) {
        char without[TESS_CKPT_HOST_TEXT], with[TESS_CKPT_HOST_TEXT];
        TESS_CHECK(all.lowest >= 0, TESS_E_INVALID,
                   "%s: %s has no complete checkpoint there, but %s has one of step %" PRId64
                   ": bring its folder back, "
                   "or start anew with checkpoint.resume=false",
                   dir, tess_ckpt_hosts_format(hosts, all.low_host, without),
                   tess_ckpt_hosts_format(hosts, all.high_host, with), all.highest);
        TESS_TRY(ask_hosts(hosts, dir, all.lowest, NULL, &all));
    }
    *step = all.lowest;
    return TESS_OK;
}
