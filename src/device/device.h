/* Devices: memory, queues and events, in addition to tessera/devices.h. A device is a table of functions. The code
 * above it sees no other difference between the host, the far device of the tests and a GPU.
 *
 * Order. The kernels, copies and fills of one stream run one after the other. Between streams, only events give an
 * order: an event is recorded on one stream, and another stream or the host waits for it. Descriptors that the host
 * passes to a kernel are read before the call returns; values are memory of the device (device/kernels.h). The host
 * never reads a value in place: it uses tess_fetch or tess_view, or copies it to its own memory.
 *
 * On the host everything is immediate: memory is the pool's, a copy is memcpy, and a wait does nothing.
 *
 * If an enqueued operation fails, the next call that waits for its stream returns the error. Until then the stream's
 * later operations are dropped, because they would compute with values that were never written. Thread-safe, but only
 * one thread at a time may use a stream or an event. */
#ifndef TESS_DEVICE_DEVICE_H
#define TESS_DEVICE_DEVICE_H

#include <pthread.h>

#include "device/stream.h"
#include "trace/stream_log.h"

typedef struct tess_event tess_event;

typedef struct tess_device_properties {
    char name[64]; /* "cpu", "far", "cuda:0 (NVIDIA H100 PCIe)" */
    /* Such as "0000:10:00.0", the same in all processes of the host that use the device; "": only this process
     * uses it. */
    char place[32];
    bool host_memory;    /* the host may access its memory, and every call is complete when it returns */
    size_t memory_bytes; /* 0: unknown */
    bool peers;          /* memory can be shared with other processes */
    /* Operations a second as the manufacturer states them. 0: unknown, or to be measured on the host. */
    double flops_f32, flops_bf16;
    double memory_rate; /* bytes a second; 0: unknown, or to be measured on the host */
} tess_device_properties;

/* Identifies memory of a device to another process of the host. It is plain data, which may be sent as bytes. */
typedef struct tess_peer_handle {
    uint64_t words[16];
} tess_peer_handle;

/* The functions that a device provides. Preconditions are checked by device.c. */
typedef struct tess_device_table {
    /* Returns zeroed memory, aligned to 256 bytes. Not called if host_memory is set. */
    tess_status (*alloc)(tess_device *device, size_t bytes, const char *what, void **out);
    /* Waits until no enqueued operation uses the memory, then frees it. */
    void (*free)(tess_device *device, void *memory, size_t bytes);
    /* Prepares memory of the host, whole pages, for fast copies. NULL: it needs no preparation. */
    tess_status (*pin)(tess_device *device, void *host, size_t bytes);
    void (*unpin)(tess_device *device, void *host);

    tess_status (*stream_create)(tess_device *device, int n_threads, const char *kernels, tess_stream **stream);
    void (*stream_destroy)(tess_stream *stream);
    tess_status (*copy)(tess_stream *stream, void *to, const void *from, size_t bytes);
    /* `from` may be changed when it returns */
    tess_status (*upload)(tess_stream *stream, void *to, const void *from, size_t bytes);
    tess_status (*fill)(tess_stream *stream, void *to, int byte, size_t bytes);
    tess_status (*synchronize)(tess_stream *stream);

    tess_status (*event_create)(tess_device *device, tess_event **event);
    void (*event_destroy)(tess_event *event);
    tess_status (*event_record)(tess_event *event, tess_stream *stream);
    tess_status (*event_wait)(tess_event *event, tess_stream *stream);
    tess_status (*event_query)(tess_event *event, bool *done);
    tess_status (*event_synchronize)(tess_event *event);
    /* NULL: the device does not measure times. */
    tess_status (*event_create_timed)(tess_device *device, tess_event **event);
    tess_status (*event_elapsed)(const tess_event *from, const tess_event *to, double *seconds);

    /* NULL if properties.peers is not set. */
    tess_status (*peer_export)(tess_device *device, void *memory, size_t bytes, tess_peer_handle *handle);
    tess_status (*peer_import)(tess_device *device, const tess_peer_handle *handle, size_t bytes, void **out);
    void (*peer_release)(tess_device *device, void *memory, size_t bytes);

    /* NULL: the free memory is not known. */
    tess_status (*memory_left)(tess_device *device, size_t *bytes);
    /* Makes the device write the stream's progress to stream->log from now on. NULL: it cannot. */
    tess_status (*log_stream)(tess_stream *stream);

    void (*close)(tess_device *device);
} tess_device_table;

/* A block of a device whose memory the host cannot read. A freed block stays in the list, so that a message can name
 * it. The list only grows at its head, so a signal handler may read it. */
typedef struct tess_device_block {
    struct tess_device_block *next;
    char *memory;
    size_t bytes;
    tess_pool pool;
    bool freed;
    /* Number of times that a peer's memory is open here, at one address; 0: the memory is the device's own */
    int n_imports;
    char what[64];
} tess_device_block;

