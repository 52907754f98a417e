/* Dumps of PyTorch's Flight Recorder: read into a history, and written from one.
 *
 * A dump is one file a rank, pickle or JSON (told by content), named by the rank: "nccl_trace_rank_3", "rank_3.json".
 * Schema 2.0 to 2.10 of c10d. Nothing in a dump is executed.
 *
 * What a history has of a dump:
 *   team       hash of the process group's name, description and members; its name is the description
 *   sequence   collective_seq_id, of messages p2p_seq_id; members of a coalesced group are one record
 *   count      elements of the inputs (of a reduce_scatter, scatter, broadcast or receive: of the outputs), over all
 *              tensors
 *   state      ENQUEUED while scheduled or started: a kernel that has started may wait for its peers inside itself
 *   reduce_op  255, root -1: dumps do not say; of messages root is the peer's place in the team
 *   tag        hash of the dtype where it is none of ours, and of the operation where it is none of ours
 *   site       the innermost frame outside torch
 * Dumps that we wrote say the rest under the key "tessera" (own_impl.h): from these the history comes back, its source
 * too. Times are the system's wall clock. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_H
#define TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_H

#include "diagnosis/history.h"

/* Reads all dumps in `folder` (not below it). Free with tess_history_destroy.
 * A rank whose dump is missing or malformed is not present: `why` of the rank says so. `why` of a rank that is present
 * holds what is odd about its dump: version, members of a group, or library version unlike the others'.
 *   TESS_E_NOT_FOUND  no file there is named like a dump
 *   TESS_E_FORMAT     none can be read (the message names the first, and the place in it), or none holds an operation.
 */
tess_status tess_flight_recorder_read(tess_mem *mem, const char *folder, tess_history **history);

/* True when the folder holds a file that is named by its rank and begins like a dump. */
bool tess_flight_recorder_is(const char *folder);

/* Writes `nccl_trace_rank_N.json` into `folder` (created when it is not there), or with `pickle` `nccl_trace_rank_N`,
 * which torchfrtrace reads: one for each rank that is present or has ended. Operations that have left the ring of some
 * rank are left out on all, so that the dumps begin together. TESS_E_IO, TESS_E_NO_SPACE. */
tess_status tess_flight_recorder_write(const tess_history *history, const char *folder, bool pickle);

#endif
