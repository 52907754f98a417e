/* Ranks that can only go on together succeed together or fail together. */
#ifndef TESS_COMM_AGREE_H
#define TESS_COMM_AGREE_H

#include "tessera/comm.h"

/* Collective. The worst (most negative) of all ranks' statuses; the others get the message of the first rank that met
 * it, behind "rank 3: ". `team` NULL: this process alone. */
tess_status tess_team_agree(tess_team *team, tess_status status);

#endif
