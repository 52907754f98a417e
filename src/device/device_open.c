/* Which device a name stands for. */
#include <stdlib.h>
#include <string.h>

#include "device/far/far_device.h"
#include "device/host_device.h"

tess_status tess_device_open(tess_mem *mem, const char *name, tess_device **device)
{
    *device = NULL;
    const char *from = "device";
    if (name == NULL) {
        name = getenv("TESSERA_DEVICE");
        from = "TESSERA_DEVICE";
    }
    if (name == NULL || name[0] == '\0' || strcmp(name, "cpu") == 0)
        return tess_host_device_open(mem, device);
    if (strcmp(name, "far") == 0)
        return tess_far_device_open(mem, device);
    TESS_CHECK(strcmp(name, "cuda") != 0, TESS_E_UNSUPPORTED,
               "%s 'cuda': this build has no plug-in for NVIDIA GPUs; choose cpu", from);
    return TESS_FAIL(TESS_E_INVALID, "%s '%s' is unknown: choose cpu, far or cuda", from, name);
}
