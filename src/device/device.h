/* Devices: memory, queues, events. A device is a table of functions; what stands above it sees no other difference
 * between the host, the far device of the tests and a GPU.
 *
 * Order. A stream's kernels, copies and fills run one after the other. Nothing else is ordered but by an event:
 * recorded on one stream, waited for on another, or by the host. What the host passes to a kernel as a descriptor is
 * consumed before the call returns; values are memory of the device (device/kernels.h). The host reads a value by
 * tess_fetch and nowhere else.
 *
 * On the host all of this is immediate: memory is the pool's, a copy is memcpy, and waiting is nothing.
 *
 * An error inside of what was enqueued comes from the next call that waits for its stream; until then the stream's
 * further work is dropped, because it would compute on what was never written. Thread-safe, but one thread at a time
 * uses a stream or an event. */
#ifndef TESS_DEVICE_DEVICE_H
#define TESS_DEVICE_DEVICE_H

#include <pthread.h>

#include "device/stream.h"
#include "trace/stream_log.h"

typedef struct tess_event tess_event;

typedef struct tess_device_properties {
    char name[64];       /* "cpu", "far", "cuda:0 (NVIDIA H100 PCIe)" */
    char place[32];      /* "0000:10:00.0": the same for all processes of the host that use it; "": it is this one's */
    bool host_memory;    /* the host may touch its memory, and whatever is called is complete on return */
    size_t memory_bytes; /* 0: unknown */
    bool peers;          /* memory can be shown to other processes */
    double flops_f32,
        flops_bf16;     /* operations a second as its maker states them, 0: unknown, or the host's to measure */
    double memory_rate; /* bytes a second, likewise */
} tess_device_properties;

/* Names memory of a device to another process of the host. Plain bytes: send them as they are. */
typedef struct tess_peer_handle {
    uint64_t words[16];
} tess_peer_handle;

/* The functions that a device provides. Preconditions are checked by device.c. */
typedef struct tess_device_table {
    /* Zeroed, aligned to 256 bytes. Not called where host_memory is set. */
    tess_status (*alloc)(tess_device *device, size_t bytes, const char *what, void **out);
    /* Nothing that is enqueued uses the memory when this returns. */
    void (*free)(tess_device *device, void *memory, size_t bytes);
    /* Memory of the host, whole pages, gets ready for fast copies. NULL: needs no preparation. */
    tess_status (*pin)(tess_device *device, void *host, size_t bytes);
    void (*unpin)(tess_device *device, void *host);

    tess_status (*stream_create)(tess_device *device, int n_threads, const char *kernels, tess_stream **stream);
    void (*stream_destroy)(tess_stream *stream);
    tess_status (*copy)(tess_stream *stream, void *to, const void *from, size_t bytes);
    tess_status (*upload)(tess_stream *stream, void *to, const void *from, size_t bytes); /* consumes `from` at once */
    tess_status (*fill)(tess_stream *stream, void *to, int byte, size_t bytes);
    tess_status (*synchronize)(tess_stream *stream);

    tess_status (*event_create)(tess_device *device, tess_event **event);
    void (*event_destroy)(tess_event *event);
    tess_status (*event_record)(tess_event *event, tess_stream *stream);
    tess_status (*event_wait)(tess_event *event, tess_stream *stream);
    tess_status (*event_query)(tess_event *event, bool *done);
    tess_status (*event_synchronize)(tess_event *event);
    /* NULL: the device measures no times. */
    tess_status (*event_create_timed)(tess_device *device, tess_event **event);
    tess_status (*event_elapsed)(const tess_event *from, const tess_event *to, double *seconds);

    /* NULL where properties.peers is not set. */
    tess_status (*peer_export)(tess_device *device, void *memory, size_t bytes, tess_peer_handle *handle);
    tess_status (*peer_import)(tess_device *device, const tess_peer_handle *handle, size_t bytes, void **out);
    void (*peer_release)(tess_device *device, void *memory, size_t bytes);

    /* NULL: it is not known. */
    tess_status (*memory_left)(tess_device *device, size_t *bytes);
    /* Makes the device write how far the stream has come to stream->log from now on. NULL: it cannot. */
    tess_status (*log_stream)(tess_stream *stream);

    void (*close)(tess_device *device);
} tess_device_table;

/* A block of a device whose memory the host cannot read. A freed one stays listed, so that a message can name it. The
 * list only grows at its head: a signal handler may walk it. */
typedef struct tess_device_block {
    struct tess_device_block *next;
    char *memory;
    size_t bytes;
    tess_pool pool;
    bool freed;
    int n_imports; /* number of times that a peer's memory is open here, at one address; 0: it is the device's */
    char what[64];
} tess_device_block;

/* Memory of the host that is pinned. */
typedef struct tess_pinned {
    struct tess_pinned *next;
    char *pages;
    size_t bytes; /* whole pages */
    int n_users;
} tess_pinned;

/* A device that needs more puts this first in its own structure. */
struct tess_device {
    const tess_device_table *table;
    tess_device_properties properties;
    tess_mem *mem;     /* the host's */
    tess_mem *counted; /* counts the device's memory in the same pools; the host's own: `mem` */
    pthread_mutex_t lock;
    tess_device_block *_Atomic blocks;
    tess_pinned *pinned;
    tess_device_log *log; /* NULL: none is kept */
};

