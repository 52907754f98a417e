/* Records the operations that were enqueued on a device's streams, and how far each stream has come, in memory that
 * another process can read. So a kernel or copy that never ends can be named, although the thread that waits for it
 * cannot report it.
 *
 * The thread that uses a stream writes the stream's part, one thread at a time; the device writes `done`. A reader
 * may see an inconsistent state. In the worst case it reads a wrong word, but never a wrong address. */
#ifndef TESS_TRACE_STREAM_LOG_H
#define TESS_TRACE_STREAM_LOG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TESS_LOG_STREAMS = 6,
    /* newest operations of a stream that are kept; the host is never that far ahead of the device */
    TESS_LOG_OPS = 2048,
    TESS_LOG_NAMES = 64,
    TESS_LOG_TEXT = 32
};

typedef struct tess_logged_op {
    _Atomic uint64_t since_ns;
    _Atomic uint64_t bytes; /* size of a copy or fill */
    _Atomic uint32_t name, unit;
    _Atomic int32_t number; /* number of the unit; -1: none */
} tess_logged_op;

/* The log of one stream. Operations are numbered from 1. Those up to `done` have finished. For those up to `marked`,
 * the device has been told to report their end. */
typedef struct tess_stream_log {
    _Atomic uint32_t is_used;
    _Atomic uint32_t done;             /* low bits of the number of the last finished operation */
    _Atomic uint64_t enqueued, marked; /* done <= marked <= enqueued */
    _Atomic uint32_t stride;           /* most operations between two reports of the device */
    uint32_t unit;                     /* index of the unit's name, for the following operations */
    int32_t number;
    char name[TESS_LOG_TEXT];
    _Atomic uint32_t n_names;
    uint64_t pointers[TESS_LOG_NAMES]; /* addresses of the names, for the writer only */
    char names[TESS_LOG_NAMES][TESS_LOG_TEXT];
    tess_logged_op ops[TESS_LOG_OPS];
} tess_stream_log;

typedef struct tess_device_log {
    tess_stream_log streams[TESS_LOG_STREAMS];
} tess_device_log;

/* ---- Writing ---- */
/* `what` and `unit` must be static texts. number: -1 for none. */
void tess_stream_log_add(tess_stream_log *log, const char *what, size_t bytes);
void tess_stream_log_unit(tess_stream_log *log, const char *unit, int number);

/* ---- Reading ---- */
/* Describes the oldest operation that has not finished, of all streams: "stream compute: attention_forward_kernel of
 * layer 3, enqueued 12.3 s ago, has not finished; behind it 41 operations". If the device reports several operations
 * at once, writes "one of 8 operations from ...". Writes "" if no such operation is older than `least_s`. Returns
 * the text's length. *since_ns: time of the operation; 0: none. */
size_t tess_device_log_describe(const tess_device_log *log, uint64_t now_ns, double least_s, char *text, size_t size,
                                uint64_t *since_ns);

#endif
