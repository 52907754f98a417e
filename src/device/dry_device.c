#include "device/dry_device.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem/scoped.h"
#include "device/host_device.h"
#include "device/stream_impl.h"
#include "trace/ring.h"

typedef struct dry_stream {
    tess_stream base;
    tess_device *own;          /* the device of a stream that was created without one; else NULL */
    tess_kernels table;        /* rows that count, then call those of `inner` */
    const tess_kernels *inner; /* the host's table */
    bool counts_alone;         /* a GPU's rows need no work space of the host; those of other devices run there */
    tess_kernel_work work;
    tess_work_trace *trace; /* NULL: calls are not recorded */
    int depth;              /* rows that are running: some call others, whose work is already counted */
    int number;             /* its number among the device's streams */
    int last_copy;          /* its last copy that the trace of another stream records; -1: none */
} dry_stream;

typedef struct dry_device {
    tess_device base;
    tess_device_table table; /* the host's table, except for the functions that this file replaces */
    tess_work_trace *trace;  /* the trace of the stream that computes; NULL: there is none */
    int n_streams;
} dry_device;

/* An event of a device that is apart from the host. */
typedef struct dry_event {
    tess_event base;
    const tess_work_trace *trace; /* the trace that records `copy` */
    int copy;                     /* the copy that it stands for, an operation of the trace; -1: none */
} dry_event;

static tess_status dry_alloc(TESS_UNUSED tess_device *device, size_t bytes, TESS_UNUSED const char *what, void **out)
{
    *out =
        mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TESS_CHECK(*out != MAP_FAILED, TESS_E_NOMEM, "no addresses");
    return TESS_OK;
}

static void dry_free(TESS_UNUSED tess_device *device, void *memory, size_t bytes)
{
    munmap(memory, bytes > 0 ? bytes : 1);
}

/* ---- Rows ---- */
/* Measures the call if its kind needs more samples. */
static tess_status measure(tess_work_trace *trace, int index, const tess_kernel_row *row, const void *args)
{
    const tess_call_timer *timer = trace->timer;
    double seconds;
    if (timer == NULL || index < 0 || trace->calls[index].n_samples >= timer->n_samples)
        return TESS_OK;
    if (trace->calls[index].n_samples == 0) /* the first call allocates work space */
        TESS_TRY_CTX(timer->time(timer->self, row, args, &seconds), "measuring %s", row->name);
    TESS_TRY_CTX(timer->time(timer->self, row, args, &seconds), "measuring %s", row->name);
    tess_call *call = &trace->calls[index];
    call->sample_s[call->n_samples++] = seconds;
    return TESS_OK;
}

static tess_status record(const dry_stream *d, const tess_kernel_row *row, tess_kernel_row_id id, const void *args)
{
    if (d->trace == NULL)
        return TESS_OK;
    const tess_call_key key = tess_call_key_of(id, args);
    TESS_TRY(measure(d->trace, tess_work_trace_call(d->trace, &key), row, args));
    return d->trace->status;
}

static tess_status count(tess_stream *s, tess_kernel_row_id id, const void *args)
{
    dry_stream *d = (dry_stream *)s;
    const tess_kernel_row *row = tess_kernel_row_of(id);
    if (d->depth == 0) {
        tess_kernel_work work = tess_kernel_work_of(row, args);
        d->work.bytes += work.bytes;
        d->work.flops += work.flops;
        TESS_TRY(record(d, row, id, args));
    }
    if (d->counts_alone)
        return TESS_OK;
    d->depth++;
    tess_status status = row->call(d->inner, s, args);
    d->depth--;
    return status;
}