/* Opens "cpu", "far", "cuda" or "cuda:1"; NULL: what the environment's TESSERA_DEVICE names, else "cpu". `mem` is the
 * host's memory and outlives the device. `number`: of the caller among those of its host that open the same name; GPUs
 * are dealt out by it. TESS_E_INVALID: an unknown name; TESS_E_UNSUPPORTED, TESS_E_NOT_FOUND: a device that this build
 * or this machine does not have, and what to install. */
tess_status tess_device_open(tess_mem *mem, const char *name, int number, tess_device **device);

/* All streams and events are destroyed. Returns how many blocks of its memory were never freed (0 when all is well;
 * those of the host are counted in its pools instead). */
size_t tess_device_close(tess_device **device);

const tess_device_properties *tess_device_get_properties(const tess_device *device);

/* ---- Memory ---- */
/* Zeroed, aligned to 64 bytes, counted in the device's pool; as tess_mem_alloc. */
tess_status tess_device_alloc(tess_device *device, tess_pool pool, size_t bytes, const char *what, void **out);
/* Waits for what is enqueued on the device; NULL is fine. */
void tess_device_free(tess_device *device, void *memory);
tess_pool_stats tess_device_mem_stats(const tess_device *device, tess_pool pool);
/* Memory that nobody uses, of this process or another; SIZE_MAX: it is not known. */
tess_status tess_device_memory_left(tess_device *device, size_t *bytes);

/* Memory of the host that the device copies from and to at full speed, counted in the host's pool. */
tess_status tess_device_alloc_pinned(tess_device *device, tess_pool pool, size_t bytes, const char *what, void **out);
void tess_device_free_pinned(tess_device *device, void *host);
/* The same for memory that is there already: the pages of [host, host + bytes), on which nothing else lies that the
 * device copies, get ready for copies at full speed, and stay in memory. Where they are pinned already this counts one
 * user more. Before the memory is freed there is an unpin for each pin, with an address in it, which waits for the
 * device when it is the last. On a device that needs no preparation both do nothing.
 * TESS_E_INVALID: a part of the range is pinned, with other ends; else the system has refused, and copies work, but
 * slower. */
tess_status tess_device_pin(tess_device *device, void *host, size_t bytes);
void tess_device_unpin(tess_device *device, void *host);

/* ---- Streams ---- */
/* A stream of the device. n_threads: of the host, for its loops. `kernels` as in tess_kernels_select. */
tess_status tess_device_stream(tess_device *device, int n_threads, const char *kernels, tess_stream **stream);

/* Enqueues a copy between any two of device and host. Memory of the host belongs to the copy until the stream has
 * passed it. */
tess_status tess_stream_copy(tess_stream *stream, void *to, const void *from, size_t bytes);
/* Enqueues memset. */
tess_status tess_stream_fill(tess_stream *stream, void *to, int byte, size_t bytes);
/* Enqueues a copy from host to device, for little data: `from` may be changed as soon as this returns. */
tess_status tess_upload(tess_stream *stream, void *to, const void *from, size_t bytes);
/* Device to host, after all that is enqueued; `to` has the values when this returns. `from` is live memory of the
 * device: freed memory and a range beyond its block are TESS_E_INVALID, and are named. */
tess_status tess_fetch(tess_stream *stream, void *to, const void *from, size_t bytes);
/* The same, where the host may read `from` in place: *seen is `from` then, and `room` may be NULL; else it is `room`.
 */
tess_status tess_view(tess_stream *stream, const void *from, size_t bytes, void *room, const void **seen);
/* Waits until all that is enqueued is done. */
tess_status tess_stream_synchronize(tess_stream *stream);

/* ---- The log of streams, for other processes ---- */
/* The device's streams write to `log`, whole pages that outlive the device, zeroed here. Before any stream has a name.
 * A device that cannot say how far it has come keeps none. */
void tess_device_set_log(tess_device *device, tess_device_log *log);
/* Logs the stream's operations under this name ("compute") from now on, if the device has a log. */
void tess_stream_set_name(tess_stream *stream, const char *name);
/* Says that the next operations belong to this unit: a static text ("layer"), and its number, -1: none. */
void tess_stream_set_unit(tess_stream *stream, const char *unit, int number);

/* ---- Events ---- */
tess_status tess_event_create(tess_device *device, tess_event **event);
/* One for tess_event_elapsed. TESS_E_UNSUPPORTED: the device measures no times. */
tess_status tess_event_create_timed(tess_device *device, tess_event **event);
void tess_event_destroy(tess_event **event);
/* The event is what the stream has been given so far; recorded again, it is that alone. */
tess_status tess_event_record(tess_event *event, tess_stream *stream);
/* Orders the next operations of `stream` after the event as it was last recorded; one that never was is no wait. The
 * host does not wait. */
tess_status tess_event_wait(tess_event *event, tess_stream *stream);
tess_status tess_event_query(tess_event *event, bool *done);
tess_status tess_event_synchronize(tess_event *event);
/* The device's time from one to another; the streams have passed both. */
tess_status tess_event_elapsed(const tess_event *from, const tess_event *to, double *seconds);

/* ---- Other processes of the host ---- */
/* TESS_E_UNSUPPORTED: the device has no peers. The exporter's block outlives all imports of it. */
tess_status tess_peer_export(tess_device *device, void *memory, tess_peer_handle *handle);
/* `bytes` as the exporter allocated them. Not counted: the exporter does. */
tess_status tess_peer_import(tess_device *device, const tess_peer_handle *handle, size_t bytes, void **out);
void tess_peer_release(tess_device *device, void *memory);

/* The block that holds this address, else one that did and was freed; NULL: none. */
const tess_device_block *tess_device_find(const tess_device *device, const void *address);

#endif
