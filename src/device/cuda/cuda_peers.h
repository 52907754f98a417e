/* The functions of a device's table that share its memory with other processes. */
#ifndef TESS_DEVICE_CUDA_CUDA_PEERS_H
#define TESS_DEVICE_CUDA_CUDA_PEERS_H

#include "device/device.h"

tess_status tess_cuda_peer_export(tess_device *device, void *memory, size_t bytes, tess_peer_handle *handle);
tess_status tess_cuda_peer_import(tess_device *device, const tess_peer_handle *handle, size_t bytes, void **out);
/* Waits until no enqueued operation uses the memory. */
void tess_cuda_peer_release(tess_device *device, void *memory, size_t bytes);

#endif
