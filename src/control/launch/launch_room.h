/* Whether a host has room for a number of ranks: memory and processes. The launcher asks before it starts the first
 * rank, so that a job that is too large ends with a reason and not with a rank that the system refuses. */
#ifndef TESS_CONTROL_LAUNCH_LAUNCH_ROOM_H
#define TESS_CONTROL_LAUNCH_LAUNCH_ROOM_H

#include "tessera/status.h"
#include "tessera/types.h"

/* Each number is UINT64_MAX if there is no bound, or if it is not known. */
typedef struct tess_launch_room {
    uint64_t memory;           /* bytes that processes may still take */
    uint64_t user_processes;   /* processes and threads of this user */
    uint64_t system_processes; /* processes and threads of the system */
    uint64_t group_processes;  /* processes and threads that the control group may still start */
} tess_launch_room;

/* Reads this host's bounds. */
void tess_launch_room_look(tess_launch_room *room);

/* TESS_E_NOMEM: n_ranks ranks cannot fit. The message names the bound, how much there is and what to change. Pure. */
tess_status tess_launch_room_check(const tess_launch_room *room, int n_ranks);

#endif
