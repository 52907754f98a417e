#include "device/cuda/cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/round_up.h"
#include "base/core/variables.h"
#include "base/text/text.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/cuda_load.h"
#include "device/cuda/cuda_peers.h"
#include "device/cuda/cuda_products.h"
#include "device/cuda/cuda_users.h"
#include "device/ref/ref_attention.h"

/* Buffer of a stream for uploads that its queue has not yet read. */
enum { UPLOAD_BYTES = 256 << 10, UPLOAD_ALIGN = 64 };

typedef struct cuda_event {
    tess_event base;
    cuda_ticket ticket;
} cuda_event;

static cuda_address address(const void *memory)
{
    return (cuda_address)(uintptr_t)memory;
}

/* ---- Memory ---- */
static tess_status fail_alloc(const cuda_device *d, int error, size_t bytes)
{
    size_t left = 0, whole = 0;
    char wanted[32], free[32], all[32];
    tess_status status = tess_cuda_check_call(d, error, "allocate");
    if (error != CUDA_OUT_OF_MEMORY || d->cu->memory_info(&left, &whole) != 0)
        return status;
    return tess_fail_context(
        status, "%s wanted, %s of %s free", tess_format_bytes((double)bytes, wanted, sizeof(wanted)),
        tess_format_bytes((double)left, free, sizeof(free)), tess_format_bytes((double)whole, all, sizeof(all)));
}

static tess_status cuda_alloc(tess_device *device, size_t bytes, TESS_UNUSED const char *what, void **out)
{
    cuda_device *d = (cuda_device *)device;
    cuda_address memory = 0;
    TESS_TRY(tess_cuda_enter(d));
    int error = d->cu->memory_alloc(&memory, bytes > 0 ? bytes : 1);
    if (error != 0)
        return fail_alloc(d, error, bytes);
    error = bytes > 0 ? d->cu->fill(memory, 0, bytes, NULL) : 0;
    if (error == 0)
        error = d->cu->queue_synchronize(NULL); /* our queues do not wait for the default queue */
    if (error != 0) {
        d->cu->memory_free(memory);
        return tess_cuda_check_call(d, error, "zero new memory");
    }
    *out = (void *)(uintptr_t)memory;
    return TESS_OK;
}

/* Ignores errors: an error of a queue is reported to the threads that wait for the queue. */
static void cuda_free(tess_device *device, void *memory, TESS_UNUSED size_t bytes)
{
    cuda_device *d = (cuda_device *)device;
    d->cu->context_set(d->context);
    d->cu->context_synchronize();
    d->cu->memory_free(address(memory));
}

static tess_status memory_left(tess_device *device, size_t *bytes)
{
    cuda_device *d = (cuda_device *)device;
    size_t whole;
    TESS_TRY(tess_cuda_enter(d));
    return tess_cuda_check_call(d, d->cu->memory_info(bytes, &whole), "ask for its free memory");
}

static tess_status pin(tess_device *device, void *host, size_t bytes)
{
    cuda_device *d = (cuda_device *)device;
    TESS_TRY(tess_cuda_enter(d));
    return tess_cuda_check_call(d, d->cu->host_register(host, bytes, CUDA_REGISTER_MAPPED),
                                "lock memory of the host for copies");
}

static void unpin(tess_device *device, void *host)
{
    cuda_device *d = (cuda_device *)device;
    d->cu->context_set(d->context);
    d->cu->context_synchronize();
    d->cu->host_unregister(host);
}

/* ---- Streams ---- */
static void stream_destroy(tess_stream *stream)
{
    cuda_stream *s = (cuda_stream *)stream;
    cuda_device *d = (cuda_device *)stream->device;
    d->cu->context_set(d->context);
    d->cu->queue_synchronize(s->queue);
    d->cu->queue_destroy(s->queue);
    tess_stream_log_close(stream);
    tess_device_free(stream->device, stream->scratch);
    tess_device_free(stream->device, stream->outer_scratch);
    tess_device_free_pinned(stream->device, s->uploads);
    tess_threads_destroy(&stream->threads);
    tess_mem_free(stream->mem, s);
}

