/* A libcuda.so.1 for tests without a GPU: its GPUs' memory is the host's, and its queues run later, in a thread of
 * their own (fake_queue.c). It names errors that a real driver does not: memory that two queues use without an order
 * (fake_order.c), memory that is freed, closed or unregistered while an operation may use it, or used after that, and
 * memory of the host that changes before its copy has run. Then the process ends.
 *
 * Its properties are in the environment,
 * CUDA_FAKE="devices=2,major=9,minor=0,version=13000,memory=1000000,fail=cuMemAlloc_v2:3:2": the third call of that
 * function gives error 2 ("hang": never returns). CUDA_FAKE_ONCE=FILE: in one process, which makes that file.
 * skip=FUNCTION:N: the Nth call does nothing, and reports success; N 0: each call. misplace=cuEventRecord:N: it
 * records on the default queue. pageable=BYTES: copies of at least that size from or to memory of the host are refused
 * unless it is registered. stuck=N: from the Nth write of a queue on nothing is done any more. ipc=1: other processes
 * of this host may open its memory; peers=0: but not from another GPU. lazy=1: queues move only while the host waits.
 * counts=1: it only counts, for models larger than the host. Its memory is addresses without pages, so it is 0. Large
 * copies to it, large fills and fills with another byte do not take place, and the others end before their call does.
 * CUDA_FAKE_LOG=FILE gets a line for each copy, fill and wait of the host.
 *
 * As the real one does, it copies at once what is not registered, tells no time of an event that the host has not seen
 * pass, wants a copy's memory registered whole or not at all, honours CUDA_VISIBLE_DEVICES, wants the queue's context
 * in the thread, does not work in a process that was forked after it had started, nor any more after an error of a
 * kernel or of the hardware. */
#include "device/cuda_fake/fake_impl.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

enum { MOST_COUNTED = 1 << 20 /* larger copies do not take place where they only count */ };

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static int starter; /* the process that initialised it */
static int broken;  /* the error that ended all work */
static _Thread_local cuda_context current;
static struct CUctx_st contexts[FAKE_DEVICES];

long fake_setting(const char *key, long fallback)
{
    return fake_number("CUDA_FAKE", key, fallback);
}

