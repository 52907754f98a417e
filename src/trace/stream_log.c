#include "trace/stream_log.h"

#include <stdbool.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"

/* ---- Writing ---- */
/* Returns the name's index in the table of names. If the table is full, the last index stands for all further names. */
static uint32_t number_of(tess_stream_log *log, const char *name)
{
    uint32_t n = atomic_load_explicit(&log->n_names, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++)
        if (log->pointers[i] == (uintptr_t)name)
            return i;
    if (n == TESS_LOG_NAMES)
        return n - 1;
    log->pointers[n] = (uintptr_t)name;
    strncpy(log->names[n], n + 1 < TESS_LOG_NAMES ? name : "another operation", TESS_LOG_TEXT - 1);
    atomic_store_explicit(&log->n_names, n + 1, memory_order_release);
    return n;
}

void tess_stream_log_add(tess_stream_log *log, const char *what, size_t bytes)
{
    uint64_t n = atomic_load_explicit(&log->enqueued, memory_order_relaxed) + 1;
    tess_logged_op *op = &log->ops[n % TESS_LOG_OPS];
    atomic_store_explicit(&op->since_ns, tess_os_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&op->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&op->name, number_of(log, what), memory_order_relaxed);
    atomic_store_explicit(&op->unit, log->unit, memory_order_relaxed);
    atomic_store_explicit(&op->number, log->number, memory_order_relaxed);
    atomic_store_explicit(&log->enqueued, n, memory_order_release);
}

void tess_stream_log_unit(tess_stream_log *log, const char *unit, int number)
{
    log->unit = number_of(log, unit);
    log->number = number;
}

/* ---- Reading ---- */
typedef struct log_span {
    const tess_stream_log *log;
    uint64_t first, marked, enqueued, since_ns; /* first: oldest operation that may not have finished */
} log_span;

/* Reads how far a stream has come. Returns false if all marked operations have finished. */
static bool read_span(const tess_stream_log *log, log_span *s)
{
    *s = (log_span){.log = log,
                    .marked = atomic_load_explicit(&log->marked, memory_order_acquire),
                    .enqueued = atomic_load_explicit(&log->enqueued, memory_order_acquire)};
    uint32_t left = (uint32_t)s->marked - atomic_load_explicit(&log->done, memory_order_acquire);
    /* left: `done` may have passed `marked` since it was read */
    if (atomic_load(&log->is_used) == 0 || left == 0 || left > INT32_MAX)
        return false;
    s->first = s->marked - left + 1;
    if (s->enqueued - s->first >= TESS_LOG_OPS)
        s->first = s->enqueued - TESS_LOG_OPS + 1;
    s->since_ns = atomic_load_explicit(&log->ops[s->first % TESS_LOG_OPS].since_ns, memory_order_relaxed);
    return true;
}

static const char *name_at(const tess_stream_log *log, const _Atomic uint32_t *number)
{
    return log->names[atomic_load_explicit(number, memory_order_relaxed) % TESS_LOG_NAMES];
}

/* Formats "copy (4.2 MiB) of layer 3". */
static size_t describe_op(const tess_stream_log *log, uint64_t n, char *text, size_t size, size_t at)
{
    char bytes[32];
    const tess_logged_op *op = &log->ops[n % TESS_LOG_OPS];
    const char *unit = name_at(log, &op->unit);
    int number = atomic_load_explicit(&op->number, memory_order_relaxed);
    at = tess_text_add(text, size, at, "%.31s", name_at(log, &op->name));
    if (op->bytes > 0)
        at = tess_text_add(text, size, at, " (%s)", tess_format_bytes((double)op->bytes, bytes, sizeof(bytes)));
    if (unit[0] != '\0')
        at = tess_text_add(text, size, at, " of %.31s", unit);
    return unit[0] != '\0' && number >= 0 ? tess_text_add(text, size, at, " %d", number) : at;
}

size_t tess_device_log_describe(const tess_device_log *log, uint64_t now_ns, double least_s, char *text, size_t size,
                                uint64_t *since_ns)
{
    log_span oldest = {.log = NULL}, s;
    text[0] = '\0';
    *since_ns = 0;
    for (int i = 0; i < TESS_LOG_STREAMS; i++)
        if (read_span(&log->streams[i], &s) && (oldest.log == NULL || s.since_ns < oldest.since_ns))
            oldest = s;
    double age_s = oldest.log != NULL && now_ns > oldest.since_ns ? (double)(now_ns - oldest.since_ns) * 1e-9 : 0;
    if (oldest.log == NULL || age_s < least_s)
        return 0;
    *since_ns = oldest.since_ns;
    uint64_t stride = atomic_load(&oldest.log->stride), last = oldest.first + (stride > 0 ? stride - 1 : 0);
    last = last < oldest.marked ? last : oldest.marked;
    size_t at = tess_text_add(text, size, 0, "stream %.31s: ", oldest.log->name);
    if (last > oldest.first)
        at = tess_text_add(text, size, at, "one of %llu operations from ",
                           (unsigned long long)(last - oldest.first + 1));
    at = describe_op(oldest.log, oldest.first, text, size, at);
    if (last > oldest.first)
        at = describe_op(oldest.log, last, text, size, tess_text_add(text, size, at, " to "));
    return tess_text_add(text, size, at, ", enqueued %.1f s ago, has not finished; behind %s %llu operations", age_s,
                         last > oldest.first ? "them" : "it", (unsigned long long)(oldest.enqueued - last));
}
