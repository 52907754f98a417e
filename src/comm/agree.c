#include "comm/agree.h"

#include <stdio.h>

#include "comm/comm_impl.h"

enum { RANK_SPAN = 1 << 20, MESSAGE_WORDS = 256 };

int tess_agree_rank(const tess_team *team)
{
    return team == NULL ? 0 : tess_team_rank(team);
}

int tess_agree_world(const tess_team *team)
{
    return team == NULL ? 1 : tess_team_size(team);
}

tess_status tess_team_agree(tess_team *team, tess_status status)
{
    if (tess_agree_world(team) == 1)
        return status;
    char message[MESSAGE_WORDS * 4] = "";
    int rank = tess_team_rank(team);
    if (status != TESS_OK)
        snprintf(message, sizeof(message), "%s", tess_error_message());
    /* Packs status and rank into one number. The minimum over ranks is the worst status and the lowest rank that has
     * it. */
    int64_t mine = (int64_t)status * RANK_SPAN + rank, worst;
    TESS_TRY_CTX(tess_all_reduce(team, &mine, &worst, 1, TESS_I64, TESS_MIN, NULL), "agree on the outcome");
    if (worst >= 0)
        return TESS_OK;
    int failed = (int)((worst % RANK_SPAN + RANK_SPAN) % RANK_SPAN);
    tess_status common = (tess_status)((worst - failed) / RANK_SPAN);
    TESS_TRY_CTX(tess_broadcast(team, message, MESSAGE_WORDS, TESS_I32, failed, NULL), "report the failure");
    message[sizeof(message) - 1] = '\0';
    if (failed == rank)
        return TESS_FAIL(common, "%s", message);
    tess_runtime *rt = team->runtime;
    rt->agreed_rank = tess_team_global_rank(team, failed);
    TESS_FAIL(common, "rank %d: %s", rt->agreed_rank, message);
    snprintf(rt->agreed, sizeof(rt->agreed), "%s", tess_error_message());
    return common;
}

tess_status tess_team_agree_same(tess_team *team, uint64_t hash, const char *what)
{
    if (tess_agree_world(team) == 1)
        return TESS_OK;
    /* One minimum compares all hashes: min(h) equals max(h) = ~min(~h) only if all hashes are equal. */
    int64_t mine[2] = {(int64_t)hash, (int64_t)~hash}, least[2];
    TESS_TRY_CTX(tess_all_reduce(team, mine, least, 2, TESS_I64, TESS_MIN, NULL), "checkpoint: compare %s", what);
    TESS_CHECK(least[0] == ~least[1], TESS_E_MISMATCH, "ranks pass different %s to the checkpoint", what);
    return TESS_OK;
}