_Noreturn void fake_fault(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("fake GPU driver: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

bool fake_is_broken(void)
{
    return broken != 0;
}

bool fake_only_counts(void)
{
    return fake_setting("counts", 0) != 0;
}

/* Whether a copy or fill of this many bytes of a GPU's memory does not take place. */
static bool leaves_out(size_t bytes)
{
    return bytes > MOST_COUNTED && fake_only_counts();
}

/* Appends "copy", "fill" or "wait", and bytes, to the log. */
static void log_event(const char *what, const char *way, size_t bytes)
{
    const char *path = getenv("CUDA_FAKE_LOG");
    char line[64];
    const int file = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    const int n = snprintf(line, sizeof(line), "%s %s %zu\n", what, way, bytes);
    if (write(file, line, (size_t)n) != n)
        abort();
    close(file);
}

static bool was_given(void)
{
    const char *file = getenv("CUDA_FAKE_ONCE");
    int fd = file != NULL ? open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
    return file != NULL && fd < 0;
}

/* The error that this call shall give. */
static int due(const char *function)
{
    int error = fake_due("CUDA_FAKE", function);
    if (error == 0 || was_given())
        return 0;
    while (error == FAKE_HANGS)
        pause();
    broken = (error >= 700 && error != NOT_SUPPORTED) || error == 214 ? error : 0;
    return error;
}

static bool skips(const char *function)
{
    return fake_omits("CUDA_FAKE", "skip", function) != 0;
}

/* Returns the number of devices that the process sees, and sets *number to that of device `i` in its host. */
static int see_devices(int i, int *number)
{
    int n = (int)fake_setting("devices", 1), n_visible = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    *number = i;
    if (visible == NULL)
        return n;
    for (char *end; *visible != '\0'; visible = end + (*end == ',')) {
        long one = strtol(visible, &end, 10);
        if (end == visible || one < 0 || one >= n)
            break;
        *number = n_visible++ == i ? (int)one : *number;
    }
    return n_visible;
}

static int n_devices(void)
{
    int number;
    return see_devices(0, &number);
}

static int works(const char *function)
{
    int error = starter != getpid()                     ? NOT_INITIALIZED
                : current == NULL || !current->retained ? INVALID_CONTEXT
                                                        : broken;
    return error != 0 ? error : due(function);
}

static int device_of_thread(void)
{
    return (int)(current - contexts);
}

#define ANSWER(error)         \
    do {                      \
        int error_ = (error); \
        if (error_ != 0)      \
            return error_;    \
    } while (0)

/* Each function of the list, under the driver's name. */
#define X(name, symbol, parameters) EXPORT int fake_##name parameters __asm__(symbol);
CUDA_DRIVER_LIST(X)
#undef X

/* ---- The driver and its devices ---- */
int fake_init(unsigned flags)
{
    (void)flags;
    ANSWER(due("cuInit"));
    if (starter != 0 && starter != getpid())
        return NOT_INITIALIZED;
    starter = getpid();
    return n_devices() > 0 ? 0 : CUDA_NO_DEVICE;
}

int fake_version(int *version)
{
    *version = (int)fake_setting("version", 13000);
    return 0;
}

int fake_error_name(int error, const char **name)
{
    *name = error == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : error == 214 ? "CUDA_ERROR_ECC_UNCORRECTABLE"
                           : "CUDA_ERROR_FAKE";
    return 0;
}

int fake_error_text(int error, const char **text)
{
    *text = "as the test wished";
    return error == 0;
}

int fake_device_count(int *n)
{
    *n = n_devices();
    return starter == getpid() ? 0 : NOT_INITIALIZED;
}

int fake_device_get(int *device, int number)
{
    *device = number;
    return number < n_devices() ? due("cuDeviceGet") : INVALID_DEVICE;
}

int fake_device_name(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "Fake GPU %c", 'A' + device);
    return 0;
}

int fake_device_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == CUDA_ATTRIBUTE_MAJOR              ? (int)fake_setting("major", 9)
             : attribute == CUDA_ATTRIBUTE_MINOR            ? (int)fake_setting("minor", 0)
             : attribute == CUDA_ATTRIBUTE_ECC              ? (int)fake_setting("ecc", 1)
             : attribute == CUDA_ATTRIBUTE_CLOCK_KHZ        ? 1980000
             : attribute == CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ ? 2619000
             : attribute == CUDA_ATTRIBUTE_PROCESSORS       ? 132
             : attribute == CUDA_ATTRIBUTE_MEMORY_BITS      ? 5120
                                                            : 0;
    return 0;
}

int fake_device_memory(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)fake_setting("memory", 1 << 30);
    return 0;
}

int fake_device_bus(char *id, int bytes, int device)
{
    int number;
    see_devices(device, &number);
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", 16 + number);
    return 0;
}

int fake_device_reaches(int *can, int device, int peer)
{
    (void)device;
    (void)peer;
    *can = (int)fake_setting("peers", 1);
    return 0;
}

/* ---- Contexts ---- */
int fake_context_retain(cuda_context *context, int device)
{
    ANSWER(due("cuDevicePrimaryCtxRetain"));
    if (device < 0 || device >= FAKE_DEVICES)
        return INVALID_DEVICE;
    *context = &contexts[device];
    contexts[device].retained = true;
    return 0;
}

int fake_context_set(cuda_context context)
{
    current = context;
    return starter != getpid() ? NOT_INITIALIZED : due("cuCtxSetCurrent");
}

/* The real driver has it, too, but only libraries above the driver call it. */
EXPORT int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device)
{
    *device = device_of_thread();
    return current == NULL ? INVALID_CONTEXT : 0;
}

int fake_context_synchronize(void)
{
    ANSWER(works("cuCtxSynchronize"));
    if (skips("cuCtxSynchronize"))
        return 0;
    pthread_mutex_lock(&fake_lock);
    fake_wait_device(device_of_thread());
    pthread_mutex_unlock(&fake_lock);
    return broken;
}