/* A range of the host's memory that is pinned. */
typedef struct tess_pinned {
    struct tess_pinned *next;
    char *pages;
    size_t bytes; /* whole pages */
    int n_users;
} tess_pinned;

/* A device. Implementations put this first in their own structure. */
struct tess_device {
    const tess_device_table *table;
    tess_device_properties properties;
    tess_mem *mem;     /* the host's memory */
    tess_mem *counted; /* counts the device's memory in the same pools; the host device has `mem` here */
    pthread_mutex_t lock;
    tess_device_block *_Atomic blocks;
    tess_pinned *pinned;
    tess_device_log *log; /* NULL: there is no log */
};

const tess_device_properties *tess_device_get_properties(const tess_device *device);

/* ---- Memory ---- */
tess_pool_stats tess_device_mem_stats(const tess_device *device, tess_pool pool);
/* Returns the memory that no process uses, or SIZE_MAX if it is not known. */
tess_status tess_device_memory_left(tess_device *device, size_t *bytes);

/* Allocates memory of the host that the device copies at full speed. It is counted in the host's pool. */
tess_status tess_device_alloc_pinned(tess_device *device, tess_pool pool, size_t bytes, const char *what, void **out);
void tess_device_free_pinned(tess_device *device, void *host);
/* Pins existing memory: the pages of [host, host + bytes) are prepared for copies at full speed, and stay in memory.
 * They must hold no other data that the device copies. If they are pinned already, they get one more user. Each
 * tess_device_pin needs one tess_device_unpin, with an address in the range, before the memory is freed; the last one
 * waits for the device. On a device that needs no preparation both do nothing. TESS_E_INVALID: a part of the range is
 * pinned, with other ends. Any other error: the system has refused, and copies work, but slower. */
tess_status tess_device_pin(tess_device *device, void *host, size_t bytes);
void tess_device_unpin(tess_device *device, void *host);

/* ---- Streams ---- */
/* Enqueues a copy between memory of the device and of the host, in any direction. Memory of the host must not be used
 * until the stream has done the copy. */
tess_status tess_stream_copy(tess_stream *stream, void *to, const void *from, size_t bytes);
/* Enqueues a memset. */
tess_status tess_stream_fill(tess_stream *stream, void *to, int byte, size_t bytes);
/* Like tess_fetch, but avoids the copy if the host can read `from` in place. Then *seen is `from`, and `room` may be
 * NULL; otherwise *seen is `room`. */
tess_status tess_view(tess_stream *stream, const void *from, size_t bytes, void *room, const void **seen);
/* ---- The log of streams, for other processes ---- */
/* Makes the device's streams write to `log`, whole pages that outlive the device; this function zeroes them. Call it
 * before any stream has a name. A device that cannot report its progress keeps no log. */
void tess_device_set_log(tess_device *device, tess_device_log *log);
/* Logs the stream's operations under this name ("compute") from now on, if the device has a log. */
void tess_stream_set_name(tess_stream *stream, const char *name);
/* Says that the next operations belong to this unit of the model: a static text ("layer"), and its number; -1: no
 * number. */
void tess_stream_set_unit(tess_stream *stream, const char *unit, int number);

/* ---- Events ---- */
tess_status tess_event_create(tess_device *device, tess_event **event);
/* Creates an event for tess_event_elapsed. TESS_E_UNSUPPORTED: the device does not measure times. */
tess_status tess_event_create_timed(tess_device *device, tess_event **event);
void tess_event_destroy(tess_event **event);
/* The event now stands for the operations that the stream has been given so far. Recording it again replaces that. */
tess_status tess_event_record(tess_event *event, tess_stream *stream);
/* Orders the next operations of `stream` after the event as it was last recorded. An event that was never recorded is
 * no wait. The host does not wait. */
tess_status tess_event_wait(tess_event *event, tess_stream *stream);
tess_status tess_event_query(tess_event *event, bool *done);
tess_status tess_event_synchronize(tess_event *event);
/* Returns the device's time between two events. The streams must have reached both. */
tess_status tess_event_elapsed(const tess_event *from, const tess_event *to, double *seconds);

/* ---- Other processes of the host ---- */
/* TESS_E_UNSUPPORTED: the device has no peers. The exporter's block must outlive all imports of it. */
tess_status tess_peer_export(tess_device *device, void *memory, tess_peer_handle *handle);
/* `bytes` is the size that the exporter allocated. The memory is counted by the exporter only. */
tess_status tess_peer_import(tess_device *device, const tess_peer_handle *handle, size_t bytes, void **out);
void tess_peer_release(tess_device *device, void *memory);

/* Returns the block that contains this address, otherwise a freed block that contained it; NULL: there is none. */
const tess_device_block *tess_device_find(const tess_device *device, const void *address);

#endif
