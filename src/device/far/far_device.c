#include "device/far/far_device.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/address_space.h"
#include "base/os/os.h"
#include "device/far/far_impl.h"
#include "device/host_device.h"

enum { PAGE = 4096 };

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1 + (bytes == 0)) & ~(size_t)(PAGE - 1);
}

/* ---- Memory ---- */
static tess_status take_range(far_device *d, size_t bytes, char **out)
{
    pthread_mutex_lock(&d->base.lock);
    size_t top = d->top, room = FAR_RANGE - top;
    bool fits = bytes <= FAR_RANGE && pages(bytes) <= room;
    if (fits)
        d->top += pages(bytes);
    pthread_mutex_unlock(&d->base.lock);
    TESS_CHECK(fits, TESS_E_NOMEM, "device far gives out %zu GiB of addresses once, and %zu bytes are left",
               FAR_RANGE >> 30, room);
    *out = d->shown + top;
    return TESS_OK;
}

static tess_status far_alloc(tess_device *device, size_t bytes, TESS_UNUSED const char *what, void **out)
{
    char *memory = NULL;
    TESS_TRY(take_range((far_device *)device, bytes, &memory));
    *out = memory;
    return TESS_OK;
}

/* Waits for all streams. Other threads cannot create or destroy streams meanwhile. */
static void drain_all(far_device *d)
{
    pthread_mutex_lock(&d->streams_lock);
    for (far_stream *s = d->streams; s != NULL; s = s->next)
        far_drain(s);
    pthread_mutex_unlock(&d->streams_lock);
}

static void far_free(tess_device *device, void *memory, size_t bytes)
{
    far_device *d = (far_device *)device;
    drain_all(d);
    char *at = (char *)memory + d->constant;
    madvise(at, pages(bytes), MADV_REMOVE);
    mprotect(at, pages(bytes), PROT_NONE); /* a kernel that uses this memory later faults */
}

/* ---- Streams ---- */
static void destroy(tess_stream *stream)
{
    far_stream *s = (far_stream *)stream;
    far_device *d = (far_device *)s->base.device;
    /* The stream must be empty before it leaves the list: its commands may use memory that other threads free */
    far_drain(s);
    pthread_mutex_lock(&d->streams_lock);
    far_stream **link = &d->streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    pthread_mutex_unlock(&d->streams_lock);
    far_queue_stop(s);
    tess_stream_log_close(&s->base);
    tess_threads_destroy(&s->base.threads);
    tess_stream_destroy(&s->inner);
    tess_mem_free(s->base.mem, s);
}

static tess_status create(tess_device *device, int n_threads, const char *kernels, tess_stream **stream)
{
    far_device *d = (far_device *)device;
    tess_mem *mem = device->mem;
    tess_status status;
    far_stream *s;
    TESS_TRY(TESS_NEW(mem, 1, "stream", &s));
    s->base.device = device;
    s->base.mem = mem;
    s->base.kernels = &s->table;
    TESS_GOTO(tess_host_stream_create(device->counted, n_threads, kernels, &s->inner), block);
    far_rows(&s->table, s->inner->kernels);
    TESS_GOTO(tess_threads_create(mem, n_threads, &s->base.threads), inner);
    pthread_mutex_lock(&d->streams_lock);
    s->number = d->n_streams_made++;
    pthread_mutex_unlock(&d->streams_lock);
    TESS_GOTO(far_queue_start(s), threads);
    pthread_mutex_lock(&d->streams_lock);
    s->next = d->streams;
    d->streams = s;
    pthread_mutex_unlock(&d->streams_lock);
    *stream = &s->base;
    return TESS_OK;
threads:
    tess_threads_destroy(&s->base.threads);
inner:
    tess_stream_destroy(&s->inner);
block:
    tess_mem_free(mem, s);
    return status;
}

/* Returns an address for the copy: addresses of the device are translated, those of the host stay. */
static void *reach(const far_device *d, const void *p)
{
    return (char *)p + (far_is_mine(d, p) ? d->constant : 0);
}

/* Enqueues an operation of the device's own, with a copy of `bytes` bytes of `tail`. */
static tess_status enqueue(tess_stream *stream, far_call call, const void *tail, size_t bytes)
{
    far_command *command;
    TESS_TRY(far_command_create((far_stream *)stream, &call, bytes, &command));
    if (bytes > 0)
        memcpy(command->tail, tail, bytes);
    far_enqueue((far_stream *)stream, command);
    return TESS_OK;
}

