/* Helpers for code that runs on all ranks of a team or, with `team` NULL, in one process alone. */
#ifndef TESS_CKPT_CKPT_AGREE_H
#define TESS_CKPT_CKPT_AGREE_H

#include "comm/agree.h"

/* Collective. TESS_E_MISMATCH: ranks pass different hashes; `what` names what was hashed. */
tess_status tess_ckpt_agree_same(tess_team *team, uint64_t hash, const char *what);

/* The rank in the team and the team's size; 0 and 1 without a team. */
int tess_ckpt_rank(const tess_team *team);
int tess_ckpt_world(const tess_team *team);

#endif
