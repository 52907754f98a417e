/* Reads dumps of PyTorch's Flight Recorder into a history, and writes them from one.
 *
 * A dump is one file per rank, pickle or JSON (detected by content). The name holds the rank: "nccl_trace_rank_3",
 * "rank_3.json". The schema is c10d's, versions 2.0 to 2.10. Nothing in a dump is executed.
 *
 * Fields of a history, and where they come from in a dump:
 *   team       hash of the process group's name, description and members; its name is the description. gloo lists no
 *              members, so they are guessed: the ranks that took part. Ranks without a dump are added if sizes
 *              show more members (sizes of an all_gather do), or if a rank that took part may still wait
 *   sequence   collective_seq_id, for messages p2p_seq_id; members of a coalesced group are one record
 *   count      elements of the inputs (of a reduce_scatter, scatter, broadcast or receive: of the outputs), over all
 *              tensors
 *   state      ENQUEUED while scheduled or started: a kernel that has started may still wait for its peers
 *   reduce_op  255, and root is -1: dumps have neither; for messages root is the peer's index in the team
 *   tag        hash of a dtype or operation that we do not have
 *   site       the innermost frame outside torch
 * Dumps that Tessera wrote hold all other fields under the key "tessera", so the whole history can be read back,
 * including its source. Times are the system's wall clock. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_H
#define TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_H

#include "diagnosis/history.h"

/* Reads all dumps in `folder`, but not in its subfolders. Free with tess_history_destroy. A rank whose dump is
 * missing or malformed is marked as not present, and its `why` gives the reason. For a rank that is present, `why`
 * reports a version, group members or a library version that differ from those of other dumps.
 *   TESS_E_NOT_FOUND  no file in the folder has the name of a dump
 *   TESS_E_FORMAT     no dump can be read (the message names the first, and the position in it), or none holds an
 *                     operation. */
tess_status tess_flight_recorder_read(tess_mem *mem, const char *folder, tess_history **history);

/* Whether the folder holds a file whose name contains a rank and whose content begins like a dump. */
bool tess_flight_recorder_is(const char *folder);

/* Writes one dump for each rank that is present or has ended. The file is `nccl_trace_rank_N.json`, or with `pickle`
 * `nccl_trace_rank_N`, which torchfrtrace reads. Creates `folder` if needed. All dumps begin at the same operation:
 * an operation that one rank's ring no longer holds is left out of all dumps. TESS_E_IO, TESS_E_NO_SPACE. */
tess_status tess_flight_recorder_write(const tess_history *history, const char *folder, bool pickle);

#endif
