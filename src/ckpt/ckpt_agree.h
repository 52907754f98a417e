/* Ranks that work on one set of files, or one process alone. */
#ifndef TESS_CKPT_CKPT_AGREE_H
#define TESS_CKPT_CKPT_AGREE_H

#include "comm/agree.h"

/* Collective. TESS_E_MISMATCH unless every rank passes the same `hash`; `what` says what was hashed. */
tess_status tess_ckpt_agree_same(tess_team *team, uint64_t hash, const char *what);

/* 0 and 1 without a team. */
int tess_ckpt_rank(const tess_team *team);
int tess_ckpt_world(const tess_team *team);

#endif
