/* Collectives on memory of a device.
 *
 * A runtime learns its device once. From then on every collective of tessera/comm.h and comm/leaf_sum.h takes memory of
 * that device as well as memory of the host: `in` and `out` (and the sums of leaf steps) have one kind, the same on all
 * ranks. Fingerprints, labels, deadlines, errors and bits are those of the same call on host memory.
 *
 *   before  what the operation reads and writes comes after the work that the bound stream was given before the call
 *   after   when tess_work_wait returns, the result is in the device's memory: any stream may be given work on it
 *
 * Messages (tess_send, tess_recv) take memory of the host alone.
 *
 * How the bytes go. Memory of a device window is read by the team's other ranks on the host where it is, by one kernel
 * an operation; all else is copied to the host, goes as host memory does, and is copied back. So an operation between
 * ranks of one host is fast where the memory that a rank shows is a window of that team on all ranks:
 *
 *   all_gather, all_gather_pieces       `in`, the shard (also that of a rank that owns nothing)
 *   reduce_scatter_pieces, _leaves      `full`
 *   all_reduce (sums of floats)         `in`, and in == out
 *
 * The other ends are any memory of the device. */
#ifndef TESS_COMM_DEVICE_WINDOWS_H
#define TESS_COMM_DEVICE_WINDOWS_H

#include "device/device.h"
#include "tessera/comm.h"

/* Collectives may be given memory of `device`. Collective over the job: all ranks have a device of one kind ("far",
 * "cuda"), or TESS_E_MISMATCH names who has not. The stream is the one whose work collectives come after; both are
 * borrowed until the runtime ends or forgets them. A device whose memory is the host's changes nothing. */
tess_status tess_runtime_use_device(tess_runtime *runtime, tess_device *device, tess_stream *stream);
/* Before the device is closed; no operation is in flight, no window is left. Of this rank alone, except that the ranks
 * of a team over several hosts that has windows take leave of each other. */
void tess_runtime_forget_device(tess_runtime *runtime);

/* A block of the device, zeroed, of `bytes` on each rank (they may differ), which the team's ranks on this host may
 * read. Collective over the team: when one rank fails, all return its status. Where GPUs cannot reach each other the
 * window is ordinary memory of the device, and operations on it go through the host. */
tess_status tess_device_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out);
/* Collective; NULL is fine, on all ranks alike. */
void tess_device_window_free(tess_team *team, void *window);

/* The same for a block that the caller has allocated (tess_device_alloc): a block may be a window of several teams.
 * Hide it from all before it is freed. */
tess_status tess_device_window_show(tess_team *team, void *memory, size_t bytes, const char *what);
void tess_device_window_hide(tess_team *team, void *memory);

#endif
