/* Collectives and messages on memory of a device.
 *
 * A runtime learns its device once (tess_runtime_use_device). From then on every operation of tessera/comm.h,
 * comm/leaf_sum.h and comm/box_move.h takes memory of that device as well as memory of the host: `in` and `out` (and
 * the sums of leaf steps) have one kind, the same on all ranks. The two ends of a message may differ. Fingerprints,
 * labels, deadlines, errors and bits are those of the same call on host memory.
 *
 *   before  what the operation reads and writes comes after the work that the bound stream was given before the call
 *   after   when tess_work_wait returns, the result is in the device's memory: any stream may be given work on it
 *
 * How the bytes go. Memory of a device window is read by the team's other ranks on the host where it is, by one kernel
 * an operation. Between hosts NCCL moves the bytes: operations on windows, and messages from any memory of a GPU to any
 * other. All else is copied to the host, goes as host memory does, and is copied back. So an operation between ranks of
 * one host is fast where the memory that a rank shows is a window of that team on all ranks:
 *
 *   all_gather, all_gather_pieces       `in`, the shard (also that of a rank that owns nothing)
 *   reduce_scatter_pieces, _leaves      `full`
 *   all_reduce (sums of floats)         `in`, and in == out
 *   send                                `in`
 *   move of boxes                       the room, which is a window of its own
 *
 * The other ends are any memory of the device. */
#ifndef TESS_COMM_DEVICE_WINDOWS_H
#define TESS_COMM_DEVICE_WINDOWS_H

#include "device/device.h"
#include "tessera/comm.h"

enum { TESS_DEVICE_WINDOW_LEAST = 2 << 20 }; /* bytes; a GPU may not show a smaller block */

/* Allocates a zeroed block of `bytes` on the device of each rank (sizes may differ), which the team's ranks on this
 * host may read. If GPUs cannot access each other, the window is ordinary device memory, and operations on it pass
 * through the host. If one rank fails, all return its status. Collective over the team. */
tess_status tess_device_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out);
/* Allocates a window that only messages read. It does not connect the GPUs of several hosts for collectives. */
tess_status tess_device_outbox_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out);
/* Frees a window. NULL is allowed if all ranks pass it. Collective. */
void tess_device_window_free(tess_team *team, void *window);

/* Makes a window of a block that the caller has allocated (tess_device_alloc). A block may be a window of several
 * teams. Hide it from all of them before it is freed. */
tess_status tess_device_window_show(tess_team *team, void *memory, size_t bytes, const char *what);
void tess_device_window_hide(tess_team *team, void *memory);

#endif
