/* Memory of the fake driver's GPUs, of this process and of others, and memory of the host that is registered for
 * copies. The room of a block that was freed is never used again, so later uses are found. */
#include "device/cuda_fake/fake_impl.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef __has_feature /* clang has it */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define HAS_ASAN true
#else
#define HAS_ASAN false
#endif

enum { ALIGN = 256, PAGE = 4096, UNIT = 2 << 20 };

/* The contents of a handle of 64 bytes. */
typedef struct shown_block {
    size_t bytes;
    int file, owner, device;
    ino_t host;
} shown_block;

_Static_assert(sizeof(shown_block) <= sizeof(cuda_ipc), "a handle holds it");

typedef struct registration {
    struct registration *next;
    char *begin;
    size_t bytes;
} registration;

static fake_block **blocks; /* sorted by their addresses */
static size_t n_blocks, room_for_blocks, used;
static registration *registrations;

size_t fake_memory_used(void)
{
    return used;
}

/* The interpreter of PTX, if it is loaded, learns which memory is a GPU's (tests/device/ptx/ptx_heap.h). */
void ptx_heap_is_of_gpu(void *begin) __attribute__((weak));
void ptx_heap_add(void *begin, size_t bytes) __attribute__((weak));
void ptx_heap_remove(void *begin) __attribute__((weak));

/* The heap's users see each block's exact size. */
static bool is_on_heap(void)
{
    return fake_setting("ipc", 0) == 0 && !fake_only_counts() && (HAS_ASAN || ptx_heap_is_of_gpu != NULL);
}

/* ---- The list ---- */
/* The number of blocks that begin at or before the address. */
static size_t place_of(const char *at)
{
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle]->begin <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static fake_block *find_block(const char *at)
{
    size_t i = place_of(at);
    return i > 0 && at < blocks[i - 1]->begin + blocks[i - 1]->bytes ? blocks[i - 1] : NULL;
}

const fake_block *fake_block_of(const char *at)
{
    return find_block(at);
}

void fake_block_expect_live(const fake_block *b, const char *what)
{
    if (b->freed)
        fake_fault("%s uses a block of %zu bytes at %p that was freed", what, b->bytes, (void *)b->begin);
    if (b->opens > 0 && b->shared != NULL && __atomic_load_n(&b->shared->freed, __ATOMIC_SEQ_CST) != 0)
        fake_fault("%s uses a block of %zu bytes that process %d has freed", what, b->bytes, b->owner);
}

static void unlist(const fake_block *b)
{
    size_t i = place_of(b->begin) - 1;
    free(blocks[i]);
    memmove(blocks + i, blocks + i + 1, (--n_blocks - i) * sizeof(*blocks));
}

static void list(fake_block about)
{
    if (is_on_heap() && ptx_heap_is_of_gpu != NULL)
        ptx_heap_is_of_gpu(about.begin);
    else if (ptx_heap_add != NULL)
        ptx_heap_add(about.begin, about.bytes);
    if (n_blocks == room_for_blocks) {
        room_for_blocks = 2 * room_for_blocks + 64;
        blocks = realloc(blocks, room_for_blocks * sizeof(*blocks));
    }
    size_t i = place_of(about.begin);
    memmove(blocks + i + 1, blocks + i, (n_blocks++ - i) * sizeof(*blocks));
    blocks[i] = malloc(sizeof(about));
    *blocks[i] = about;
    used += about.owner == getpid() ? about.bytes : 0;
}

/* ---- Room ---- */
static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Nothing lies around it, and what is read or written there ends the process. The block ends as near to the end of its
 * last page as its alignment allows; file -1: memory of this process alone. */