static tess_status run_copy(TESS_UNUSED tess_stream *inner, const far_call *c)
{
    memmove(c->to, c->from, (size_t)c->n);
    return TESS_OK;
}

static tess_status copy(tess_stream *stream, void *to, const void *from, size_t bytes)
{
    const far_device *d = (const far_device *)stream->device;
    return enqueue(stream,
                   (far_call){.name = "copy",
                              .run = run_copy,
                              .log_bytes = bytes,
                              .to = reach(d, to),
                              .from = reach(d, from),
                              .n = (int64_t)bytes},
                   NULL, 0);
}

static tess_status run_upload(TESS_UNUSED tess_stream *inner, const far_call *c)
{
    memcpy(c->to, c->tail, (size_t)c->n);
    return TESS_OK;
}

static tess_status upload(tess_stream *stream, void *to, const void *from, size_t bytes)
{
    const far_device *d = (const far_device *)stream->device;
    return enqueue(stream, (far_call){.name = "upload", .run = run_upload, .to = reach(d, to), .n = (int64_t)bytes},
                   from, bytes);
}

static tess_status run_fill(TESS_UNUSED tess_stream *inner, const far_call *c)
{
    memset(c->to, c->byte, (size_t)c->n);
    return TESS_OK;
}

static tess_status fill(tess_stream *stream, void *to, int byte, size_t bytes)
{
    const far_device *d = (const far_device *)stream->device;
    return enqueue(
        stream,
        (far_call){
            .name = "fill", .run = run_fill, .log_bytes = bytes, .to = reach(d, to), .n = (int64_t)bytes, .byte = byte},
        NULL, 0);
}

/* ---- Other processes ---- */
/* The handle: process, file, offset and size. A process that may read this one's /proc folder opens its memory file. */
static tess_status peer_export(tess_device *device, void *memory, size_t bytes, tess_peer_handle *handle)
{
    const far_device *d = (const far_device *)device;
    *handle = (tess_peer_handle){
        {(uint64_t)getpid(), (uint64_t)d->file, (uint64_t)((char *)memory - d->shown), (uint64_t)bytes}};
    return TESS_OK;
}

static tess_status peer_import(tess_device *device, const tess_peer_handle *handle, size_t bytes, void **out)
{
    far_device *d = (far_device *)device;
    const uint64_t *w = handle->words;
    TESS_CHECK(w[3] == bytes && w[2] % PAGE == 0 && w[2] <= FAR_RANGE && bytes <= FAR_RANGE - w[2], TESS_E_INVALID,
               "import of %zu bytes of a peer: it exported %llu bytes", bytes, (unsigned long long)w[3]);
    char path[64], *memory = NULL;
    snprintf(path, sizeof(path), "/proc/%llu/fd/%llu", (unsigned long long)w[0], (unsigned long long)w[1]);
    TESS_TRY(take_range(d, bytes, &memory));
    int file = open(path, O_RDWR | O_CLOEXEC);
    TESS_CHECK(file >= 0, TESS_E_PEER_LOST, "import memory of process %llu: %s: %s", (unsigned long long)w[0], path,
               strerror(errno));
    void *at =
        mmap(memory + d->constant, pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)w[2]);
    int error = errno;
    tess_os_close(&file);
    TESS_CHECK(at != MAP_FAILED, TESS_E_NOMEM, "import memory of process %llu: %s", (unsigned long long)w[0],
               strerror(error));
    *out = memory;
    return TESS_OK;
}

