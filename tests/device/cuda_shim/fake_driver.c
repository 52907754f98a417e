/* A libcuda.so.1 for tests without a GPU: its GPUs' memory is the host's, and its queues are always done. Its
 * properties are in the environment,
 * CUDA_FAKE="devices=2,major=9,minor=0,version=13000,memory=1000000,fail=cuMemAlloc_v2:3:2": the third call of that
 * function gives error 2 ("hang": never returns). CUDA_FAKE_ONCE=FILE: in one process, which makes that file.
 * pageable=BYTES: copies of at least that size from or to memory of the host are refused unless it is registered.
 * stuck=N: from the Nth write of a queue on nothing is done any more. ipc=1: other processes may open its memory, which
 * then has no room around it that finds strays. counts=1: it only counts, for models larger than the host. Its memory
 * is addresses without pages, so it is 0. Large copies to it, large fills and fills with another byte do not take
 * place. CUDA_FAKE_LOG=FILE gets a line for each copy, fill and wait of the host. As the real one does, it tells no
 * time of an event that the host has not seen pass, it wants a copy's memory registered whole or not at all, honours
 * CUDA_VISIBLE_DEVICES, wants a context in each thread, does not work in a process that was forked after it had
 * started, nor any more after an error of a kernel or of the hardware. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device/cuda/cuda_driver.h"
#include "fake_wishes.h"

#define EXPORT __attribute__((visibility("default")))
enum {
    NO_DEVICE = 100,
    NOT_SUPPORTED = 801,
    INVALID_VALUE = 1,
    NOT_READY = 600,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    ALREADY_REGISTERED = 712,
    ALIGN = 256,
    MOST_COUNTED = 1 << 20 /* larger copies do not take place where they only count */
};

/* Memory of a GPU, of this process or opened by it. */
typedef struct block {
    struct block *next;
    char *begin;
    size_t bytes;
    int file, owner;   /* file -1: it cannot be shown to others, or is another's */
    int source, opens; /* another process's block: its owner's file; how often it is open */
} block;

/* Registered memory of the host. A copy uses it until the host has waited for what is after the copy. */
typedef struct registration {
    struct registration *next;
    char *begin;
    size_t bytes;
    cuda_queue queue; /* queue of the newest copy; NULL: it is over */
    long number;      /* number of that copy */
} registration;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static registration *registrations;
static long n_copies;
static long n_records, all_seen; /* events recorded; those that the host has seen pass by waiting for everything */

static int starter; /* the process that initialised it */
static int broken;  /* the error that ended all work */
static size_t used;
static _Thread_local cuda_context current;
static struct CUctx_st {
    bool retained;
} contexts[16];
struct CUstream_st {
    long seen; /* the newest record that the host has seen pass */
};
struct CUevent_st {
    bool timed;
    cuda_queue queue; /* the queue that it was recorded on, and how many copies there had been */
    long n_copies;
    long number; /* number of the record among those of all queues; 0: none */
    struct timespec when;
};

static long setting(const char *key, long fallback)
{
    return fake_number("CUDA_FAKE", key, fallback);
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

static int n_devices(void)
{
    int n = (int)setting("devices", 1), n_visible = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible == NULL)
        return n;
    for (char *end; *visible != '\0'; visible = end + (*end == ',')) {
        long number = strtol(visible, &end, 10);
        if (end == visible || number < 0 || number >= n)
            break;
        n_visible++;
    }
    return n_visible;
}

static int works(const char *function)
{
    int error = starter != getpid()                     ? NOT_INITIALIZED
                : current == NULL || !current->retained ? INVALID_CONTEXT
                                                        : broken;
    return error != 0 ? error : due(function);
}

