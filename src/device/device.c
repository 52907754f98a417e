/* The common part of all devices: the list of their memory blocks, and copies that wait. */
#include "base/core/round_up.h"
#include "base/mem/scoped.h"
#include "device/stream_impl.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const tess_device_properties *tess_device_get_properties(const tess_device *device)
{
    return &device->properties;
}

size_t tess_device_close(tess_device **device)
{
    tess_device *d = *device;
    if (d == NULL)
        return 0;
    size_t left = 0;
    for (tess_device_block *b = d->blocks, *next; b != NULL; b = next) {
        next = b->next;
        left += !b->freed;
        tess_mem_free(d->mem, b);
    }
    if (d->log != NULL)
        tess_device_unpin(d, d->log);
    d->table->close(d);
    *device = NULL;
    return left;
}

/* ---- The list of blocks ---- */
const tess_device_block *tess_device_find(const tess_device *device, const void *address)
{
    const char *at = address;
    const tess_device_block *freed = NULL;
    for (const tess_device_block *b = atomic_load(&device->blocks); b != NULL; b = b->next) {
        if (at < b->memory || at >= b->memory + (b->bytes > 0 ? b->bytes : 1))
            continue;
        if (!b->freed)
            return b;
        freed = freed != NULL ? freed : b;
    }
    return freed;
}

