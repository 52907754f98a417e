/* Reads dumps of PyTorch's Flight Recorder into a history, and writes them from one.
 *
 * A dump is one file per rank, pickle or JSON (detected by content). The name holds the rank: "nccl_trace_rank_3",
 * "rank_3.json". Its schema is c10d's, 2.0 to 2.10. Nothing in a dump is executed.
 *
 * A history takes from a dump:
 *   team       hash of the process group's name, description and members; its name is the description. gloo lists no
 *              members: they are guessed. They are those who took part, and ranks without a dump where sizes say that
 *              there were more (an all_gather's), or one of those may wait
 *   sequence   collective_seq_id, for messages p2p_seq_id; members of a coalesced group are one record
 *   count      elements of the inputs (of a reduce_scatter, scatter, broadcast or receive: of the outputs), over all
 *              tensors
 *   state      ENQUEUED while scheduled or started: a kernel that has started may wait for its peers inside itself
 *   reduce_op  255, root -1: dumps do not have them; for messages root is the peer's place in the team
 *   tag        hash of a dtype or operation that we do not have
 *   site       the innermost frame outside torch
 * Dumps that we wrote hold the rest under the key "tessera". They give back the whole history, its source
 * included. Times are the system's wall clock. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_H
#define TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_H

#include "diagnosis/history.h"

/* Reads all dumps in `folder`, not below it. Free with tess_history_destroy.
 * A rank whose dump is missing or malformed is not present, and its `why` says so. For a rank that is present, `why`
 * says what is odd about its dump: version, group members or library version differ from the others'.
 *   TESS_E_NOT_FOUND  no file name there is that of a dump
 *   TESS_E_FORMAT     no dump can be read (the message names the first, and the position in it), or none holds an
 *                     operation. */
tess_status tess_flight_recorder_read(tess_mem *mem, const char *folder, tess_history **history);

/* Whether the folder holds a file that has a rank in its name and begins like a dump. */
bool tess_flight_recorder_is(const char *folder);

/* Writes one dump for each rank that is present or has ended: `nccl_trace_rank_N.json`, or with `pickle`
 * `nccl_trace_rank_N`, which torchfrtrace reads. Creates `folder` if needed. An operation that has left the ring of one
 * rank is left out on all, so that all dumps begin at the same one. TESS_E_IO, TESS_E_NO_SPACE. */
tess_status tess_flight_recorder_write(const tess_history *history, const char *folder, bool pickle);

#endif
