/* The host as a device. Every operation is complete when its call returns. */
#include "device/host_device.h"

#include <stdio.h>
#include <string.h>

/* A stream of the host. One that was made without a device contains its own device. */
typedef struct host_stream {
    tess_stream base;
    tess_device own;
} host_stream;

static tess_status stream_create(tess_device *device, int n_threads, const char *kernels, tess_stream **stream)
{
    tess_mem *mem = device->mem;
    const tess_kernels *table;
    TESS_TRY_CTX(tess_kernels_select(kernels, &table), "create stream");
    TESS_CHECK(n_threads >= 1, TESS_E_INVALID, "create stream: %d threads; it takes at least 1", n_threads);
    void *block;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(host_stream), "stream", &block));
    tess_stream *s = block;
    s->kernels = table;
    s->device = device;
    s->mem = mem;
    tess_status status = tess_threads_create(mem, n_threads, &s->threads);
    if (status != TESS_OK) {
        tess_mem_free(mem, s);
        return tess_fail_context(status, "create stream");
    }
    *stream = s;
    return TESS_OK;
}

static void stream_destroy(tess_stream *s)
{
    tess_threads_destroy(&s->threads);
    tess_mem_free(s->mem, s->scratch);
    tess_mem_free(s->mem, s->outer_scratch);
    tess_mem_free(s->mem, s->wide_scratch);
    tess_mem_free(s->mem, s);
}

static tess_status copy(TESS_UNUSED tess_stream *stream, void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return TESS_OK;
}

static tess_status fill(TESS_UNUSED tess_stream *stream, void *to, int byte, size_t bytes)
{
    memset(to, byte, bytes);
    return TESS_OK;
}

static tess_status synchronize(TESS_UNUSED tess_stream *stream)
{
    return TESS_OK;
}

static tess_status event_create(tess_device *device, tess_event **event)
{
    return tess_mem_alloc(device->mem, TESS_POOL_MISC, sizeof(struct tess_event), "event", (void **)event);
}

static void event_destroy(tess_event *event)
{
    tess_mem_free(event->device->mem, event);
}

static tess_status event_on(TESS_UNUSED tess_event *event, TESS_UNUSED tess_stream *stream)
{
    return TESS_OK;
}

static tess_status event_query(TESS_UNUSED tess_event *event, bool *done)
{
    *done = true;
    return TESS_OK;
}

static tess_status event_synchronize(TESS_UNUSED tess_event *event)
{
    return TESS_OK;
}

static void close_host(tess_device *device)
{
    tess_mem_free(device->mem, device);
}

const tess_device_table tess_host_device_table = {
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .copy = copy,
    .upload = copy,
    .fill = fill,
    .synchronize = synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_on,
    .event_wait = event_on,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .close = close_host,
};

static void describe(tess_mem *mem, tess_device *device)
{
    device->table = &tess_host_device_table;
    device->mem = device->counted = mem;
    device->properties.host_memory = true;
    snprintf(device->properties.name, sizeof(device->properties.name), "cpu");
}

tess_status tess_host_device_open(tess_mem *mem, tess_device **device)
{
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**device), "device", (void **)device));
    describe(mem, *device);
    return TESS_OK;
}

tess_status tess_host_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream)
{
    tess_device device = {0};
    describe(mem, &device);
    TESS_TRY(stream_create(&device, n_threads, kernels, stream));
    host_stream *s = (host_stream *)*stream;
    describe(mem, &s->own);
    s->base.device = &s->own;
    return TESS_OK;
}