/* Adds a block to the list. If its address was used before, the old entry is replaced. */
static tess_status enter(tess_device *d, const tess_device_block *block)
{
    pthread_mutex_lock(&d->lock);
    tess_device_block *b = d->blocks;
    while (b != NULL && b->memory != block->memory)
        b = b->next;
    tess_status status = TESS_OK;
    if (b == NULL) {
        status = TESS_NEW(d->mem, 1, "a device's book of memory", &b);
        if (status == TESS_OK) {
            *b = *block;
            b->next = d->blocks;
            atomic_store(&d->blocks, b);
        }
    } else {
        tess_device_block *next = b->next;
        int n_imports = b->freed ? 0 : b->n_imports;
        *b = *block;
        b->next = next;
        b->n_imports += n_imports;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

static tess_device_block *live_block(tess_device *d, const void *memory)
{
    pthread_mutex_lock(&d->lock);
    tess_device_block *b = d->blocks;
    while (b != NULL && (b->memory != memory || b->freed))
        b = b->next;
    pthread_mutex_unlock(&d->lock);
    if (b == NULL)
        __builtin_trap(); /* it was freed twice, or belongs to another device: continuing would corrupt its memory */
    return b;
}

/* Fails unless [at, at + bytes), which the host copies from or to, is in one live block of the device. */
static tess_status check_range(tess_device *d, const char *action, const void *at, size_t bytes)
{
    if (d->properties.host_memory || bytes == 0)
        return TESS_OK;
    tess_device_block copy = {0};
    pthread_mutex_lock(&d->lock);
    const tess_device_block *found = tess_device_find(d, at);
    if (found != NULL)
        copy = *found;
    pthread_mutex_unlock(&d->lock);
    const char *device = d->properties.name;
    TESS_CHECK(copy.memory != NULL, TESS_E_INVALID, "%s of %zu bytes at %p: no memory of device %s", action, bytes, at,
               device);
    TESS_CHECK(!copy.freed, TESS_E_INVALID,
               "%s of %zu bytes of '%s' (device %s, %zu bytes, pool %s): it was freed; free it later", action, bytes,
               copy.what, device, copy.bytes, tess_pool_name(copy.pool));
    size_t offset = (size_t)((const char *)at - copy.memory);
    TESS_CHECK(bytes <= copy.bytes - offset, TESS_E_INVALID,
               "%s of %zu bytes from byte %zu of '%s' (device %s), which has %zu bytes", action, bytes, offset,
               copy.what, device, copy.bytes);
    return TESS_OK;
}

/* ---- Memory ---- */
tess_status tess_device_alloc(tess_device *d, tess_pool pool, size_t bytes, const char *what, void **out)
{
    if (d->properties.host_memory)
        return tess_mem_alloc(d->mem, pool, bytes, what, out);
    TESS_TRY_CTX(d->table->alloc(d, bytes, what, out),
                 "cannot allocate %zu bytes for %s (device %s, pool %s, %zu bytes in use)", bytes, what,
                 d->properties.name, tess_pool_name(pool), tess_mem_stats(d->counted, pool).bytes);
    tess_device_block block = {.memory = *out, .bytes = bytes, .pool = pool};
    snprintf(block.what, sizeof(block.what), "%s", what);
    tess_status status = enter(d, &block);
    if (status != TESS_OK) {
        d->table->free(d, *out, bytes);
        return status;
    }
    tess_mem_count(d->counted, pool, (int64_t)bytes);
    return TESS_OK;
}

void tess_device_free(tess_device *d, void *memory)
{
    if (d->properties.host_memory) {
        tess_mem_free(d->mem, memory);
        return;
    }
    if (memory == NULL)
        return;
    tess_device_block *b = live_block(d, memory);
    tess_mem_count(d->counted, b->pool, -(int64_t)b->bytes);
    size_t bytes = b->bytes;
    pthread_mutex_lock(&d->lock);
    b->freed = true;
    pthread_mutex_unlock(&d->lock);
    d->table->free(d, memory, bytes);
}

tess_pool_stats tess_device_mem_stats(const tess_device *d, tess_pool pool)
{
    return tess_mem_stats(d->counted, pool);
}

enum { PAGE = 4096 };

tess_status tess_device_memory_left(tess_device *d, size_t *bytes)
{
    *bytes = SIZE_MAX;
    return d->table->memory_left != NULL ? d->table->memory_left(d, bytes) : TESS_OK;
}

/* Pages that are prepared for a device hold nothing else, because a copy from a range that is only partly prepared is
 * an error. The address of the pool's block is stored in front of the pages. If the system refuses, copies still work,
 * but slower. */
static tess_status alloc_pages(tess_device *d, tess_pool pool, size_t bytes, const char *what, void **out)
{
    size_t whole = tess_round_up(bytes + (bytes == 0), PAGE);
    void *block;
    TESS_CHECK(bytes < SIZE_MAX - 3 * PAGE, TESS_E_NOMEM, "cannot allocate %zu bytes for %s", bytes, what);
    TESS_TRY(tess_mem_alloc(d->mem, pool, sizeof(block) + PAGE - 1 + whole, what, &block));
    void **pages = (void **)tess_round_up((uintptr_t)block + sizeof(block), PAGE);
    if (d->table->pin(d, pages, whole) != TESS_OK)
        tess_error_clear();
    pages[-1] = block;
    *out = pages;
    return TESS_OK;
}

tess_status tess_device_alloc_pinned(tess_device *d, tess_pool pool, size_t bytes, const char *what, void **out)
{
    *out = NULL;
    return d->table->pin == NULL ? tess_mem_alloc(d->mem, pool, bytes, what, out)
                                 : alloc_pages(d, pool, bytes, what, out);
}

void tess_device_free_pinned(tess_device *d, void *host)
{
    if (host == NULL)
        return;
    if (d->table->unpin != NULL)
        d->table->unpin(d, host);
    tess_mem_free(d->mem, d->table->unpin != NULL ? ((void **)host)[-1] : host);
}

/* Returns the link to the range that overlaps [pages, pages + bytes), or the link where such a range would be
 * inserted. */
static tess_pinned **find_pinned(tess_device *d, const char *pages, size_t bytes)
{
    tess_pinned **at = &d->pinned;
    while (*at != NULL && (pages + bytes <= (*at)->pages || pages >= (*at)->pages + (*at)->bytes))
        at = &(*at)->next;
    return at;
}

static tess_status pin_locked(tess_device *d, char *pages, size_t bytes)
{
    tess_pinned *p = *find_pinned(d, pages, bytes);
    if (p != NULL) {
        TESS_CHECK(pages >= p->pages && pages + bytes <= p->pages + p->bytes, TESS_E_INVALID,
                   "device %s: %zu bytes of the host's memory at %p are pinned in part", d->properties.name, bytes,
                   (void *)pages);
        p->n_users++;
        return TESS_OK;
    }
    TESS_TRY(TESS_NEW(d->mem, 1, "pinned memory", &p));
    tess_status status = d->table->pin(d, pages, bytes);
    if (status != TESS_OK) {
        tess_mem_free(d->mem, p);
        return status;
    }
    *p = (tess_pinned){.next = d->pinned, .pages = pages, .bytes = bytes, .n_users = 1};
    d->pinned = p;
    return TESS_OK;
}

tess_status tess_device_pin(tess_device *d, void *host, size_t bytes)
{
    if (d->table->pin == NULL || bytes == 0)
        return TESS_OK;
    char *pages = (char *)((uintptr_t)host / PAGE * PAGE);
    size_t whole = tess_round_up((size_t)((char *)host - pages) + bytes, PAGE);
    pthread_mutex_lock(&d->lock);
    tess_status status = pin_locked(d, pages, whole);
    pthread_mutex_unlock(&d->lock);
    return status;
}

void tess_device_unpin(tess_device *d, void *host)
{
    if (d->table->pin == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    tess_pinned **at = find_pinned(d, host, 1), *p = *at;
    if (p == NULL)
        __builtin_trap(); /* it was unpinned twice: pages that the device may still copy would be released */
    if (--p->n_users == 0) {
        *at = p->next;
        d->table->unpin(d, p->pages);
        tess_mem_free(d->mem, p);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- Streams ---- */
tess_status tess_device_stream(tess_device *d, int n_threads, const char *kernels, tess_stream **stream)
{
    *stream = NULL;
    return d->table->stream_create(d, n_threads, kernels, stream);
}

void tess_device_set_log(tess_device *d, tess_device_log *log)
{
    if (d->table->log_stream == NULL || log == NULL)
        return;
    memset(log, 0, sizeof(*log));
    if (tess_device_pin(d, log, sizeof(*log)) == TESS_OK)
        d->log = log;
    else
        tess_error_clear();
}

/* A stream for which the log has no room is not logged. */
static tess_stream_log *take_log(tess_device_log *log)
{
    for (int i = 0; i < TESS_LOG_STREAMS; i++)
        if (atomic_exchange(&log->streams[i].is_used, 1) == 0)
            return &log->streams[i];
    return NULL;
}

void tess_stream_set_name(tess_stream *s, const char *name)
{
    tess_device *d = s->device;
    if (d->log == NULL || s->log != NULL || (s->log = take_log(d->log)) == NULL)
        return;
    snprintf(s->log->name, sizeof(s->log->name), "%s", name);
    tess_stream_log_unit(s->log, "", -1);
    if (d->table->log_stream(s) == TESS_OK)
        return;
    tess_error_clear();
    tess_stream_log_close(s);
}

void tess_stream_log_close(tess_stream *s)
{
    enum { FIRST = offsetof(tess_stream_log, done) };
    if (s->log == NULL)
        return;
    memset((char *)s->log + FIRST, 0, sizeof(*s->log) - FIRST);
    atomic_store(&s->log->is_used, 0); /* stored last, because another thread may take the log afterwards */
    s->log = NULL;
}

void tess_stream_set_unit(tess_stream *s, const char *unit, int number)
{
    if (s->log != NULL)
        tess_stream_log_unit(s->log, unit, number);
}

tess_status tess_stream_copy(tess_stream *s, void *to, const void *from, size_t bytes)
{
    return bytes == 0 ? TESS_OK : s->device->table->copy(s, to, from, bytes);
}

tess_status tess_stream_fill(tess_stream *s, void *to, int byte, size_t bytes)
{
    return bytes == 0 ? TESS_OK : s->device->table->fill(s, to, byte, bytes);
}

tess_status tess_stream_synchronize(tess_stream *s)
{
    return s->device->table->synchronize(s);
}

tess_status tess_upload(tess_stream *s, void *to, const void *from, size_t bytes)
{
    TESS_TRY(check_range(s->device, "upload", to, bytes));
    return bytes == 0 ? TESS_OK : s->device->table->upload(s, to, from, bytes);
}

tess_status tess_fetch(tess_stream *s, void *to, const void *from, size_t bytes)
{
    TESS_TRY(check_range(s->device, "fetch", from, bytes));
    TESS_TRY(tess_stream_copy(s, to, from, bytes));
    return tess_stream_synchronize(s);
}

tess_status tess_view(tess_stream *s, const void *from, size_t bytes, void *room, const void **seen)
{
    *seen = s->device->properties.host_memory ? from : room;
    return *seen == from ? TESS_OK : tess_fetch(s, room, from, bytes);
}

/* ---- Events ---- */
tess_status tess_event_create_timed(tess_device *d, tess_event **event)
{
    *event = NULL;
    TESS_CHECK(d->table->event_create_timed != NULL, TESS_E_UNSUPPORTED, "device %s tells no times",
               d->properties.name);
    TESS_TRY(d->table->event_create_timed(d, event));
    (*event)->device = d;
    return TESS_OK;
}

tess_status tess_event_elapsed(const tess_event *from, const tess_event *to, double *seconds)
{
    return from->device->table->event_elapsed(from, to, seconds);
}

tess_status tess_event_create(tess_device *d, tess_event **event)
{
    *event = NULL;
    TESS_TRY(d->table->event_create(d, event));
    (*event)->device = d;
    return TESS_OK;
}

void tess_event_destroy(tess_event **event)
{
    if (*event != NULL)
        (*event)->device->table->event_destroy(*event);
    *event = NULL;
}

tess_status tess_event_record(tess_event *event, tess_stream *stream)
{
    return event->device->table->event_record(event, stream);
}

tess_status tess_event_wait(tess_event *event, tess_stream *stream)
{
    return event->device->table->event_wait(event, stream);
}

tess_status tess_event_query(tess_event *event, bool *done)
{
    return event->device->table->event_query(event, done);
}

tess_status tess_event_synchronize(tess_event *event)
{
    return event->device->table->event_synchronize(event);
}

/* ---- Other processes ---- */
static tess_status check_peers(const tess_device *d)
{
    TESS_CHECK(d->properties.peers, TESS_E_UNSUPPORTED,
               "device %s: its memory cannot be shown to other processes; use windows of the job's memory",
               d->properties.name);
    return TESS_OK;
}

tess_status tess_peer_export(tess_device *d, void *memory, tess_peer_handle *handle)
{
    TESS_TRY(check_peers(d));
    const tess_device_block *block = tess_device_find(d, memory);
    bool is_empty = block != NULL && !block->freed && block->bytes == 0; /* a rank that owns nothing has such a block */
    TESS_TRY(check_range(d, "export", memory, !is_empty));
    return d->table->peer_export(d, memory, live_block(d, memory)->bytes, handle);
}

tess_status tess_peer_import(tess_device *d, const tess_peer_handle *handle, size_t bytes, void **out)
{
    TESS_TRY(check_peers(d));
    TESS_TRY(d->table->peer_import(d, handle, bytes, out));
    tess_device_block block = {.memory = *out, .bytes = bytes, .n_imports = 1, .what = "memory of a peer"};
    tess_status status = enter(d, &block);
    if (status != TESS_OK)
        d->table->peer_release(d, *out, bytes);
    return status;
}

void tess_peer_release(tess_device *d, void *memory)
{
    tess_device_block *b = live_block(d, memory);
    pthread_mutex_lock(&d->lock);
    b->freed = --b->n_imports == 0;
    pthread_mutex_unlock(&d->lock);
    d->table->peer_release(d, memory, b->bytes);
}
