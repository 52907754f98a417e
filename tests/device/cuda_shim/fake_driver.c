/* A libcuda.so.1 for tests without a GPU: its GPUs' memory is the host's, and its queues are always done. What it shall
 * be is in the environment, CUDA_FAKE="devices=2,major=9,minor=0,version=13000,memory=1000000,fail=cuMemAlloc_v2:3:2":
 * the third call of that function gives error 2 ("hang": never returns). ipc=1: other processes may open its memory,
 * which then has no room around it that finds strays. CUDA_FAKE_ONCE=FILE: in one process, which
 * makes that file. As the real one does, it honours CUDA_VISIBLE_DEVICES, wants a context in each thread, does not work
 * in a process that was forked after it had started, nor any more after an error of a kernel or of the hardware. */
#include <fcntl.h>
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
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    ALIGN = 256
};

static int starter; /* the process that initialised it */
static int broken;  /* the error that ended all work */
static size_t used;
static _Thread_local cuda_context current;
static struct CUctx_st {
    bool retained;
} contexts[16];
struct CUevent_st {
    bool timed;
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
    broken = error >= 700 || error == 214 ? error : 0;
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

/* Of the real driver's, too, but only libraries that lie above it call it. */
EXPORT int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device)
{
    *device = (int)(current - contexts);
    return current == NULL ? INVALID_CONTEXT : 0;
}

int fake_context_synchronize(void)
{
    return works("cuCtxSynchronize");
}

/* In front of a block is its size, and its file where it can be shown to others. */
typedef struct fake_block {
    size_t bytes;
    int file, owner;
} fake_block;

enum { PAGE = 4096 };

static fake_block *block_of(cuda_address memory)
{
    return (fake_block *)(uintptr_t)(memory - (setting("ipc", 0) != 0 ? PAGE : ALIGN));
}

static void *map_block(int file, size_t bytes)
{
    void *at = mmap(NULL, PAGE + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return at != MAP_FAILED ? at : NULL;
}

/* The room of a block with what is in front; NULL: none is left. */
static char *take_room(size_t bytes, int *file)
{
    void *room = NULL;
    *file = -1;
    if (setting("ipc", 0) == 0)
        return posix_memalign(&room, ALIGN, ALIGN + bytes) == 0 ? room : NULL;
    *file = memfd_create("fake GPU", MFD_CLOEXEC);
    return *file >= 0 && ftruncate(*file, (off_t)(PAGE + bytes)) == 0 ? map_block(*file, bytes) : NULL;
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
    used += bytes;
    *memory = (cuda_address)(uintptr_t)(room + (file >= 0 ? PAGE : ALIGN));
    *block_of(*memory) = (fake_block){bytes, file, getpid()};
    memset((void *)(uintptr_t)*memory, 0xa5, bytes);
    return 0;
}

int fake_memory_free(cuda_address memory)
{
    int error = works("cuMemFree_v2");
    fake_block *block = block_of(memory);
    used -= block->bytes;
    if (block->file < 0) {
        free(block);
        return error;
    }
    close(block->file);
    munmap(block, PAGE + block->bytes);
    return error;
}

int fake_ipc_get(cuda_ipc *ipc, cuda_address memory)
{
    ANSWER(works("cuIpcGetMemHandle"));
    if (setting("ipc", 0) == 0)
        return NOT_SUPPORTED;
    memcpy(ipc->bytes, block_of(memory), sizeof(fake_block));
    return 0;
}

int fake_ipc_open(cuda_address *memory, cuda_ipc ipc, unsigned flags)
{
    ANSWER(works("cuIpcOpenMemHandle_v2"));
    fake_block block;
    char path[64];
    memcpy(&block, ipc.bytes, sizeof(block));
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", block.owner, block.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    char *room = file >= 0 ? map_block(file, block.bytes) : NULL;
    if (file >= 0)
        close(file);
    if (room == NULL || flags != CUDA_IPC_ENABLE_PEER_ACCESS || block.owner == getpid())
        return INVALID_CONTEXT;
    *memory = (cuda_address)(uintptr_t)(room + PAGE);
    return 0;
}

int fake_ipc_close(cuda_address memory)
{
    fake_block *block = block_of(memory);
    int error = works("cuIpcCloseMemHandle");
    munmap(block, PAGE + block->bytes);
    return error;
}

int fake_memory_info(size_t *left, size_t *whole)
{
    *whole = (size_t)setting("memory", 1 << 30);
    *left = *whole - used;
    return works("cuMemGetInfo_v2");
}

int fake_host_register(void *host, size_t bytes, unsigned flags)
{
    if ((uintptr_t)host % 4096 != 0 || bytes == 0 || bytes % 4096 != 0 || flags != 0)
        return INVALID_VALUE;
    return works("cuMemHostRegister_v2");
}

int fake_host_unregister(void *host)
{
    return (uintptr_t)host % 4096 != 0 ? INVALID_VALUE : works("cuMemHostUnregister");
}

int fake_copy(cuda_address to, cuda_address from, size_t bytes, cuda_queue q)
{
    ANSWER(works("cuMemcpyAsync"));
    (void)q;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

int fake_fill(cuda_address to, unsigned char byte, size_t n, cuda_queue q)
{
    ANSWER(works("cuMemsetD8Async"));
    (void)q;
    memset((void *)(uintptr_t)to, byte, n);
    return 0;
}

int fake_queue_create(cuda_queue *q, unsigned flags)
{
    ANSWER(works("cuStreamCreate"));
    if (flags != CUDA_QUEUE_NON_BLOCKING)
        return INVALID_VALUE;
    *q = malloc(1);
    return *q != NULL ? 0 : CUDA_OUT_OF_MEMORY;
}

int fake_queue_destroy(cuda_queue q)
{
    free(q);
    return works("cuStreamDestroy_v2");
}

int fake_queue_synchronize(cuda_queue q)
{
    (void)q;
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
    return works("cuEventRecord");
}

int fake_ticket_elapsed(float *ms, cuda_ticket from, cuda_ticket to)
{
    if (!from->timed || !to->timed)
        return 400;
    *ms = (float)((double)(to->when.tv_sec - from->when.tv_sec) * 1e3 +
                  (double)(to->when.tv_nsec - from->when.tv_nsec) * 1e-6);
    return works("cuEventElapsedTime");
}

int fake_ticket_query(cuda_ticket ticket)
{
    return ticket == NULL ? INVALID_VALUE : works("cuEventQuery");
}

int fake_ticket_synchronize(cuda_ticket ticket)
{
    return ticket == NULL ? INVALID_VALUE : works("cuEventSynchronize");
}
