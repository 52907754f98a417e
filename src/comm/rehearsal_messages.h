/* Messages that ranks of a team rehearsed: each that is sent must be received. */
#ifndef TESS_COMM_REHEARSAL_MESSAGES_H
#define TESS_COMM_REHEARSAL_MESSAGES_H

#include "job/fingerprint.h"
#include "tessera/comm.h"

/* Compares what each member sends to another with what that one receives from it, tag by tag in their order. lines (n):
 * this rank's messages on the team. Collective. TESS_E_MISMATCH: the first that nobody receives or sends, or whose
 * length differs. */
tess_status tess_rehearsal_compare_messages(tess_team *team, const tess_fingerprint *lines, size_t n);

#endif