/* Fails if the plug-in lacks a row: the host's row cannot read the GPU's memory. */
static tess_status fill_table(const cuda_device *d, tess_kernels *table)
{
    const tess_kernels *ref;
    TESS_TRY(tess_kernels_select("ref", &ref));
    *table = (tess_kernels){.name = d->kernels,
                            .plain = ref,
                            .encode_8bit = ref->encode_8bit,
                            .decode_8bit = ref->decode_8bit,
                            .round_randomly = ref->round_randomly,
                            .peak_f32 = ref->peak_f32,
                            .peak_bf16 = ref->peak_bf16};
    d->plugin->fill(table);
    if (d->tensor_cores)
        d->plugin->fill_tensor(table);
#define CHECK(name, ...) \
    TESS_CHECK(table->name != NULL, TESS_E_INTERNAL, "the plug-in for NVIDIA GPUs has no kernel for %s", #name);
    TESS_KERNEL_ROWS(CHECK)
    return TESS_OK;
}

static tess_status stream_create(tess_device *device, int n_threads, const char *kernels, tess_stream **stream)
{
    cuda_device *d = (cuda_device *)device;
    tess_status status;
    cuda_stream *s;
    (void)kernels; /* the table belongs to the host device */
    TESS_TRY(TESS_NEW(device->mem, 1, "stream", &s));
    s->base.device = device;
    s->base.mem = device->mem;
    s->base.kernels = &s->table;
    TESS_GOTO(fill_table(d, &s->own), block);
    s->table = s->own;
    if (d->products != NULL)
        tess_cuda_products_fill(s);
    TESS_GOTO(tess_threads_create(device->mem, n_threads, &s->base.threads), block);
    TESS_GOTO(tess_cuda_enter(d), threads);
    TESS_GOTO(tess_cuda_check_call(d, d->cu->queue_create(&s->queue, CUDA_QUEUE_NON_BLOCKING), "create a queue"),
              threads);
    *stream = &s->base;
    return TESS_OK;
threads:
    tess_threads_destroy(&s->base.threads);
block:
    tess_mem_free(device->mem, s);
    return status;
}

static tess_status copy(tess_stream *stream, void *to, const void *from, size_t bytes)
{
    cuda_device *d = (cuda_device *)stream->device;
    TESS_TRY(tess_cuda_enter(d));
    tess_cuda_note(stream, "copy", bytes);
    return tess_cuda_check_call(d, d->cu->copy(address(to), address(from), bytes, ((cuda_stream *)stream)->queue),
                                "copy");
}

static tess_status fill(tess_stream *stream, void *to, int byte, size_t bytes)
{
    cuda_device *d = (cuda_device *)stream->device;
    TESS_TRY(tess_cuda_enter(d));
    tess_cuda_note(stream, "fill", bytes);
    return tess_cuda_check_call(d, d->cu->fill(address(to), (unsigned char)byte, bytes, ((cuda_stream *)stream)->queue),
                                "fill");
}

static tess_status synchronize(tess_stream *stream)
{
    cuda_stream *s = (cuda_stream *)stream;
    cuda_device *d = (cuda_device *)stream->device;
    TESS_TRY(tess_cuda_enter(d));
    tess_cuda_mark(stream);
    TESS_TRY(tess_cuda_check_call(d, d->cu->queue_synchronize(s->queue), "wait for a stream"));
    s->uploaded = 0;
    return TESS_OK;
}

/* Copies through pinned memory that the stream owns, because the queue reads the host's memory later, when it reaches
 * the copy. */
static tess_status upload(tess_stream *stream, void *to, const void *from, size_t bytes)
{
    cuda_stream *s = (cuda_stream *)stream;
    if (s->uploads == NULL)
        TESS_TRY(
            tess_device_alloc_pinned(stream->device, TESS_POOL_COMM, UPLOAD_BYTES, "uploads", (void **)&s->uploads));
    for (size_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < UPLOAD_BYTES ? bytes - done : UPLOAD_BYTES;
        if (part > UPLOAD_BYTES - s->uploaded)
            TESS_TRY(synchronize(stream));
        memcpy(s->uploads + s->uploaded, (const char *)from + done, part);
        TESS_TRY(copy(stream, (char *)to + done, s->uploads + s->uploaded, part));
        s->uploaded += tess_round_up(part, UPLOAD_ALIGN);
    }
    return TESS_OK;
}

/* ---- Events ---- */
static tess_status create_event(tess_device *device, unsigned flags, tess_event **event)
{
    cuda_device *d = (cuda_device *)device;
    cuda_event *e;
    TESS_TRY(tess_cuda_enter(d));
    TESS_TRY(TESS_NEW(device->mem, 1, "event", &e));
    tess_status status = tess_cuda_check_call(d, d->cu->ticket_create(&e->ticket, flags), "create an event");
    if (status != TESS_OK) {
        tess_mem_free(device->mem, e);
        return status;
    }
    *event = &e->base;
    return TESS_OK;
}

static tess_status event_create(tess_device *device, tess_event **event)
{
    return create_event(device, CUDA_TICKET_DISABLE_TIMING, event);
}

static tess_status event_create_timed(tess_device *device, tess_event **event)
{
    return create_event(device, CUDA_TICKET_TIMED, event);
}

static void event_destroy(tess_event *event)
{
    cuda_device *d = (cuda_device *)event->device;
    d->cu->context_set(d->context);
    d->cu->ticket_destroy(((cuda_event *)event)->ticket);
    tess_mem_free(d->base.mem, event);
}

static tess_status event_record(tess_event *event, tess_stream *stream)
{
    cuda_device *d = (cuda_device *)event->device;
    TESS_TRY(tess_cuda_enter(d));
    tess_cuda_mark(stream);
    return tess_cuda_check_call(d, d->cu->ticket_record(((cuda_event *)event)->ticket, ((cuda_stream *)stream)->queue),
                                "record an event");
}

static tess_status event_wait(tess_event *event, tess_stream *stream)
{
    cuda_device *d = (cuda_device *)event->device;
    TESS_TRY(tess_cuda_enter(d));
    return tess_cuda_check_call(d, d->cu->queue_wait(((cuda_stream *)stream)->queue, ((cuda_event *)event)->ticket, 0),
                                "have a stream wait for an event");
}

static tess_status event_query(tess_event *event, bool *done)
{
    cuda_device *d = (cuda_device *)event->device;
    TESS_TRY(tess_cuda_enter(d));
    int error = d->cu->ticket_query(((cuda_event *)event)->ticket);
    *done = error == 0;
    return error == CUDA_NOT_READY ? TESS_OK : tess_cuda_check_call(d, error, "ask for an event");
}

static tess_status event_synchronize(tess_event *event)
{
    cuda_device *d = (cuda_device *)event->device;
    TESS_TRY(tess_cuda_enter(d));
    return tess_cuda_check_call(d, d->cu->ticket_synchronize(((cuda_event *)event)->ticket), "wait for an event");
}

static tess_status event_elapsed(const tess_event *from, const tess_event *to, double *seconds)
{
    cuda_device *d = (cuda_device *)from->device;
    float ms = 0;
    TESS_TRY(tess_cuda_enter(d));
    TESS_TRY(tess_cuda_check_call(
        d, d->cu->ticket_elapsed(&ms, ((const cuda_event *)from)->ticket, ((const cuda_event *)to)->ticket),
        "ask for the time between two events"));
    *seconds = (double)ms * 1e-3;
    return TESS_OK;
}

/* ---- Services for kernels ---- */
static tess_status service_fail(const char *file, int line, tess_status status, const char *text)
{
    return tess_fail_at(file, line, status, "%s", text);
}

static void *service_queue(tess_stream *stream)
{
    const cuda_device *d = (const cuda_device *)stream->device;
    d->cu->context_set(d->context); /* if it fails, the launch fails too and reports it */
    return ((cuda_stream *)stream)->queue;
}

static tess_status service_launched(tess_stream *stream, const char *kernel, int error)
{
    cuda_device *d = (cuda_device *)stream->device;
    char what[160];
    snprintf(what, sizeof(what), "launch %s", kernel);
    TESS_TRY(tess_cuda_check_call(d, error, what));
    d->newest = kernel;
    tess_cuda_note(stream, kernel, 0);
    return TESS_OK;
}

static const cuda_services services = {
    .fail = service_fail,
    .dtype_name = tess_dtype_name,
    .gemm_check = tess_gemm_check,
    .gemm_fused_check = tess_gemm_fused_check,
    .gemm_fused_by_rows = tess_gemm_fused_by_rows,
    .gemm_grouped_by_rows = tess_gemm_grouped_by_rows,
    .gemm_grouped_by = tess_gemm_grouped_by,
    .attention_check = tess_attention_check,
    .scratch = tess_stream_scratch,
    .upload = tess_upload,
    .queue = service_queue,
    .launched = service_launched,
};

/* ---- Opening ---- */
/* The context stays for later devices of the process, because CUDA's runtime in the plug-in has loaded its kernels into
 * it. */
static void close_cuda(tess_device *device)
{
    tess_cuda_products_destroy(&((cuda_device *)device)->products);
    tess_mem_destroy(&device->counted);
    pthread_mutex_destroy(&device->lock);
    tess_mem_free(device->mem, device);
}

static const tess_device_table cuda_table = {
    .alloc = cuda_alloc,
    .free = cuda_free,
    .pin = pin,
    .unpin = unpin,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .copy = copy,
    .upload = upload,
    .fill = fill,
    .synchronize = synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_create_timed = event_create_timed,
    .event_elapsed = event_elapsed,
    .peer_export = tess_cuda_peer_export,
    .peer_import = tess_cuda_peer_import,
    .peer_release = tess_cuda_peer_release,
    .memory_left = memory_left,
    .log_stream = tess_cuda_log_stream,
    .close = close_cuda,
};

tess_status tess_cuda_device_enter(tess_device *device)
{
    TESS_CHECK(device->table == &cuda_table, TESS_E_INVALID, "device %s is not a GPU of NVIDIA's",
               device->properties.name);
    return tess_cuda_enter((const cuda_device *)device);
}

tess_status tess_cuda_stream_queue(tess_stream *stream, void **queue)
{
    TESS_TRY(tess_cuda_device_enter(stream->device));
    *queue = ((cuda_stream *)stream)->queue;
    return TESS_OK;
}

/* Finds the GPU, of n, that a name and a number mean. */
static tess_status choose(const char *name, int number, int n, int *chosen)
{
    char rest;
    *chosen = number % n;
    if (strcmp(name, "cuda") == 0)
        return TESS_OK;
    TESS_CHECK(sscanf(name, "cuda:%d%c", chosen, &rest) == 1 && *chosen >= 0, TESS_E_INVALID,
               "device '%s': write cuda, or cuda:NUMBER", name);
    TESS_CHECK(*chosen<n, TESS_E_INVALID, "device '%s': this process sees %d GPU%s, numbered from 0%s", name, n, n> 1
                   ? "s"
                   : "",
               n > 1 ? "" : ": choose cuda:0");
    return TESS_OK;
}

/* Peak speeds from NVIDIA's data sheets, without sparsity: operations per clock of a multiprocessor, and the clock of
 * tensor cores if the sheet states a lower one than the driver's highest. */
static const struct speed {
    int capability;
    double f32, bf16, mhz;
} speeds[] = {{80, 128, 2048, 1410}, {86, 256, 512, 0},      {87, 256, 1024, 0},     {89, 256, 1024, 0},
              {90, 256, 4096, 1830}, {100, 256, 8192, 1850}, {103, 256, 8192, 1850}, {120, 256, 512, 0}};

static int attribute(const cuda_device *d, int which, int handle)
{
    int value = 0;
    return d->cu->device_attribute(&value, which, handle) == 0 ? value : 0;
}

static void describe_speed(cuda_device *d, int handle, int capability)
{
    tess_device_properties *p = &d->base.properties;
    double mhz = attribute(d, CUDA_ATTRIBUTE_CLOCK_KHZ, handle) * 1e-3;
    double memory_mhz = attribute(d, CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ, handle) * 1e-3;
    p->memory_rate = memory_mhz * 1e6 * 2 * attribute(d, CUDA_ATTRIBUTE_MEMORY_BITS, handle) / 8;
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        const struct speed *s = &speeds[i];
        if (s->capability != capability)
            continue;
        double n = attribute(d, CUDA_ATTRIBUTE_PROCESSORS, handle);
        p->flops_f32 = s->f32 * mhz * 1e6 * n;
        p->flops_bf16 = s->bf16 * (s->mhz > 0 && s->mhz < mhz ? s->mhz : mhz) * 1e6 * n;
    }
}

