/* Ranks that can only go on together succeed together or fail together. */
#ifndef TESS_COMM_AGREE_H
#define TESS_COMM_AGREE_H

#include "tessera/comm.h"

/* The rank in the team and the team's size; 0 and 1 in one process alone, with `team` NULL as in all of this file. */
int tess_agree_rank(const tess_team *team);
int tess_agree_world(const tess_team *team);

/* Collective. The worst (most negative) of all ranks' statuses; the others get the message of the first rank that met
 * it, after "rank 3: ". */
tess_status tess_team_agree(tess_team *team, tess_status status);

/* Collective. TESS_E_MISMATCH: ranks pass different hashes; `what` names what was hashed. */
tess_status tess_team_agree_same(tess_team *team, uint64_t hash, const char *what);

#endif
