/* Compares the messages that ranks of a team rehearsed: each message sent must be received. */
#ifndef TESS_COMM_REHEARSAL_MESSAGES_H
#define TESS_COMM_REHEARSAL_MESSAGES_H

#include "job/fingerprint.h"
#include "tessera/comm.h"

/* Compares, for each pair of members, the messages that one sends with those that the other receives, in order for
 * each tag. lines (n): this rank's messages on the team. Returns TESS_E_MISMATCH for the first message that is not
 * received, is not sent, or has another length. Collective. */
tess_status tess_rehearsal_compare_messages(tess_team *team, const tess_fingerprint *lines, size_t n);

#endif