static void peer_release(tess_device *device, void *memory, size_t bytes)
{
    far_device *d = (far_device *)device;
    drain_all(d);
    mmap((char *)memory + d->constant, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
}

/* ---- Opening ---- */
static void close_far(tess_device *device)
{
    far_device *d = (far_device *)device;
    far_forget_faults(d);
    munmap(d->shown + d->constant, FAR_RANGE);
    munmap(d->shown, FAR_RANGE);
    tess_os_close(&d->file);
    tess_mem_destroy(&d->base.counted);
    pthread_mutex_destroy(&d->streams_lock);
    pthread_mutex_destroy(&d->base.lock);
    tess_mem_free(d->base.mem, d);
}

static const tess_device_table far_table = {
    .alloc = far_alloc,
    .free = far_free,
    .stream_create = create,
    .stream_destroy = destroy,
    .copy = copy,
    .upload = upload,
    .fill = fill,
    .synchronize = far_synchronize,
    .log_stream = far_log_stream,
    .event_create = far_event_create,
    .event_destroy = far_event_destroy,
    .event_record = far_event_record,
    .event_wait = far_event_wait,
    .event_query = far_event_query,
    .event_synchronize = far_event_synchronize,
    .peer_export = peer_export,
    .peer_import = peer_import,
    .peer_release = peer_release,
    .close = close_far,
};

static tess_status read_delays(far_device *d)
{
    const char *text = tess_variable_value(TESS_VAR_FAR_DELAYS);
    if (text == NULL || text[0] == '\0')
        return TESS_OK;
    unsigned long long seed;
    long long longest;
    char rest;
    TESS_CHECK(sscanf(text, "%llu:%lld%c", &seed, &longest, &rest) == 2 && longest >= 0 && longest <= 1000000,
               TESS_E_INVALID, "TESSERA_FAR_DELAYS '%s' is not SEED:MICROSECONDS, such as 7:200 (at most 1000000)",
               text);
    d->delay_seed = seed;
    d->delay_us = longest;
    return TESS_OK;
}

/* Reads TESSERA_FAR_STALL. A stall of another rank is ignored. */
static tess_status read_stall(far_device *d)
{
    const char *text = tess_variable_value(TESS_VAR_FAR_STALL), *rank = tess_variable_value(TESS_VAR_RANK);
    if (text == NULL || text[0] == '\0')
        return TESS_OK;
    int whose;
    char rest, row[sizeof(d->stall.row)];
    int n = sscanf(text, "%d:%31[^:]:%" SCNd64 ":%lf%c", &whose, row, &d->stall.left, &d->stall.seconds, &rest);
    TESS_CHECK(n == 4 && d->stall.left > 0 && d->stall.seconds >= 0 && d->stall.seconds <= 3600, TESS_E_INVALID,
               "TESSERA_FAR_STALL '%s' is not RANK:ROW:NUMBER:SECONDS, such as 1:attention:3:20", text);
    if (whose == (rank != NULL ? atoi(rank) : 0))
        memcpy(d->stall.row, row, sizeof(row));
    return TESS_OK;
}

static tess_status map_ranges(far_device *d)
{
    char hint[TESS_ADDRESS_SPACE_TEXT];
    void *shown = mmap(NULL, FAR_RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *alias = mmap(NULL, FAR_RANGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, d->file, 0);
    if (shown != MAP_FAILED && alias != MAP_FAILED) {
        d->shown = shown;
        d->constant = (char *)alias - (char *)shown;
        return TESS_OK;
    }
    if (shown != MAP_FAILED)
        munmap(shown, FAR_RANGE);
    if (alias != MAP_FAILED)
        munmap(alias, FAR_RANGE);
    return TESS_FAIL(TESS_E_NOMEM, "device far: cannot map two ranges of %zu GiB of addresses%s", FAR_RANGE >> 30,
                     tess_os_address_space_hint(hint));
}

tess_status tess_far_device_open(tess_mem *mem, tess_device **device)
{
    tess_status status;
    far_device *d;
    TESS_TRY(TESS_NEW(mem, 1, "device", &d));
    d->base.table = &far_table;
    d->base.mem = mem;
    d->base.properties = (tess_device_properties){.name = "far", .memory_bytes = FAR_RANGE, .peers = true};
    TESS_GOTO(read_delays(d), block);
    TESS_GOTO(read_stall(d), block);
    TESS_GOTO(tess_mem_create(&d->base.counted), block);
    TESS_GOTO(tess_os_memfd("tessera-far", FAR_RANGE, &d->file), counted);
    TESS_GOTO(map_ranges(d), file);
    pthread_mutex_init(&d->base.lock, NULL);
    pthread_mutex_init(&d->streams_lock, NULL);
    far_explain_faults(d);
    *device = &d->base;
    return TESS_OK;
file:
    tess_os_close(&d->file);
counted:
    tess_mem_destroy(&d->base.counted);
block:
    tess_mem_free(mem, d);
    return status;
}
