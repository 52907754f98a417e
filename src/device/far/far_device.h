/* The far device: the host's kernels behind a queue, on memory that the host cannot touch. It shows without a GPU what
 * a GPU would: a host that reads a value in place dies with a message, and a wait that is missing gives wrong data.
 *
 * TESSERA_FAR_DELAYS=SEED:MICROSECONDS has the worker of every stream pause at random before one command in 16;
 * TESSERA_FAR_STALL=RANK:ROW:NUMBER:SECONDS has one command stall: the rank's that many-th of the row ("copy", too). */
#ifndef TESS_DEVICE_FAR_DEVICE_H
#define TESS_DEVICE_FAR_DEVICE_H

#include "device/device.h"

/* TESS_E_NOMEM: no room for two ranges of addresses; TESS_E_INVALID: TESSERA_FAR_DELAYS, TESSERA_FAR_STALL. */
tess_status tess_far_device_open(tess_mem *mem, tess_device **device);

#endif