/* Fails if another process uses the GPU exclusively or has filled its memory. */
static tess_status retain_context(cuda_device *d, int handle)
{
    char users[320];
    int error = d->cu->context_retain(&d->context, handle);
    tess_status status = tess_cuda_check_call(d, error, "create a context");
    if (error == 0 || tess_cuda_describe_users(d->base.properties.place, users, sizeof(users)) == 0)
        return status;
    return tess_fail_context(status, "%s", users);
}

/* Writes the kernels' name without the version of cuBLAS, which is added later. */
static void name_kernels(cuda_device *d, int major, int minor)
{
    const char *wish = tess_variable_value(TESS_VAR_CUBLAS);
    d->tensor_cores = wish == NULL || strcmp(wish, "off") != 0;
    snprintf(d->kernels, sizeof(d->kernels), "cuda");
    if (d->tensor_cores)
        snprintf(d->kernels, sizeof(d->kernels), "cuda-tc %d.%d r%d", major, minor, CUDA_TENSOR_REVISION);
}

static tess_status describe(cuda_device *d, int number)
{
    tess_kernels table;
    const cuda_driver *cu = d->cu;
    char name[40] = "", where[16];
    int handle = 0, major = 0, minor = 0, error;
    tess_device_properties *p = &d->base.properties;
    snprintf(where, sizeof(where), "cuda:%d", number);
    if ((error = cu->device_get(&handle, number)) == 0 && (error = cu->device_name(name, sizeof(name), handle)) == 0 &&
        (error = cu->device_memory(&p->memory_bytes, handle)) == 0 &&
        (error = cu->device_bus(p->place, sizeof(p->place), handle)) == 0 &&
        (error = cu->device_attribute(&major, CUDA_ATTRIBUTE_MAJOR, handle)) == 0)
        error = cu->device_attribute(&minor, CUDA_ATTRIBUTE_MINOR, handle);
    TESS_TRY(tess_cuda_check(cu, error, where, "describe the GPU"));
    snprintf(p->name, sizeof(p->name), "%s (%s)", where, name);
    describe_speed(d, handle, 10 * major + minor);
    name_kernels(d, major, minor);
    TESS_TRY_CTX(tess_cuda_check_architecture(d->plugin, major, minor), "%s", p->name);
    TESS_TRY(fill_table(d, &table));
    return retain_context(d, handle);
}