/* ---- Memory ---- */
int fake_memory_alloc(cuda_address *memory, size_t bytes)
{
    ANSWER(works("cuMemAlloc_v2"));
    pthread_mutex_lock(&fake_lock);
    int error = fake_room_new(memory, bytes, device_of_thread());
    pthread_mutex_unlock(&fake_lock);
    return error;
}

int fake_memory_free(cuda_address memory)
{
    int error = works("cuMemFree_v2");
    pthread_mutex_lock(&fake_lock);
    int found = fake_room_free(memory);
    pthread_mutex_unlock(&fake_lock);
    return found != 0 ? found : error;
}

int fake_memory_info(size_t *left, size_t *whole)
{
    *whole = (size_t)fake_setting("memory", 1 << 30);
    pthread_mutex_lock(&fake_lock);
    *left = *whole - fake_memory_used();
    pthread_mutex_unlock(&fake_lock);
    return works("cuMemGetInfo_v2");
}

int fake_ipc_get(cuda_ipc *ipc, cuda_address memory)
{
    ANSWER(works("cuIpcGetMemHandle"));
    pthread_mutex_lock(&fake_lock);
    int error = fake_room_show(ipc, memory);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

int fake_ipc_open(cuda_address *memory, cuda_ipc ipc, unsigned flags)
{
    ANSWER(works("cuIpcOpenMemHandle_v2"));
    if (flags != CUDA_IPC_ENABLE_PEER_ACCESS)
        return INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    int error = fake_room_open(memory, &ipc, device_of_thread());
    pthread_mutex_unlock(&fake_lock);
    return error;
}

int fake_ipc_close(cuda_address memory)
{
    int error = works("cuIpcCloseMemHandle");
    pthread_mutex_lock(&fake_lock);
    int found = fake_room_close(memory);
    pthread_mutex_unlock(&fake_lock);
    return found != 0 ? found : error;
}

int fake_host_register(void *host, size_t bytes, unsigned flags)
{
    if (flags != CUDA_REGISTER_MAPPED)
        return INVALID_VALUE;
    ANSWER(works("cuMemHostRegister_v2"));
    pthread_mutex_lock(&fake_lock);
    int error = fake_host_add(host, bytes);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

int fake_host_unregister(void *host)
{
    pthread_mutex_lock(&fake_lock);
    int error = fake_host_remove(host);
    pthread_mutex_unlock(&fake_lock);
    return error != 0 ? error : works("cuMemHostUnregister");
}

int fake_host_address(cuda_address *memory, void *host, unsigned flags)
{
    bool pinned = false;
    pthread_mutex_lock(&fake_lock);
    int error = fake_host_is_pinned(host, 1, &pinned);
    pthread_mutex_unlock(&fake_lock);
    *memory = (cuda_address)(uintptr_t)host;
    return error == 0 && pinned && flags == 0 ? works("cuMemHostGetDevicePointer_v2") : INVALID_VALUE;
}

/* ---- Queues ---- */
/* The queue as the thread may use it. NULL is the default queue of the thread's context. */
static int enter(cuda_queue *q)
{
    if (*q == NULL)
        *q = fake_default_queue(device_of_thread());
    return (*q)->lives && (*q)->device == device_of_thread() ? 0 : INVALID_HANDLE;
}

int fake_queue_create(cuda_queue *q, unsigned flags)
{
    ANSWER(works("cuStreamCreate"));
    if (flags != CUDA_QUEUE_NON_BLOCKING)
        return INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    *q = fake_queue_new(device_of_thread());
    pthread_mutex_unlock(&fake_lock);
    return *q != NULL ? 0 : CUDA_OUT_OF_MEMORY;
}

int fake_queue_destroy(cuda_queue q)
{
    pthread_mutex_lock(&fake_lock);
    fake_queue_end(q);
    pthread_mutex_unlock(&fake_lock);
    return works("cuStreamDestroy_v2");
}

int fake_queue_synchronize(cuda_queue q)
{
    ANSWER(works("cuStreamSynchronize"));
    if (skips("cuStreamSynchronize"))
        return 0;
    log_event("wait", "queue", 0);
    pthread_mutex_lock(&fake_lock);
    int error = enter(&q);
    if (error == 0) {
        const fake_clock order = q->order;
        fake_wait(q, q->enqueued);
        fake_host_sees(&order);
    }
    pthread_mutex_unlock(&fake_lock);
    return error != 0 ? error : broken;
}

int fake_queue_wait(cuda_queue q, cuda_ticket ticket, unsigned flags)
{
    ANSWER(works("cuStreamWaitEvent"));
    if (q == NULL || ticket == NULL || flags != 0)
        return INVALID_VALUE;
    if (skips("cuStreamWaitEvent"))
        return 0;
    pthread_mutex_lock(&fake_lock);
    int error = enter(&q);
    if (error == 0 && ticket->queue != NULL)
        fake_append_wait(q, ticket);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Copies ---- */
typedef struct copy_job {
    char *to;
    const char *from;
    size_t bytes;
    char *staged; /* the host's bytes at the time of the call, where they are not registered */
    bool is_watched;
    uint64_t digest; /* digest of registered memory of the host at the time of the call */
} copy_job;

static uint64_t digest_of(const char *from, size_t bytes)
{
    uint64_t sum = bytes, word;
    for (size_t i = 0; i < bytes; i += sizeof(word)) {
        word = 0;
        memcpy(&word, from + i, bytes - i < sizeof(word) ? bytes - i : sizeof(word));
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 32;
    }
    return sum;
}

/* The target has no value from here on. */
static void begin_copy(void *self)
{
    const copy_job *c = self;
    if (c->to + c->bytes <= c->from || c->from + c->bytes <= c->to)
        memset(c->to, 0xff, c->bytes);
}

static bool run_copy(void *self)
{
    const copy_job *c = self;
    if (c->is_watched && digest_of(c->from, c->bytes) != c->digest)
        fake_fault(
            "cuMemcpyAsync: %zu bytes of the host at %p have changed since the call, and the copy had not run yet",
            c->bytes, (const void *)c->from);
    memmove(c->to, c->staged != NULL ? c->staged : c->from, c->bytes);
    return true;
}

static void drop_copy(void *self)
{
    copy_job *c = self;
    free(c->staged);
    free(c);
}

/* One end of a copy. */
typedef struct copy_end {
    bool is_host, is_pinned;
} copy_end;

static int look_at_end(const char *at, size_t bytes, copy_end *end)
{
    const fake_block *b = fake_block_of(at);
    *end = (copy_end){.is_host = b == NULL};
    if (b != NULL)
        fake_block_expect_live(b, "cuMemcpyAsync");
    if (b != NULL)
        return at + bytes <= b->begin + b->bytes ? 0 : INVALID_VALUE;
    int error = fake_host_is_pinned(at, bytes, &end->is_pinned);
    return error == 0 && !end->is_pinned && bytes >= (size_t)fake_setting("pageable", LONG_MAX) ? INVALID_VALUE : error;
}

/* The bytes that copies of this process have moved between a GPU and the host, in both directions. */
static size_t crossed;

EXPORT size_t fake_driver_crossed(void);
size_t fake_driver_crossed(void)
{
    pthread_mutex_lock(&fake_lock);
    size_t bytes = crossed;
    pthread_mutex_unlock(&fake_lock);
    return bytes;
}

static int enqueue_copy(char *to, const char *from, size_t bytes, cuda_queue q)
{
    copy_end source, target;
    fake_operand operands[2];
    int n = 0;
    ANSWER(enter(&q));
    ANSWER(look_at_end(from, bytes, &source));
    ANSWER(look_at_end(to, bytes, &target));
    log_event("copy", source.is_host ? "up" : target.is_host ? "down" : "within", bytes);
    crossed += source.is_host != target.is_host ? bytes : 0;
    if (!target.is_host && leaves_out(bytes))
        return 0;
    copy_job *c = malloc(sizeof(*c));
    *c = (copy_job){.to = to, .from = from, .bytes = bytes};
    c->is_watched = source.is_host && source.is_pinned && !fake_order_is_written(from, bytes);
    if (c->is_watched)
        c->digest = digest_of(from, bytes);
    if (source.is_host && !source.is_pinned && !target.is_host) {
        c->staged = malloc(bytes + 1);
        memcpy(c->staged, from, bytes);
    }
    if (bytes > 0 && (!source.is_host || source.is_pinned))
        operands[n++] = (fake_operand){from, bytes, FAKE_READS, 0};
    if (bytes > 0 && (!target.is_host || target.is_pinned))
        operands[n++] = (fake_operand){to, bytes, FAKE_WRITES, 1};
    fake_append(q, &(fake_work){"a copy", begin_copy, run_copy, drop_copy, c, operands, n});
    if (target.is_host && (!target.is_pinned || source.is_host)) {
        const fake_clock order = q->order;
        fake_wait(q, q->enqueued);
        fake_host_sees(&order);
    }
    return 0;
}

int fake_copy(cuda_address to, cuda_address from, size_t bytes, cuda_queue q)
{
    ANSWER(works("cuMemcpyAsync"));
    pthread_mutex_lock(&fake_lock);
    int error = enqueue_copy((char *)(uintptr_t)to, (const char *)(uintptr_t)from, bytes, q);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Fills and writes ---- */
typedef struct fill_job {
    char *to;
    size_t bytes;
    uint32_t value;
} fill_job;

static fill_job *fill_job_of(cuda_address to, size_t bytes, uint32_t value)
{
    fill_job *f = malloc(sizeof(*f));
    *f = (fill_job){(char *)(uintptr_t)to, bytes, value};
    return f;
}

static bool run_fill(void *self)
{
    const fill_job *f = self;
    memset(f->to, (int)f->value, f->bytes);
    return true;
}

static bool run_write(void *self)
{
    const fill_job *f = self;
    __atomic_store_n((uint32_t *)(void *)f->to, f->value, __ATOMIC_RELEASE);
    return true;
}

int fake_fill(cuda_address to, unsigned char byte, size_t n, cuda_queue q)
{
    copy_end target;
    ANSWER(works("cuMemsetD8Async"));
    pthread_mutex_lock(&fake_lock);
    int error = enter(&q);
    if (error == 0)
        error = look_at_end((const char *)(uintptr_t)to, n, &target);
    if (error == 0 && target.is_host && !target.is_pinned)
        error = INVALID_VALUE;
    if (error == 0)
        log_event("fill", "within", n);
    if (error == 0 && !leaves_out(n) && !(byte != 0 && fake_only_counts())) {
        const fake_operand operand = {(void *)(uintptr_t)to, n, FAKE_WRITES, 0};
        fake_append(q, &(fake_work){"a fill", NULL, run_fill, free, fill_job_of(to, n, byte), &operand, n > 0});
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* The host reads it at any time, so only its being there matters. */
int fake_queue_write(cuda_queue q, cuda_address to, uint32_t value, unsigned flags)
{
    static long n_writes;
    const fake_operand operand = {(void *)(uintptr_t)to, sizeof(value), FAKE_READS, 0};
    long stuck = fake_setting("stuck", LONG_MAX);
    ANSWER(works("cuStreamWriteValue32_v2"));
    if (q == NULL || flags != 0)
        return INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    int error = enter(&q);
    if (error == 0 && ++n_writes >= stuck && !was_given())
        fake_append_end_of_all(q);
    if (error == 0)
        fake_append(q,
                    &(fake_work){"a write of progress", NULL, run_write, free, fill_job_of(to, 0, value), &operand, 1});
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Work of libraries above the driver ---- */
EXPORT int fake_driver_enqueue(cuda_queue q, const fake_work *work);
int fake_driver_enqueue(cuda_queue q, const fake_work *work)
{
    fake_operand known[256];
    fake_work listed = *work;
    ANSWER(works(work->name));
    pthread_mutex_lock(&fake_lock);
    int error = enter(&q), n = 0;
    for (int i = 0; i < work->n_operands && n < 256 && error == 0; i++) {
        const fake_operand *o = &work->operands[i];
        const fake_block *b = fake_block_of(o->begin);
        bool pinned = false;
        if (b != NULL)
            fake_block_expect_live(b, work->name);
        if (b != NULL && b->device != q->device && b->owner == getpid())
            fake_fault("%s on GPU %d uses %p, which is memory of GPU %d that it has not opened", work->name, q->device,
                       o->begin, b->device);
        if (b == NULL)
            fake_host_is_pinned(o->begin, 1, &pinned);
        if (b != NULL || pinned)
            known[n++] = *o;
    }
    listed.operands = known;
    listed.n_operands = n;
    if (error == 0)
        fake_append(q, &listed);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Events ---- */
int fake_ticket_create(cuda_ticket *ticket, unsigned flags)
{
    ANSWER(works("cuEventCreate"));
    if (flags != CUDA_TICKET_DISABLE_TIMING && flags != CUDA_TICKET_TIMED)
        return INVALID_VALUE;
    *ticket = malloc(sizeof(**ticket));
    if (*ticket == NULL)
        return CUDA_OUT_OF_MEMORY;
    **ticket = (struct CUevent_st){.timed = flags == CUDA_TICKET_TIMED, .device = device_of_thread()};
    return 0;
}

int fake_ticket_destroy(cuda_ticket ticket)
{
    pthread_mutex_lock(&fake_lock);
    fake_forget_ticket(ticket);
    pthread_mutex_unlock(&fake_lock);
    free(ticket);
    return works("cuEventDestroy_v2");
}

int fake_ticket_record(cuda_ticket ticket, cuda_queue q)
{
    ANSWER(works("cuEventRecord"));
    if (q == NULL || ticket == NULL)
        return INVALID_VALUE;
    if (skips("cuEventRecord"))
        return 0;
    if (fake_omits("CUDA_FAKE", "misplace", "cuEventRecord") != 0)
        q = NULL;
    pthread_mutex_lock(&fake_lock);
    int error = enter(&q);
    if (error == 0 && ticket->device != q->device)
        error = INVALID_HANDLE;
    if (error == 0) {
        fake_append_stamp(q, ticket);
        ticket->queue = q;
        ticket->number = q->enqueued;
        ticket->order = q->order;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

int fake_ticket_elapsed(float *ms, cuda_ticket from, cuda_ticket to)
{
    ANSWER(works("cuEventElapsedTime"));
    if (!from->timed || !to->timed || from->queue == NULL || to->queue == NULL)
        return INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    bool passed = fake_host_has_seen(from->queue, from->number) && fake_host_has_seen(to->queue, to->number);
    pthread_mutex_unlock(&fake_lock);
    *ms = (float)((double)(to->when.tv_sec - from->when.tv_sec) * 1e3 +
                  (double)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6);
    return passed ? 0 : NOT_READY;
}

int fake_ticket_query(cuda_ticket ticket)
{
    ANSWER(works("cuEventQuery"));
    if (ticket == NULL)
        return INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    bool passed = ticket->queue == NULL || ticket->queue->done >= ticket->number;
    if (passed && ticket->queue != NULL)
        fake_host_sees(&ticket->order);
    pthread_mutex_unlock(&fake_lock);
    return passed ? 0 : NOT_READY;
}

int fake_ticket_synchronize(cuda_ticket ticket)
{
    ANSWER(works("cuEventSynchronize"));
    if (ticket == NULL)
        return INVALID_VALUE;
    if (skips("cuEventSynchronize"))
        return 0;
    log_event("wait", "event", 0);
    pthread_mutex_lock(&fake_lock);
    if (ticket->queue != NULL) {
        const fake_clock order = ticket->order;
        fake_wait(ticket->queue, ticket->number);
        fake_host_sees(&order);
    }
    pthread_mutex_unlock(&fake_lock);
    return broken;
}
