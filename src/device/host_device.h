/* The host as a device. */
#ifndef TESS_DEVICE_HOST_DEVICE_H
#define TESS_DEVICE_HOST_DEVICE_H

#include "device/stream_impl.h"

extern const tess_device_table tess_host_device_table;

tess_status tess_host_device_open(tess_mem *mem, tess_device **device);

/* Like tess_stream_create, for memory that is not dry. */
tess_status tess_host_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream);

#endif