#define COUNT(name, type, ...)                                \
    static tess_status name(tess_stream *s, const type *args) \
    {                                                         \
        return count(s, TESS_ROW_##name, args);               \
    }
TESS_KERNEL_ROWS(COUNT)

static tess_kernels counting_table(const tess_kernels *inner)
{
    tess_kernels table = *inner;
#define REPLACE(name, ...) table.name = name;
    TESS_KERNEL_ROWS(REPLACE)
    return table;
}

/* ---- Streams ---- */
static void close_dry(tess_device *device);

static void stream_destroy(tess_stream *s)
{
    tess_threads_destroy(&s->threads);
    tess_device_free(s->device, s->scratch);
    tess_device_free(s->device, s->outer_scratch);
    tess_device_free(s->device, s->wide_scratch);
    tess_device *own = ((dry_stream *)s)->own;
    tess_mem_free(s->mem, s);
    tess_device_close(&own);
}

static tess_status stream_create(tess_device *device, int n_threads, const char *kernels, tess_stream **stream)
{
    const tess_kernels *inner;
    dry_stream *s;
    TESS_TRY(tess_kernels_select(kernels, &inner));
    TESS_TRY(TESS_NEW(device->mem, 1, "stream", &s));
    *s = (dry_stream){.table = counting_table(inner),
                      .inner = inner,
                      .counts_alone = strncmp(device->properties.name, "cuda", strlen("cuda")) == 0,
                      .last_copy = -1};
    if (device->table->close == close_dry)
        s->number = ((dry_device *)device)->n_streams++;
    s->base = (tess_stream){.kernels = &s->table, .device = device, .mem = device->mem};
    tess_status status = tess_threads_create_idle(device->mem, n_threads, &s->base.threads);
    if (status != TESS_OK) {
        tess_mem_free(device->mem, s);
        return status;
    }
    *stream = &s->base;
    return TESS_OK;
}

static void close_dry(tess_device *device)
{
    pthread_mutex_destroy(&device->lock);
    if (!device->properties.host_memory)
        tess_mem_destroy(&device->counted);
    tess_mem_free(device->mem, device);
}

/* Records a copy, which reads and writes its bytes, or a fill, which writes them. */
static tess_status record_bytes(const tess_stream *stream, int kind, size_t bytes)
{
    tess_work_trace *trace = ((const dry_stream *)stream)->trace;
    if (trace == NULL)
        return TESS_OK;
    const double moved = (double)bytes * (kind == TESS_CALL_COPY ? 2 : 1);
    const tess_call_key key = {
        .kind = kind, .dtype = TESS_U8, .to_dtype = TESS_U8, .size = {(int64_t)bytes}, .bytes = moved};
    (void)tess_work_trace_call(trace, &key);
    return trace->status;
}

/* ---- Copies next to the computation ---- */
/* Streams of an apart device that do not compute copy between it and the host, each in one direction. The trace of the
 * stream that computes has these copies as operations of a team whose `first` is the stream. */
static tess_status record_host_copy(dry_stream *s, size_t bytes)
{
    const dry_device *d = (const dry_device *)s->base.device;
    tess_work_team team;
    const tess_work_op op = {.kind = TESS_TRACE_NONE, .peer = -1, .bytes = (double)bytes};
    memset(&team, 0, sizeof(team)); /* teams are compared as bytes */
    snprintf(team.name, sizeof(team.name), "%s", TESS_WORK_HOST_TEAM);
    team.first = s->number;
    s->last_copy = tess_work_trace_issue(d->trace, &team, &op);
    return d->trace->status;
}

static bool copies_apart(const dry_stream *s)
{
    const tess_device *device = s->base.device;
    return s->trace == NULL && device->table->close == close_dry && !device->properties.host_memory &&
           ((const dry_device *)device)->trace != NULL;
}

static tess_status event_create(tess_device *device, tess_event **event)
{
    dry_event *e;
    TESS_TRY(tess_mem_alloc(device->mem, TESS_POOL_MISC, sizeof(*e), "event", (void **)&e));
    *e = (dry_event){.copy = -1};
    *event = &e->base;
    return TESS_OK;
}

static tess_status event_record(tess_event *event, tess_stream *stream)
{
    dry_event *e = (dry_event *)event;
    const dry_stream *s = (const dry_stream *)stream;
    e->trace = copies_apart(s) ? ((const dry_device *)stream->device)->trace : NULL;
    e->copy = e->trace != NULL ? s->last_copy : -1;
    return TESS_OK;
}

/* The trace waits for a copy. Those of an earlier trace are over. */
static void wait_for_copy(const dry_event *e)
{
    tess_work_trace *trace = ((const dry_device *)e->base.device)->trace;
    if (e->copy >= 0 && e->trace == trace && trace != NULL)
        tess_work_trace_wait(trace, e->copy);
}

static tess_status event_wait(tess_event *event, tess_stream *stream)
{
    if (((const dry_stream *)stream)->trace != NULL)
        wait_for_copy((const dry_event *)event);
    return TESS_OK;
}

static tess_status event_synchronize(tess_event *event)
{
    wait_for_copy((const dry_event *)event);
    return TESS_OK;
}

static tess_status dry_copy(tess_stream *stream, TESS_UNUSED void *to, TESS_UNUSED const void *from, size_t bytes)
{
    if (copies_apart((const dry_stream *)stream))
        return record_host_copy((dry_stream *)stream, bytes);
    return record_bytes(stream, TESS_CALL_COPY, bytes);
}

static tess_status dry_fill(tess_stream *stream, TESS_UNUSED void *to, TESS_UNUSED int byte, size_t bytes)
{
    return record_bytes(stream, TESS_CALL_FILL, bytes);
}

static void describe(tess_mem *mem, const char *name, dry_device *d)
{
    const bool is_host = name == NULL || name[0] == '\0' || strcmp(name, "cpu") == 0;
    d->table = tess_host_device_table;
    d->table.alloc = dry_alloc;
    d->table.free = dry_free;
    d->table.stream_create = stream_create;
    d->table.stream_destroy = stream_destroy;
    d->table.copy = d->table.upload = dry_copy;
    d->table.fill = dry_fill;
    d->table.close = close_dry;
    if (!is_host) {
        d->table.event_create = event_create;
        d->table.event_record = event_record;
        d->table.event_wait = event_wait;
        d->table.event_synchronize = event_synchronize;
    }
    d->base = (tess_device){.table = &d->table, .mem = mem, .counted = mem, .properties.host_memory = is_host};
    snprintf(d->base.properties.name, sizeof(d->base.properties.name), "%s", is_host ? "cpu" : name);
    pthread_mutex_init(&d->base.lock, NULL);
}

tess_status tess_dry_device_open(tess_mem *mem, const char *name, tess_device **device)
{
    dry_device *d;
    TESS_TRY(TESS_NEW(mem, 1, "device", &d));
    describe(mem, name, d);
    if (!d->base.properties.host_memory) {
        tess_status status = tess_mem_create(&d->base.counted);
        if (status != TESS_OK) {
            tess_mem_free(mem, d);
            return status;
        }
    }
    *device = &d->base;
    return TESS_OK;
}

tess_status tess_dry_stream_create(tess_mem *mem, int n_threads, const char *kernels, tess_stream **stream)
{
    tess_device *device;
    TESS_TRY(tess_dry_device_open(mem, NULL, &device));
    tess_status status = stream_create(device, n_threads, kernels, stream);
    if (status != TESS_OK) {
        tess_device_close(&device);
        return status;
    }
    ((dry_stream *)*stream)->own = device;
    return TESS_OK;
}

size_t tess_stream_work_bytes(const tess_stream *stream)
{
    return stream->scratch_bytes + stream->outer_scratch_bytes + stream->wide_scratch_bytes;
}

void tess_dry_stream_trace(tess_stream *stream, tess_work_trace *trace)
{
    if (stream->device->table->close != close_dry)
        return;
    ((dry_stream *)stream)->trace = trace;
    if (!stream->device->properties.host_memory)
        ((dry_device *)stream->device)->trace = trace;
}

bool tess_dry_stream_has_even_experts(const tess_stream *stream)
{
    if (stream->device->table->close != close_dry)
        return false;
    const tess_work_trace *trace = ((const dry_stream *)stream)->trace;
    return trace != NULL && trace->even_experts;
}

tess_kernel_work tess_dry_stream_work(const tess_stream *stream)
{
    return ((const dry_stream *)stream)->work;
}
