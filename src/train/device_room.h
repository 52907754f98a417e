/* The memory that ranks find on their GPUs, before any rank has opened one. */
#ifndef TESS_TRAIN_DEVICE_ROOM_H
#define TESS_TRAIN_DEVICE_ROOM_H

#include "config/config.h"
#include "tessera/memory.h"

/* Finds the bytes that are free for each of n_ranks ranks of this host on the GPU of the configuration, where least is
 * free. Ranks that share a GPU share its memory. A child process opens the GPUs, so that this one has none open when it
 * starts ranks. *bytes 0: the device does not say.
 * TESS_E_*: a GPU cannot be opened; the message is the device's */
tess_status tess_device_room(const tess_config *config, int n_ranks, int64_t *bytes);

#endif