static bool only_counts(void)
{
    return setting("counts", 0) != 0;
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

int fake_init(unsigned flags)
{
    (void)flags;
    ANSWER(due("cuInit"));
    if (starter != 0 && starter != getpid())
        return NOT_INITIALIZED;
    starter = getpid();
    return n_devices() > 0 ? 0 : NO_DEVICE;
}

int fake_version(int *version)
{
    *version = (int)setting("version", 13000);
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
    return number < n_devices() ? due("cuDeviceGet") : 101;
}

int fake_device_name(char *name, int bytes, int device)
{
    snprintf(name, (size_t)bytes, "Fake GPU %c", 'A' + device);
    return 0;
}

int fake_device_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == CUDA_ATTRIBUTE_MAJOR              ? (int)setting("major", 9)
             : attribute == CUDA_ATTRIBUTE_MINOR            ? (int)setting("minor", 0)
             : attribute == CUDA_ATTRIBUTE_ECC              ? (int)setting("ecc", 1)
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
    *bytes = (size_t)setting("memory", 1 << 30);
    return 0;
}

int fake_device_bus(char *id, int bytes, int device)
{
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", 16 + device);
    return 0;
}

int fake_device_reaches(int *can, int device, int peer)
{
    (void)device;
    (void)peer;
    *can = (int)setting("peers", 1);
    return 0;
}

int fake_context_retain(cuda_context *context, int device)
{
    ANSWER(due("cuDevicePrimaryCtxRetain"));
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
    *device = (int)(current - contexts);
    return current == NULL ? INVALID_CONTEXT : 0;
}

/* The host has waited for the first n copies of a queue; NULL: of all. */
static void end_copies(cuda_queue q, long n)
{
    pthread_mutex_lock(&lock);
    for (registration *r = registrations; r != NULL; r = r->next)
        if ((q == NULL || r->queue == q) && r->number <= n)
            r->queue = NULL;
    pthread_mutex_unlock(&lock);
}

/* The host has seen the queue's first `number` records pass; LONG_MAX: all. */
static void see_pass(cuda_queue q, long number)
{
    pthread_mutex_lock(&lock);
    number = number < n_records ? number : n_records;
    if (q->seen < number)
        q->seen = number;
    pthread_mutex_unlock(&lock);
}

static bool has_passed(cuda_ticket ticket)
{
    pthread_mutex_lock(&lock);
    bool passed = ticket->number > 0 && (ticket->number <= all_seen || ticket->number <= ticket->queue->seen);
    pthread_mutex_unlock(&lock);
    return passed;
}

int fake_context_synchronize(void)
{
    end_copies(NULL, LONG_MAX);
    pthread_mutex_lock(&lock);
    all_seen = n_records;
    pthread_mutex_unlock(&lock);
    return works("cuCtxSynchronize");
}

