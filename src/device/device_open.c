/* Opens the device with a given name, and creates streams of the host. Dry memory gets dry ones. */
#include <string.h>

#include "base/core/variables.h"
#include "base/mem/dry_mem.h"
#include "device/cuda/cuda_device.h"
#include "device/dry_device.h"
#include "device/far/far_device.h"
#include "device/host_device.h"

tess_status tess_device_open(tess_mem *mem, const char *name, int number, tess_device **device)
{
    *device = NULL;
    const char *from = "device";
    if (name == NULL) {
        name = tess_variable_value(TESS_VAR_DEVICE);
        from = "TESSERA_DEVICE";
    }
    if (tess_mem_is_dry(mem))
        return tess_dry_device_open(mem, name, device);
    if (name == NULL || name[0] == '\0' || strcmp(name, "cpu") == 0)
        return tess_host_device_open(mem, device);
    if (strcmp(name, "far") == 0)
        return tess_far_device_open(mem, device);
    if (strcmp(name, "cuda") == 0 || strncmp(name, "cuda:", strlen("cuda:")) == 0) {
        TESS_TRY_CTX(tess_cuda_device_open(mem, name, number, device), "%s '%s'", from, name);
        return TESS_OK;
    }
    return TESS_FAIL(TESS_E_INVALID, "%s '%s' is unknown: choose cpu, far or cuda", from, name);
}

tess_status tess_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream)
{
    return tess_mem_is_dry(mem) ? tess_dry_stream_create(mem, n_threads, kernels, stream)
                                : tess_host_stream_create(mem, n_threads, kernels, stream);
}