static char *map_room(int file, size_t bytes)
{
    size_t whole = whole_pages(bytes);
    char *room = mmap(NULL, whole + 2 * UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    room += UNIT - (uintptr_t)room % UNIT;
    const int flags = MAP_FIXED | (file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (mmap(room, whole, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED)
        return NULL;
    return file >= 0 ? room : room + (whole - bytes) / ALIGN * ALIGN; /* others open whole blocks of the driver */
}

static fake_shared *map_shared(int file, size_t bytes)
{
    void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)whole_pages(bytes));
    return at != MAP_FAILED ? at : NULL;
}

static void drop_room(const fake_block *b)
{
    char *room = (char *)((uintptr_t)b->begin / PAGE * PAGE);
    size_t whole = (size_t)(b->begin - room) + whole_pages(b->bytes);
    if (ptx_heap_remove != NULL && !is_on_heap())
        ptx_heap_remove(b->begin);
    if (is_on_heap())
        free(b->begin);
    else
        mmap(room, whole / PAGE * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (b->shared != NULL)
        munmap(b->shared, PAGE);
    if (b->file >= 0)
        close(b->file);
}

/* New memory holds bytes that are no number as bf16 or float. If the driver only counts, it is 0, without pages. */
int fake_room_new(cuda_address *memory, size_t bytes, int device)
{
    fake_block b = {.bytes = bytes, .device = device, .file = -1, .owner = getpid()};
    void *heap = NULL;
    if (bytes == 0)
        return INVALID_VALUE;
    if (used + bytes > (size_t)fake_setting("memory", 1 << 30))
        return CUDA_OUT_OF_MEMORY;
    if (is_on_heap()) {
        b.begin = posix_memalign(&heap, ALIGN, bytes) == 0 ? heap : NULL;
    } else if (fake_setting("ipc", 0) != 0) {
        b.file = memfd_create("fake GPU", MFD_CLOEXEC);
        if (b.file >= 0 && ftruncate(b.file, (off_t)(whole_pages(bytes) + PAGE)) == 0) {
            b.begin = map_room(b.file, bytes);
            b.shared = map_shared(b.file, bytes);
        }
    } else {
        b.begin = map_room(-1, bytes);
    }
    if (b.begin == NULL)
        return CUDA_OUT_OF_MEMORY;
    if (!fake_only_counts())
        memset(b.begin, 0xff, bytes);
    list(b);
    *memory = (cuda_address)(uintptr_t)b.begin;
    return 0;
}

int fake_room_free(cuda_address memory)
{
    fake_block *b = find_block((char *)(uintptr_t)memory);
    if (b == NULL || b->begin != (char *)(uintptr_t)memory || b->owner != getpid())
        return INVALID_VALUE;
    if (b->freed)
        fake_fault("cuMemFree: the block of %zu bytes at %p was freed before", b->bytes, (void *)b->begin);
    if (!fake_is_broken())
        fake_order_expect_unused(b->begin, b->bytes, "cuMemFree");
    if (b->shared != NULL)
        __atomic_store_n(&b->shared->freed, 1, __ATOMIC_SEQ_CST);
    drop_room(b);
    used -= b->bytes;
    b->freed = true;
    if (is_on_heap()) /* it may be anything's next, and the heap's users find late accesses */
        unlist(b);
    return 0;
}

/* ---- Memory of other processes ---- */
/* Hosts that tests make have a network of their own. */
static ino_t host_number(void)
{
    struct stat about;
    return stat("/proc/self/ns/net", &about) == 0 ? about.st_ino : 0;
}

int fake_room_show(cuda_ipc *ipc, cuda_address memory)
{
    const fake_block *b = find_block((char *)(uintptr_t)memory);
    if (fake_setting("ipc", 0) == 0)
        return NOT_SUPPORTED;
    if (b == NULL || b->freed || b->file < 0)
        return INVALID_VALUE;
    const shown_block shown = {b->bytes, b->file, b->owner, b->device, host_number()};
    memcpy(ipc->bytes, &shown, sizeof(shown));
    return 0;
}

int fake_room_open(cuda_address *memory, const cuda_ipc *ipc, int device)
{
    shown_block shown;
    char path[64];
    memcpy(&shown, ipc->bytes, sizeof(shown));
    for (size_t i = 0; i < n_blocks; i++) /* opened before: it has one address, as with the real one */
        if (blocks[i]->opens > 0 && blocks[i]->owner == shown.owner && blocks[i]->source == shown.file) {
            blocks[i]->opens++;
            *memory = (cuda_address)(uintptr_t)blocks[i]->begin;
            return 0;
        }
    if (shown.owner == getpid())
        return INVALID_CONTEXT;
    if (shown.host != host_number())
        return INVALID_VALUE;
    if (shown.device != device && fake_setting("peers", 1) == 0)
        return PEER_UNSUPPORTED;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", shown.owner, shown.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return INVALID_CONTEXT;
    fake_block b = {.bytes = shown.bytes,
                    .device = shown.device,
                    .file = -1,
                    .owner = shown.owner,
                    .source = shown.file,
                    .opens = 1};
    b.begin = map_room(file, shown.bytes);
    b.shared = map_shared(file, shown.bytes);
    close(file);
    if (b.begin == NULL)
        return CUDA_OUT_OF_MEMORY;
    list(b);
    *memory = (cuda_address)(uintptr_t)b.begin;
    return 0;
}

int fake_room_close(cuda_address memory)
{
    fake_block *b = find_block((char *)(uintptr_t)memory);
    if (b == NULL || b->begin != (char *)(uintptr_t)memory || b->opens == 0)
        return INVALID_VALUE;
    if (b->opens > 1) {
        b->opens--;
        return 0;
    }
    if (!fake_is_broken())
        fake_order_expect_unused(b->begin, b->bytes, "cuIpcCloseMemHandle");
    b->opens = 0;
    b->freed = true;
    drop_room(b);
    return 0;
}

/* ---- Memory of the host ---- */
/* The first that meets the range. */
static registration **find_registration(const char *at, size_t bytes)
{
    registration **r = &registrations;
    const uintptr_t begin = (uintptr_t)at; /* any word of a kernel's parameters, perhaps no address */
    while (*r != NULL && (begin + bytes <= (uintptr_t)(*r)->begin || begin >= (uintptr_t)(*r)->begin + (*r)->bytes))
        r = &(*r)->next;
    return r;
}

int fake_host_add(void *host, size_t bytes)
{
    if ((uintptr_t)host % PAGE != 0 || bytes == 0 || bytes % PAGE != 0)
        return INVALID_VALUE;
    if (*find_registration(host, bytes) != NULL)
        return ALREADY_REGISTERED;
    registration *r = malloc(sizeof(*r));
    *r = (registration){.next = registrations, .begin = host, .bytes = bytes};
    registrations = r;
    return 0;
}

int fake_host_remove(void *host)
{
    registration **at = find_registration(host, 1), *r = *at;
    if (r == NULL || r->begin != (char *)host)
        return INVALID_VALUE;
    if (!fake_is_broken())
        fake_order_expect_unused(r->begin, r->bytes, "cuMemHostUnregister");
    *at = r->next;
    free(r);
    return 0;
}

/* Whether memory of the host is registered: whole, or not at all. */
int fake_host_is_pinned(const char *at, size_t bytes, bool *pinned)
{
    const registration *r = *find_registration(at, bytes);
    *pinned = r != NULL;
    return r == NULL || (at >= r->begin && at + bytes <= r->begin + r->bytes) ? 0 : INVALID_VALUE;
}
