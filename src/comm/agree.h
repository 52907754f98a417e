/* Makes ranks that can only continue together succeed together or fail together. */
#ifndef TESS_COMM_AGREE_H
#define TESS_COMM_AGREE_H

#include "tessera/comm.h"

/* Return the rank in the team, and the team's size. In all functions of this file, `team` may be NULL for a single
 * process: rank 0 of 1. */
int tess_agree_rank(const tess_team *team);
int tess_agree_world(const tess_team *team);

/* Returns the worst (most negative) status of all ranks. Ranks without an error get the message of the first rank
 * that has it, after "rank 3: ". Collective. */
tess_status tess_team_agree(tess_team *team, tess_status status);

/* Returns TESS_E_MISMATCH if ranks pass different hashes. `what` names the hashed value. Collective. */
tess_status tess_team_agree_same(tess_team *team, uint64_t hash, const char *what);

#endif