/* Opens the plug-in, then the driver, then the GPU. The message names the first of them that is missing. */
static tess_status start(cuda_device *d, const char *name, int number)
{
    int version, n;
    const char *path;
    TESS_TRY(tess_cuda_load(&d->plugin, &path));
    TESS_TRY(tess_cuda_driver_open(&d->cu));
    TESS_TRY(tess_cuda_check(d->cu, d->cu->version(&version), "cuda", "ask the driver for its version"));
    TESS_TRY(tess_cuda_check_driver(d->plugin, version));
    TESS_TRY(tess_cuda_devices(d->cu, &n));
    TESS_TRY(choose(name, number, n, &number));
    return describe(d, number);
}

tess_status tess_cuda_device_open(tess_mem *mem, const char *name, int number, tess_device **device)
{
    tess_status status;
    cuda_device *d;
    TESS_TRY(TESS_NEW(mem, 1, "device", &d));
    d->base.table = &cuda_table;
    d->base.mem = mem;
    d->base.properties.peers = true;
    d->newest = "none";
    TESS_GOTO(tess_mem_create(&d->base.counted), block);
    TESS_GOTO(start(d, name, number), counted);
    d->plugin->begin(&services);
    TESS_GOTO(tess_cuda_products_create(d, &d->products), counted);
    pthread_mutex_init(&d->base.lock, NULL);
    *device = &d->base;
    return TESS_OK;
counted:
    tess_mem_destroy(&d->base.counted);
block:
    tess_mem_free(mem, d);
    return status;
}
