/* Shares a GPU's memory among processes of a host, with CUDA's IPC. The processes use the same GPU, or GPUs that can
 * read each other's memory. Opened memory remains owned by the process that allocated it. */
#include "device/cuda/cuda_peers.h"

#include <string.h>

#include "device/cuda/cuda_impl.h"

/* The driver puts smaller allocations into a common block, and a handle might identify that block instead of the
 * allocation. */
enum { OWN_BLOCK = 2 << 20 };

_Static_assert(sizeof(cuda_ipc) <= sizeof(tess_peer_handle), "a handle of CUDA's fits");

tess_status tess_cuda_peer_export(tess_device *device, void *memory, size_t bytes, tess_peer_handle *handle)
{
    cuda_device *d = (cuda_device *)device;
    cuda_ipc ipc = {{0}};
    TESS_TRY(tess_cuda_enter(d));
    TESS_TRY(tess_cuda_check_call(d, d->cu->ipc_get(&ipc, (cuda_address)(uintptr_t)memory),
                                  "show memory to other processes (CUDA IPC)"));
    TESS_CHECK((uintptr_t)memory % OWN_BLOCK == 0, TESS_E_UNSUPPORTED,
               "%s: a block of %zu bytes begins within one of the driver's, and CUDA IPC shows whole ones",
               d->base.properties.name, bytes);
    *handle = (tess_peer_handle){{0}};
    memcpy(handle, &ipc, sizeof(ipc));
    return TESS_OK;
}

/* The driver knows the size. */
tess_status tess_cuda_peer_import(tess_device *device, const tess_peer_handle *handle, TESS_UNUSED size_t bytes,
                                  void **out)
{
    cuda_device *d = (cuda_device *)device;
    cuda_ipc ipc;
    cuda_address memory = 0;
    memcpy(&ipc, handle, sizeof(ipc));
    TESS_TRY(tess_cuda_enter(d));
    TESS_TRY(tess_cuda_check_call(d, d->cu->ipc_open(&memory, ipc, CUDA_IPC_ENABLE_PEER_ACCESS),
                                  "open memory of another process (CUDA IPC)"));
    *out = (void *)(uintptr_t)memory;
    return TESS_OK;
}

void tess_cuda_peer_release(tess_device *device, void *memory, TESS_UNUSED size_t bytes)
{
    cuda_device *d = (cuda_device *)device;
    d->cu->context_set(d->context);
    d->cu->context_synchronize();
    d->cu->ipc_close((cuda_address)(uintptr_t)memory);
}
