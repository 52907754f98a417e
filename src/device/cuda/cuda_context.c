/* Calls of the driver that need the context of a device to be current. */
#include "device/cuda/cuda_impl.h"

tess_status tess_cuda_check_call(const cuda_device *d, int error, const char *what)
{
    tess_status status = tess_cuda_check(d->cu, error, d->base.properties.name, what);
    return tess_cuda_is_of_queue(error) ? tess_fail_context(status, "newest kernel %s", d->newest) : status;
}

tess_status tess_cuda_enter(const cuda_device *d)
{
    return tess_cuda_check_call(d, d->cu->context_set(d->context), "make its context the thread's");
}
