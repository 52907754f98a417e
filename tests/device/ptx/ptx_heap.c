#include "device/ptx/ptx_heap.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* glibc's own functions, under the names that it has for replacements. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *memory);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Sorted by address. A block stays where it is, since kernels run next to threads that allocate. */
static ptx_block **blocks;
static size_t n_blocks, room;
static bool knows_gpus;

/* Returns the index of the first block that begins after the address. */
static size_t index_after(uintptr_t address)
{
    size_t low = 0, high = n_blocks;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (blocks[middle]->begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void list(void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (n_blocks == room) {
        room = room > 0 ? 2 * room : 1024;
        blocks = __libc_realloc(blocks, room * sizeof(*blocks));
        if (blocks == NULL)
            _exit(3);
    }
    const size_t at = index_after((uintptr_t)memory);
    memmove(&blocks[at + 1], &blocks[at], (n_blocks - at) * sizeof(*blocks));
    blocks[at] = __libc_malloc(sizeof(**blocks));
    if (blocks[at] == NULL)
        _exit(3);
    *blocks[at] = (ptx_block){.begin = (uintptr_t)memory, .bytes = bytes};
    n_blocks++;
    pthread_mutex_unlock(&lock);
}

static void unlist(void *memory)
{
    pthread_mutex_lock(&lock);
    const size_t at = index_after((uintptr_t)memory);
    if (at > 0 && blocks[at - 1]->begin == (uintptr_t)memory) {
        __libc_free(blocks[at - 1]->unwritten);
        __libc_free(blocks[at - 1]->accesses);
        __libc_free(blocks[at - 1]);
        memmove(&blocks[at - 1], &blocks[at], (n_blocks - at) * sizeof(*blocks));
        n_blocks--;
    }
    pthread_mutex_unlock(&lock);
}

static ptx_block *find_segment(uintptr_t address);

ptx_block *ptx_heap_find(uintptr_t address)
{
    pthread_mutex_lock(&lock);
    const size_t at = index_after(address);
    ptx_block *b = at > 0 && address - blocks[at - 1]->begin < blocks[at - 1]->bytes ? blocks[at - 1] : NULL;
    pthread_mutex_unlock(&lock);
    return b != NULL ? b : find_segment(address);
}

/* ---- The stack and the variables of the program, each as one block ---- */
enum { MOST_SEGMENTS = 16 };
static ptx_block segments[MOST_SEGMENTS];
static int n_segments;

static ptx_block *find_listed_segment(uintptr_t address)
{
    for (int k = 0; k < n_segments; k++)
        if (address - segments[k].begin < segments[k].bytes)
            return &segments[k];
    return NULL;
}

/* Variables that are 0 at first have no file. */
static bool is_after_segment(uintptr_t begin)
{
    for (int k = 0; k < n_segments; k++)
        if (begin == segments[k].begin + segments[k].bytes)
            return true;
    return false;
}

static void list_segment(uintptr_t begin, uintptr_t end)
{
    for (int k = 0; k < n_segments; k++)
        if (end == segments[k].begin + segments[k].bytes) { /* the stack has grown */
            __libc_free(segments[k].accesses);
            segments[k] = (ptx_block){.begin = begin, .bytes = end - begin};
            return;
        }
    if (n_segments < MOST_SEGMENTS)
        segments[n_segments++] = (ptx_block){.begin = begin, .bytes = end - begin};
}

/* Reads the lines of maps that are the stack's or the program's own and may be written. */
static void list_segments(void)
{
    char line[512], program[256] = "";
    FILE *maps = fopen("/proc/self/maps", "re");
    const ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    while (maps != NULL && n > 0 && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long begin, end;
        char rights[8] = "", path[300] = "";
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %299s", &begin, &end, rights, path) >= 3 && rights[1] == 'w' &&
            (strcmp(path, "[stack]") == 0 || strcmp(path, program) == 0 ||
             (path[0] == '\0' && is_after_segment(begin))))
            list_segment(begin, end);
    }
    if (maps != NULL)
        fclose(maps);
}

static ptx_block *find_segment(uintptr_t address)
{
    ptx_block *b = find_listed_segment(address);
    if (b == NULL && !knows_gpus) {
        list_segments();
        b = find_listed_segment(address);
    }
    return b;
}

bool ptx_heap_is_used(void)
{
    return n_blocks > 0;
}

EXPORT void ptx_heap_forget(void *begin, size_t bytes)
{
    ptx_block *b = ptx_heap_find((uintptr_t)begin);
    if (b == NULL || bytes == 0)
        return;
    if (b->unwritten == NULL)
        b->unwritten = __libc_calloc(b->bytes, 1);
    if (b->unwritten != NULL)
        memset(b->unwritten + ((uintptr_t)begin - b->begin), 1, bytes);
}

EXPORT void ptx_heap_learn(void *begin, size_t bytes)
{
    ptx_block *b = ptx_heap_find((uintptr_t)begin);
    if (b != NULL && b->unwritten != NULL)
        memset(b->unwritten + ((uintptr_t)begin - b->begin), 0, bytes);
}

EXPORT void ptx_heap_add(void *begin, size_t bytes)
{
    list(begin, bytes);
    ptx_heap_is_of_gpu(begin);
}

EXPORT void ptx_heap_remove(void *begin)
{
    unlist(begin);
}

EXPORT void ptx_heap_is_of_gpu(void *begin)
{
    ptx_block *b = ptx_heap_find((uintptr_t)begin);
    knows_gpus = true;
    if (b != NULL)
        b->of_gpu = true;
}

bool ptx_heap_knows_gpus(void)
{
    return knows_gpus;
}

void *ptx_heap_own(size_t bytes)
{
    return __libc_calloc(bytes, 1);
}

void ptx_heap_own_free(void *memory)
{
    __libc_free(memory);
}

/* ---- The process's allocator ---- */
EXPORT void *malloc(size_t bytes);
EXPORT void *calloc(size_t n, size_t bytes);
EXPORT void *realloc(void *memory, size_t bytes);
EXPORT void *memalign(size_t align, size_t bytes);
EXPORT void *aligned_alloc(size_t align, size_t bytes);
EXPORT int posix_memalign(void **memory, size_t align, size_t bytes);
EXPORT void free(void *memory);

void *malloc(size_t bytes)
{
    void *memory = __libc_malloc(bytes);
    list(memory, bytes);
    return memory;
}

void *calloc(size_t n, size_t bytes)
{
    void *memory = __libc_calloc(n, bytes);
    list(memory, n * bytes);
    return memory;
}

void *realloc(void *memory, size_t bytes)
{
    if (memory != NULL)
        unlist(memory);
    void *moved = __libc_realloc(memory, bytes);
    list(moved, bytes);
    return moved;
}

void *memalign(size_t align, size_t bytes)
{
    void *memory = __libc_memalign(align, bytes);
    list(memory, bytes);
    return memory;
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **memory, size_t align, size_t bytes)
{
    void *got = memalign(align, bytes);
    if (got == NULL)
        return ENOMEM;
    *memory = got;
    return 0;
}

void free(void *memory)
{
    const int error = errno;
    if (memory != NULL)
        unlist(memory);
    __libc_free(memory);
    errno = error;
}