/* Returns the beginning of a block of the driver; the room around it is never used again. */
static char *map_block(int file, size_t bytes)
{
    enum { UNIT = 2 << 20 };
    char *room = mmap(NULL, bytes + UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    room += (UNIT - (uintptr_t)room % UNIT) % UNIT;
    void *at = mmap(room, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    return at != MAP_FAILED ? at : NULL;
}

/* Memory for a block, and its file where others may open it; NULL: none is left. */
static char *take_room(size_t bytes, int *file)
{
    void *room = NULL;
    *file = -1;
    if (only_counts()) {
        room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return room != MAP_FAILED ? room : NULL;
    }
    if (setting("ipc", 0) == 0)
        return posix_memalign(&room, ALIGN, bytes) == 0 ? room : NULL;
    *file = memfd_create("fake GPU", MFD_CLOEXEC);
    return *file >= 0 && ftruncate(*file, (off_t)bytes) == 0 ? map_block(*file, bytes) : NULL;
}

/* The interpreter of PTX, if it is loaded, learns which memory is a GPU's (tests/device/ptx/ptx_heap.h). */
void ptx_heap_is_of_gpu(void *begin) __attribute__((weak));
void ptx_heap_add(void *begin, size_t bytes) __attribute__((weak));
void ptx_heap_remove(void *begin) __attribute__((weak));

static void list_block(block about)
{
    if (only_counts() && ptx_heap_add != NULL)
        ptx_heap_add(about.begin, about.bytes);
    if (ptx_heap_is_of_gpu != NULL)
        ptx_heap_is_of_gpu(about.begin);
    block *b = malloc(sizeof(*b));
    pthread_mutex_lock(&lock);
    about.next = blocks;
    *b = about;
    blocks = b;
    used += about.owner == getpid() ? about.bytes : 0;
    pthread_mutex_unlock(&lock);
}

/* Takes it off the list; NULL: it is not there. */
static block *unlist_block(cuda_address memory)
{
    pthread_mutex_lock(&lock);
    block **at = &blocks;
    while (*at != NULL && (*at)->begin != (char *)(uintptr_t)memory)
        at = &(*at)->next;
    block *b = *at;
    if (b != NULL) {
        *at = b->next;
        used -= b->owner == getpid() ? b->bytes : 0;
    }
    pthread_mutex_unlock(&lock);
    return b;
}

int fake_memory_alloc(cuda_address *memory, size_t bytes)
{
    ANSWER(works("cuMemAlloc_v2"));
    if (bytes == 0)
        return INVALID_VALUE;
    int file = -1;
    char *room = used + bytes <= (size_t)setting("memory", 1 << 30) ? take_room(bytes, &file) : NULL;
    if (room == NULL)
        return CUDA_OUT_OF_MEMORY;
    if (!only_counts())
        memset(room, 0xa5, bytes);
    *memory = (cuda_address)(uintptr_t)room;
    list_block((block){.begin = room, .bytes = bytes, .file = file, .owner = getpid()});
    return 0;
}

int fake_memory_free(cuda_address memory)
{
    int error = works("cuMemFree_v2");
    block *b = unlist_block(memory);
    if (b == NULL)
        return INVALID_VALUE;
    if (b->file >= 0) {
        close(b->file);
        munmap(b->begin, b->bytes);
    } else if (only_counts()) {
        if (ptx_heap_remove != NULL)
            ptx_heap_remove(b->begin);
        munmap(b->begin, b->bytes);
    } else {
        free(b->begin);
    }
    free(b);
    return error;
}

int fake_ipc_get(cuda_ipc *ipc, cuda_address memory)
{
    ANSWER(works("cuIpcGetMemHandle"));
    if (setting("ipc", 0) == 0)
        return NOT_SUPPORTED;
    const block *b = blocks;
    while (b != NULL && b->begin != (char *)(uintptr_t)memory)
        b = b->next;
    if (b == NULL)
        return INVALID_VALUE;
    memcpy(ipc->bytes, b, sizeof(*b));
    return 0;
}

/* Opened before: it has one address, as with the real one. */
static block *open_again(const block *theirs)
{
    pthread_mutex_lock(&lock);
    block *b = blocks;
    while (b != NULL && (b->opens == 0 || b->owner != theirs->owner || b->source != theirs->file))
        b = b->next;
    if (b != NULL)
        b->opens++;
    pthread_mutex_unlock(&lock);
    return b;
}

static bool is_open_still(cuda_address memory)
{
    pthread_mutex_lock(&lock);
    block *b = blocks;
    while (b != NULL && b->begin != (char *)(uintptr_t)memory)
        b = b->next;
    bool is = b != NULL && --b->opens > 0;
    pthread_mutex_unlock(&lock);
    return is;
}

int fake_ipc_open(cuda_address *memory, cuda_ipc ipc, unsigned flags)
{
    ANSWER(works("cuIpcOpenMemHandle_v2"));
    block theirs;
    char path[64];
    memcpy(&theirs, ipc.bytes, sizeof(theirs));
    const block *before = open_again(&theirs);
    if (before != NULL) {
        *memory = (cuda_address)(uintptr_t)before->begin;
        return 0;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", theirs.owner, theirs.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    char *room = file >= 0 ? map_block(file, theirs.bytes) : NULL;
    if (file >= 0)
        close(file);
    if (room == NULL || flags != CUDA_IPC_ENABLE_PEER_ACCESS || theirs.owner == getpid())
        return INVALID_CONTEXT;
    list_block((block){
        .begin = room, .bytes = theirs.bytes, .file = -1, .owner = theirs.owner, .source = theirs.file, .opens = 1});
    *memory = (cuda_address)(uintptr_t)room;
    return 0;
}

int fake_ipc_close(cuda_address memory)
{
    int error = works("cuIpcCloseMemHandle");
    if (is_open_still(memory))
        return error;
    block *b = unlist_block(memory);
    if (b == NULL)
        return INVALID_VALUE;
    munmap(b->begin, b->bytes);
    free(b);
    return error;
}

int fake_memory_info(size_t *left, size_t *whole)
{
    *whole = (size_t)setting("memory", 1 << 30);
    *left = *whole - used;
    return works("cuMemGetInfo_v2");
}

static bool is_of_gpu(const char *at)
{
    const block *b = blocks;
    while (b != NULL && (at < b->begin || at >= b->begin + b->bytes))
        b = b->next;
    return b != NULL;
}

/* The first that meets the range. */
static registration **find_registration(const char *at, size_t bytes)
{
    registration **r = &registrations;
    while (*r != NULL && (at + bytes <= (*r)->begin || at >= (*r)->begin + (*r)->bytes))
        r = &(*r)->next;
    return r;
}

int fake_host_register(void *host, size_t bytes, unsigned flags)
{
    if ((uintptr_t)host % 4096 != 0 || bytes == 0 || bytes % 4096 != 0 || flags != CUDA_REGISTER_MAPPED)
        return INVALID_VALUE;
    ANSWER(works("cuMemHostRegister_v2"));
    registration *r = malloc(sizeof(*r));
    *r = (registration){.begin = host, .bytes = bytes};
    pthread_mutex_lock(&lock);
    bool is_new = *find_registration(host, bytes) == NULL;
    if (is_new) {
        r->next = registrations;
        registrations = r;
    }
    pthread_mutex_unlock(&lock);
    if (!is_new)
        free(r);
    return is_new ? 0 : ALREADY_REGISTERED;
}

int fake_host_unregister(void *host)
{
    pthread_mutex_lock(&lock);
    registration **at = find_registration(host, 1), *r = *at;
    if (r == NULL || r->begin != host) {
        pthread_mutex_unlock(&lock);
        return INVALID_VALUE;
    }
    if (r->queue != NULL) {
        fprintf(stderr, "cuMemHostUnregister: a copy from or to the memory may be under way\n");
        abort();
    }
    *at = r->next;
    pthread_mutex_unlock(&lock);
    free(r);
    return works("cuMemHostUnregister");
}

/* Whether the host's end of a copy is one that copies may have. */
static int use_end(const char *at, size_t bytes, cuda_queue q)
{
    registration *r = *find_registration(at, bytes);
    if (is_of_gpu(at))
        return 0;
    if (r == NULL)
        return bytes >= (size_t)setting("pageable", LONG_MAX) ? INVALID_VALUE : 0;
    r->queue = q;
    r->number = n_copies;
    return at >= r->begin && at + bytes <= r->begin + r->bytes ? 0 : INVALID_VALUE;
}

/* The bytes that copies of this process have moved between a GPU and the host, in both directions. */
static size_t crossed;

EXPORT size_t fake_driver_crossed(void);
size_t fake_driver_crossed(void)
{
    pthread_mutex_lock(&lock);
    size_t bytes = crossed;
    pthread_mutex_unlock(&lock);
    return bytes;
}

int fake_copy(cuda_address to, cuda_address from, size_t bytes, cuda_queue q)
{
    ANSWER(works("cuMemcpyAsync"));
    pthread_mutex_lock(&lock);
    n_copies++;
    int error = use_end((const char *)(uintptr_t)from, bytes, q);
    if (error == 0)
        error = use_end((const char *)(uintptr_t)to, bytes, q);
    if (is_of_gpu((const char *)(uintptr_t)from) != is_of_gpu((const char *)(uintptr_t)to))
        crossed += bytes;
    pthread_mutex_unlock(&lock);
    ANSWER(error);
    log_event("copy",
              !is_of_gpu((const char *)(uintptr_t)from) ? "up"
              : !is_of_gpu((const char *)(uintptr_t)to) ? "down"
                                                        : "within",
              bytes);
    if (!only_counts() || bytes <= MOST_COUNTED || !is_of_gpu((const char *)(uintptr_t)to))
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

int fake_host_address(cuda_address *memory, void *host, unsigned flags)
{
    pthread_mutex_lock(&lock);
    bool found = flags == 0 && *find_registration(host, 1) != NULL;
    pthread_mutex_unlock(&lock);
    *memory = (cuda_address)(uintptr_t)host;
    return found ? works("cuMemHostGetDevicePointer_v2") : INVALID_VALUE;
}

/* A queue that is stuck gets work, and does none of it. */
static bool is_stuck;

int fake_queue_write(cuda_queue q, cuda_address to, uint32_t value, unsigned flags)
{
    static long n_writes;
    long stuck = setting("stuck", LONG_MAX);
    uint32_t *at = (uint32_t *)(uintptr_t)to;
    ANSWER(works("cuStreamWriteValue32_v2"));
    if (q == NULL || flags != 0)
        return INVALID_VALUE;
    is_stuck = is_stuck || (++n_writes >= stuck && !was_given());
    if (!is_stuck)
        __atomic_store_n(at, value, __ATOMIC_RELEASE);
    return 0;
}

int fake_fill(cuda_address to, unsigned char byte, size_t n, cuda_queue q)
{
    ANSWER(works("cuMemsetD8Async"));
    (void)q;
    log_event("fill", "within", n);
    if (!only_counts() || (byte == 0 && n <= MOST_COUNTED))
        memset((void *)(uintptr_t)to, byte, n);
    return 0;
}

int fake_queue_create(cuda_queue *q, unsigned flags)
{
    ANSWER(works("cuStreamCreate"));
    if (flags != CUDA_QUEUE_NON_BLOCKING)
        return INVALID_VALUE;
    *q = calloc(1, sizeof(**q));
    return *q != NULL ? 0 : CUDA_OUT_OF_MEMORY;
}

int fake_queue_destroy(cuda_queue q)
{
    free(q);
    return works("cuStreamDestroy_v2");
}

int fake_queue_synchronize(cuda_queue q)
{
    while (is_stuck)
        pause();
    log_event("wait", "queue", 0);
    if (q != NULL) {
        end_copies(q, LONG_MAX);
        see_pass(q, LONG_MAX);
    }
    return works("cuStreamSynchronize");
}

int fake_queue_wait(cuda_queue q, cuda_ticket ticket, unsigned flags)
{
    return q == NULL || ticket == NULL || flags != 0 ? INVALID_VALUE : works("cuStreamWaitEvent");
}

int fake_ticket_create(cuda_ticket *ticket, unsigned flags)
{
    ANSWER(works("cuEventCreate"));
    if (flags != CUDA_TICKET_DISABLE_TIMING && flags != CUDA_TICKET_TIMED)
        return INVALID_VALUE;
    *ticket = malloc(sizeof(**ticket));
    if (*ticket == NULL)
        return CUDA_OUT_OF_MEMORY;
    **ticket = (struct CUevent_st){.timed = flags == CUDA_TICKET_TIMED};
    return 0;
}

int fake_ticket_destroy(cuda_ticket ticket)
{
    free(ticket);
    return works("cuEventDestroy_v2");
}

int fake_ticket_record(cuda_ticket ticket, cuda_queue q)
{
    if (q == NULL || ticket == NULL)
        return INVALID_VALUE;
    clock_gettime(CLOCK_MONOTONIC, &ticket->when);
    pthread_mutex_lock(&lock);
    ticket->queue = q;
    ticket->n_copies = n_copies;
    ticket->number = ++n_records;
    pthread_mutex_unlock(&lock);
    return works("cuEventRecord");
}

int fake_ticket_elapsed(float *ms, cuda_ticket from, cuda_ticket to)
{
    if (!from->timed || !to->timed)
        return 400;
    if (!has_passed(from) || !has_passed(to))
        return NOT_READY;
    *ms = (float)((double)(to->when.tv_sec - from->when.tv_sec) * 1e3 +
                  (double)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6);
    return works("cuEventElapsedTime");
}

int fake_ticket_query(cuda_ticket ticket)
{
    if (ticket == NULL)
        return INVALID_VALUE;
    ANSWER(works("cuEventQuery"));
    if (ticket->queue != NULL)
        see_pass(ticket->queue, ticket->number);
    return 0;
}

int fake_ticket_synchronize(cuda_ticket ticket)
{
    while (is_stuck)
        pause();
    log_event("wait", "event", 0);
    if (ticket != NULL && ticket->queue != NULL) {
        end_copies(ticket->queue, ticket->n_copies);
        see_pass(ticket->queue, ticket->number);
    }
    return ticket == NULL ? INVALID_VALUE : works("cuEventSynchronize");
}
