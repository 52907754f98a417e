/* Measures kernels on a device other than the host, with the device's own time between two events. A copy that
 * empties the caches is enqueued before the first event. So the host has enqueued the kernels before the device
 * reaches them. */
#include "base/os/os.h"
#include "bench/kernels/kernels_impl.h"

static tess_status evict(const kernels_apart *a)
{
    return tess_stream_copy(a->stream, a->y, a->x, a->bytes);
}

static tess_status begin(void *self)
{
    kernels_apart *a = self;
    TESS_TRY(evict(a));
    if (a->from != NULL)
        return tess_event_record(a->from, a->stream);
    TESS_TRY(tess_stream_synchronize(a->stream));
    a->from_s = tess_os_now_s();
    return TESS_OK;
}

static tess_status end(void *self, double *seconds)
{
    kernels_apart *a = self;
    if (a->to != NULL)
        TESS_TRY(tess_event_record(a->to, a->stream));
    TESS_TRY(tess_stream_synchronize(a->stream));
    if (a->to != NULL)
        return tess_event_elapsed(a->from, a->to, seconds);
    *seconds = tess_os_now_s() - a->from_s;
    return TESS_OK;
}

/* Returns the bytes read and written per second; 0: the copy failed, and the next call reports it. */
static double copy_rate(const kernels_apart *a)
{
    double seconds = 0;
    const tess_bench_clock *clock = &a->clock;
    bool good =
        clock->begin(clock->self) == TESS_OK && evict(a) == TESS_OK && clock->end(clock->self, &seconds) == TESS_OK;
    return good && seconds > 0 ? 2 * (double)a->bytes / seconds : 0;
}

double kernels_apart_limit(const kernels_apart *a, int limit)
{
    const tess_device_properties *p = tess_device_get_properties(a->device);
    return limit == KERNELS_LIMIT_BF16 ? p->flops_bf16 : limit == KERNELS_LIMIT_F32 ? p->flops_f32 : copy_rate(a);
}

static tess_status build(kernels_apart *a, const tess_bench_options *options)
{
    const char *table = options->common.table[0] != '\0' ? options->common.table : NULL;
    a->bytes = (size_t)(options->common.quick ? 4 : 256) << 20;
    TESS_TRY(tess_device_stream(a->device, tess_bench_threads(options), table, &a->stream));
    TESS_TRY(tess_device_alloc(a->device, TESS_POOL_MISC, a->bytes, "bench traffic", (void **)&a->x));
    TESS_TRY(tess_device_alloc(a->device, TESS_POOL_MISC, a->bytes, "bench traffic", (void **)&a->y));
    if (tess_event_create_timed(a->device, &a->from) != TESS_OK) {
        tess_error_clear();
        return TESS_OK;
    }
    return tess_event_create_timed(a->device, &a->to);
}

tess_status kernels_apart_open(kernels_apart *a, tess_mem *mem, const tess_bench_options *options)
{
    *a = (kernels_apart){.clock = {begin, end, a}};
    const char *name = options->kernels.device[0] != '\0' ? options->kernels.device : NULL;
    TESS_TRY(tess_device_open(mem, name, 0, &a->device));
    if (!tess_device_get_properties(a->device)->host_memory)
        return build(a, options);
    tess_device_close(&a->device);
    return TESS_OK;
}

void kernels_apart_close(kernels_apart *a)
{
    if (a->device == NULL)
        return;
    tess_event_destroy(&a->from);
    tess_event_destroy(&a->to);
    tess_device_free(a->device, a->x);
    tess_device_free(a->device, a->y);
    if (a->stream != NULL)
        tess_stream_destroy(&a->stream);
    tess_device_close(&a->device);
}
