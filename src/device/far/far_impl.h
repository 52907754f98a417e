/* The internals of the far device. Its memory is a memory file that is mapped twice. Callers get addresses in the first
 * range, which cannot be accessed. Kernels use the second range, `constant` bytes further on, which has the same
 * memory. */
#ifndef TESS_DEVICE_FAR_IMPL_H
#define TESS_DEVICE_FAR_IMPL_H

#include "device/kernel_rows.h"
#include "device/stream_impl.h"

typedef struct far_stream far_stream;

typedef struct far_device {
    tess_device base;
    struct far_device *next; /* next device of the process, for the fault handler */
    char *shown;             /* FAR_RANGE bytes, PROT_NONE: the addresses that callers get */
    ptrdiff_t constant;      /* distance from such an address to the memory for kernels */
    int file;
    /* Bytes given out; they are never reused, so that the use of a freed address is found */
    size_t top;
    /* Guards the next two members. It is held while streams are drained, so no command may take it. */
    pthread_mutex_t streams_lock;
    far_stream *streams;
    uint64_t n_streams_made;
    uint64_t delay_seed;
    int64_t delay_us; /* longest pause before a command; 0: no pauses */
    struct {
        char row[32]; /* "": there is no stall */
        int64_t left; /* number of commands of the row until the one that stalls */
        double seconds;
    } stall;
} far_device;

#define FAR_RANGE ((size_t)64 << 30)

/* An enqueued operation: a row of the table, or one of the device's own: copies, fills and events. Pointers are those
 * that kernels use. */
typedef struct far_call {
    const char *name;
    tess_status (*run)(tess_stream *inner, const struct far_call *call);
    bool always;                /* run it even after an error, because others may wait for it */
    size_t log_bytes;           /* bytes that the stream's log tells */
    const tess_kernel_row *row; /* NULL: an operation of the device's own, with these operands */
    void *to;
    const void *from;
    int64_t n;
    int byte;
    const void *tail; /* the arguments of a row, or bytes to upload */
} far_call;

typedef struct far_command {
    struct far_command *next;
    uint64_t logged; /* its number in the stream's log; 0: not logged */
    far_call call;
    _Alignas(16) char tail[];
} far_command;

struct far_stream {
    tess_stream base;
    tess_kernels table;
    tess_stream *inner; /* a stream of the host, which the worker uses */
    far_stream *next;   /* next stream of the device */
    uint64_t number;    /* number of streams of the device that were created before; seeds the random delays */
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    far_command *first, *last;
    uint64_t enqueued, done;
    bool stop;
    tess_status status; /* the first failure since the last wait */
    char message[512];
};

static inline bool far_is_mine(const far_device *d, const void *p)
{
    return (const char *)p >= d->shown && (const char *)p < d->shown + FAR_RANGE;
}

/* ---- far_queue.c ---- */
tess_status far_queue_start(far_stream *stream);
void far_queue_stop(far_stream *stream);
/* Creates a command with a copy of the call and `bytes` bytes of tail, for the caller to fill. */
tess_status far_command_create(far_stream *stream, const far_call *call, size_t bytes, far_command **command);
/* Takes ownership of the command. */
void far_enqueue(far_stream *stream, far_command *command);
/* Waits until all commands are done. A stored error is kept. */
void far_drain(far_stream *stream);
/* Waits until all commands are done, and returns the stored error. */
tess_status far_synchronize(tess_stream *stream);
/* Makes the worker write its progress after each command to the stream's log. */
tess_status far_log_stream(tess_stream *stream);

/* ---- far_events.c ---- */
tess_status far_event_create(tess_device *device, tess_event **event);
void far_event_destroy(tess_event *event);
tess_status far_event_record(tess_event *event, tess_stream *stream);
tess_status far_event_wait(tess_event *event, tess_stream *stream);
tess_status far_event_query(tess_event *event, bool *done);
tess_status far_event_synchronize(tess_event *event);

/* ---- far_rows.c ---- */
/* Fills a table whose rows enqueue the rows of `inner`. */
void far_rows(tess_kernels *table, const tess_kernels *inner);

/* ---- far_fault.c ---- */
/* Installs a handler that explains a fault in the device's memory before the process dies of it. */
void far_explain_faults(far_device *device);
void far_forget_faults(far_device *device);

#endif
