#include "ckpt/ckpt_agree.h"

int tess_ckpt_rank(const tess_team *team)
{
    return team == NULL ? 0 : tess_team_rank(team);
}

int tess_ckpt_world(const tess_team *team)
{
    return team == NULL ? 1 : tess_team_size(team);
}

tess_status tess_ckpt_agree_same(tess_team *team, uint64_t hash, const char *what)
{
    if (tess_ckpt_world(team) == 1)
        return TESS_OK;
    /* min(h) equals max(h) = ~min(~h) only if all hashes are equal. */
    int64_t mine[2] = {(int64_t)hash, (int64_t)~hash}, least[2];
    TESS_TRY_CTX(tess_all_reduce(team, mine, least, 2, TESS_I64, TESS_MIN, NULL), "checkpoint: compare %s", what);
    TESS_CHECK(least[0] == ~least[1], TESS_E_MISMATCH, "ranks pass different %s to the checkpoint", what);
    return TESS_OK;
}
