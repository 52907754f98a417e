/* The far device: the host's kernels behind a queue, with memory that the host cannot access. It finds without a GPU
 * the errors that a GPU would show: if the host reads a value in place, the process dies with a message, and if a wait
 * is missing, the data are wrong.
 *
 * TESSERA_FAR_DELAYS=SEED:MICROSECONDS makes the worker of each stream pause at random before one command in 16.
 * TESSERA_FAR_STALL=RANK:ROW:NUMBER:SECONDS makes one command of a rank stall: the NUMBER-th command of the row ("copy"
 * is allowed, too). */
#ifndef TESS_DEVICE_FAR_DEVICE_H
#define TESS_DEVICE_FAR_DEVICE_H

#include "device/device.h"

/* TESS_E_NOMEM: there is no address space for two ranges. TESS_E_INVALID: TESSERA_FAR_DELAYS or TESSERA_FAR_STALL is
 * wrong. */
tess_status tess_far_device_open(tess_mem *mem, tess_device **device);

#endif
