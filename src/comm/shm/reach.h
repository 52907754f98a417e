/* Private memory of peers. */
#ifndef TESS_COMM_SHM_REACH_H
#define TESS_COMM_SHM_REACH_H

#include "comm/comm_impl.h"

/* True when team rank `rank` may read private memory of the others, and `bytes` are enough for it to pay. */
bool tess_can_reach(const tess_team *team, int rank, size_t bytes);
/* Copies private memory of `rank`. False: unreadable, so the rank has ended or is about to. */
bool tess_reach(const tess_team *team, void *to, int rank, uint64_t address, size_t bytes);

#endif
