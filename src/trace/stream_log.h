/* The operations that a device's streams were given, and how far they have come, in memory that another process can
 * read. So a kernel or copy that never ends has a name, although the thread that waits for it cannot report it.
 *
 * One thread at a time writes a stream's part, as it uses the stream; `done` is written by the device. Readers see a
 * moment that may be torn: they get a wrong word at worst, never a wrong address. */
#ifndef TESS_TRACE_STREAM_LOG_H
#define TESS_TRACE_STREAM_LOG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TESS_LOG_STREAMS = 6,
    TESS_LOG_OPS = 2048, /* newest operations of a stream; the host runs ahead of the device by fewer */
    TESS_LOG_NAMES = 64,
    TESS_LOG_TEXT = 32
};

typedef struct tess_logged_op {
    _Atomic uint64_t since_ns;
    _Atomic uint64_t bytes; /* size of a copy or fill */
    _Atomic uint32_t name, unit;
    _Atomic int32_t number; /* number of the unit, -1: none */
} tess_logged_op;

/* Operations are numbered from 1. Those up to `done` have finished; those up to `marked` are such that the device will
 * say so. */
typedef struct tess_stream_log {
    _Atomic uint32_t is_used;
    _Atomic uint32_t done;             /* low bits */
    _Atomic uint64_t enqueued, marked; /* done <= marked <= enqueued */
    _Atomic uint32_t stride;           /* the device says so after as many at most */
    uint32_t unit;                     /* name of what comes next, an index */
    int32_t number;
    char name[TESS_LOG_TEXT];
    _Atomic uint32_t n_names;
    uint64_t pointers[TESS_LOG_NAMES]; /* the writer's, to names */
    char names[TESS_LOG_NAMES][TESS_LOG_TEXT];
    tess_logged_op ops[TESS_LOG_OPS];
} tess_stream_log;

typedef struct tess_device_log {
    tess_stream_log streams[TESS_LOG_STREAMS];
} tess_device_log;

/* ---- Writing ---- */
/* `what`, `unit`: static texts. number: -1: none. */
void tess_stream_log_add(tess_stream_log *log, const char *what, size_t bytes);
void tess_stream_log_unit(tess_stream_log *log, const char *unit, int number);

/* ---- Reading ---- */
/* The oldest operation that has not finished, of all streams: "stream compute: attention_forward_kernel of layer 3,
 * enqueued 12.3 s ago, has not finished; behind it 41 operations"; where the device speaks of several at once, "one of
 * 8 operations from ...". "" if no such operation is older than `least_s`. Returns the text's length;
 * *since_ns gets the operation's time, 0: none. */
size_t tess_device_log_describe(const tess_device_log *log, uint64_t now_ns, double least_s, char *text, size_t size,
                                uint64_t *since_ns);

#endif
