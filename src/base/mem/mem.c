/* The one allocator of the program. Each block has a 64-byte header in front of it. Blocks of HUGE_BYTES or more come
 * from mmap: they start on a huge page, use no memory until touched and return to the system when freed. */
#include "base/mem/dry_mem.h"
#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "tessera/memory.h"
#include "base/mem/mem_watch.h"
#include "base/mem/named.h"
#include "base/os/address_space.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20, HUGE_BYTES = 4 << 20, DRY_BYTES = 64 << 10 };

static const uint32_t block_magic = 0x74657373u;
static const uint32_t freed_magic = 0x66726565u;

typedef struct tess_mem_block {
    uint32_t magic;
    uint16_t watch; /* the watch that counted the block (0: none) */
    uint8_t name;   /* the index of the block's name in that watch */
    uint8_t pool;
    size_t bytes;
    void *base;                   /* the address that malloc or mmap returned */
    size_t mapped_bytes;          /* 0: the block came from malloc */
    tess_scope parts;             /* blocks that are freed with this one, and the tess_mem of all of them */
    struct tess_mem_block *next;  /* the next block of the scope that this block is in */
    struct tess_mem_block **link; /* the pointer in that scope to this block; NULL: the block is in no scope */
} block_header;

_Static_assert(sizeof(block_header) == ALIGNMENT, "the header keeps the block aligned");

/* The bytes in blocks that were allocated with the same `what` since a watch began and are not freed. */
typedef struct watched_name {
    char what[TESS_MEM_NAME];
    int64_t bytes;
} watched_name;

enum { WATCHED_NAMES = 32 /* the last entry counts all further names */ };

/* The `watch` of a block that a peak follows. */
enum { FOLLOWED = UINT16_MAX };

struct tess_mem {
    pthread_mutex_t lock;
    bool is_dry, is_filled;
    tess_mem_peak *peak; /* NULL: no peak is followed */
    tess_mem_peak now;   /* the blocks that are allocated now; its moment is the current one */
    tess_pool watched;   /* TESS_POOL_COUNT: no pool is watched */
    uint16_t watch;      /* number of the current watch */
    int n_names;
    watched_name names[WATCHED_NAMES];
    tess_pool_stats pools[TESS_POOL_COUNT];
    tess_mem_region_fn region; /* the function that finds memory in the named store; NULL: no store */
    void *store;
    tess_mem_disk disk;
    size_t disk_bytes[TESS_POOL_COUNT];
};

const char *tess_pool_name(tess_pool pool)
{
    switch (pool) {
#define X(name, text) \
    case name:        \
        return text;
        TESS_POOL_LIST(X)
#undef X
    case TESS_POOL_COUNT:
        break;
    }
    return "unknown";
}

tess_status tess_mem_create(tess_mem **mem)
{
    *mem = calloc(1, sizeof(**mem));
    TESS_CHECK(*mem != NULL, TESS_E_NOMEM, "no memory for the memory pools");
    pthread_mutex_init(&(*mem)->lock, NULL);
    (*mem)->watched = TESS_POOL_COUNT;
    return TESS_OK;
}

tess_status tess_mem_create_dry(tess_mem **mem)
{
    TESS_TRY(tess_mem_create(mem));
    (*mem)->is_dry = true;
    return TESS_OK;
}

bool tess_mem_is_dry(const tess_mem *mem)
{
    return mem->is_dry;
}

void tess_mem_dry_fill(tess_mem *mem)
{
    mem->is_filled = true;
}

size_t tess_mem_destroy(tess_mem **mem)
{
    if (*mem == NULL)
        return 0;
    size_t blocks = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        blocks += (*mem)->pools[pool].n_blocks;
    pthread_mutex_destroy(&(*mem)->lock);
    free(*mem);
    *mem = NULL;
    return blocks;
}

static void add(tess_mem *mem, tess_pool pool, int64_t bytes, int blocks)
{
    tess_pool_stats *stats = &mem->pools[pool];
    stats->bytes += (size_t)bytes;
    stats->n_blocks += (size_t)blocks;
    if (stats->bytes > stats->peak_bytes)
        stats->peak_bytes = stats->bytes;
}

/* ---- The peak; callers hold the lock ---- */
/* Adds bytes of a name to those that are allocated now, and returns the index of the name. */
static int follow(tess_mem *mem, tess_pool pool, const char *what, int64_t bytes)
{
    tess_mem_peak *now = &mem->now;
    int i = 0;
    while (i < now->n_names &&
           (now->names[i].pool != pool || strncmp(now->names[i].what, what, TESS_PEAK_NAME - 1) != 0))
        i++;
    if (i == TESS_PEAK_NAMES)
        snprintf(now->names[--i].what, TESS_PEAK_NAME, "others");
    if (i == now->n_names) {
        now->names[i] = (tess_peak_name){.pool = pool};
        memcpy(now->names[i].what, what, strnlen(what, TESS_PEAK_NAME - 1));
        now->n_names++;
    }
    now->names[i].bytes += (double)bytes;
    return i;
}

static void follow_bytes(tess_mem *mem, tess_pool pool, int64_t bytes)
{
    tess_mem_peak *now = &mem->now;
    now->bytes += pool != TESS_POOL_MISC ? (double)bytes : 0;
    if (now->bytes > mem->peak->bytes)
        *mem->peak = *now;
}

static void follow_alloc(tess_mem *mem, block_header *header, const char *what)
{
    if (mem->peak == NULL || header->pool == TESS_POOL_MISC)
        return;
    header->name = (uint8_t)follow(mem, header->pool, what, (int64_t)header->bytes);
    header->watch = FOLLOWED;
    follow_bytes(mem, header->pool, (int64_t)header->bytes);
}

static void follow_free(tess_mem *mem, const block_header *header)
{
    if (mem->peak == NULL || header->watch != FOLLOWED)
        return;
    mem->now.names[header->name].bytes -= (double)header->bytes;
    follow_bytes(mem, header->pool, -(int64_t)header->bytes);
}

void tess_mem_follow_peak(tess_mem *mem, tess_mem_peak *peak)
{
    pthread_mutex_lock(&mem->lock);
    mem->peak = peak;
    mem->now = (tess_mem_peak){.bytes = 0};
    pthread_mutex_unlock(&mem->lock);
}

void tess_mem_peak_moment(tess_mem *mem, const char *moment)
{
    pthread_mutex_lock(&mem->lock);
    memset(mem->now.moment, 0, sizeof(mem->now.moment));
    memcpy(mem->now.moment, moment, strnlen(moment, sizeof(mem->now.moment) - 1));
    pthread_mutex_unlock(&mem->lock);
}

/* ---- The watch; callers hold the lock ---- */
static void watch_alloc(tess_mem *mem, block_header *header, const char *what)
{
    int i = 0;
    if (header->pool != mem->watched)
        return;
    while (i < mem->n_names && strncmp(mem->names[i].what, what, TESS_MEM_NAME - 1) != 0)
        i++;
    if (i == WATCHED_NAMES)
        i--;
    if (i == mem->n_names) {
        mem->names[i] = (watched_name){.bytes = 0};
        memcpy(mem->names[i].what, what, strnlen(what, TESS_MEM_NAME - 1));
        mem->n_names++;
    }
    mem->names[i].bytes += (int64_t)header->bytes;
    header->watch = mem->watch;
    header->name = (uint8_t)i;
}

static void watch_free(tess_mem *mem, const block_header *header)
{
    if (header->watch == mem->watch && header->watch > 0 && header->watch != FOLLOWED)
        mem->names[header->name].bytes -= (int64_t)header->bytes;
}

void tess_mem_watch(tess_mem *mem, tess_pool pool)
{
    pthread_mutex_lock(&mem->lock);
    mem->watched = pool;
    mem->watch = (uint16_t)(mem->watch == FOLLOWED - 1 ? 1 : mem->watch + 1);
    mem->n_names = 0;
    pthread_mutex_unlock(&mem->lock);
}

bool tess_mem_watched(const tess_mem *mem, char what[TESS_MEM_NAME], int64_t *bytes)
{
    tess_mem *locked = (tess_mem *)mem;
    *bytes = 0;
    pthread_mutex_lock(&locked->lock);
    for (int i = 0; i < mem->n_names; i++)
        if (mem->names[i].bytes > *bytes) {
            *bytes = mem->names[i].bytes;
            memcpy(what, mem->names[i].what, TESS_MEM_NAME);
        }
    pthread_mutex_unlock(&locked->lock);
    return *bytes > 0;
}

static block_header *map_block(size_t bytes)
{
    /* One huge page more than needed, so that the block (not the header) can start on a huge page. */
    size_t mapped = (bytes + 2 * (size_t)HUGE_PAGE + HUGE_PAGE - 1) & ~((size_t)HUGE_PAGE - 1);
    void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    uintptr_t block = ((uintptr_t)base + ALIGNMENT + HUGE_PAGE - 1) & ~((uintptr_t)HUGE_PAGE - 1);
    size_t before = block - (uintptr_t)base; /* gets small pages: it holds only the header */
    madvise(base, before, MADV_NOHUGEPAGE);
    madvise((void *)block, mapped - before, MADV_HUGEPAGE);
    block_header *header = (block_header *)(block - ALIGNMENT);
    header->base = base;
    header->mapped_bytes = mapped;
    return header;
}

/* Takes addresses that get small pages when they are touched, and no promise of memory before. */
static block_header *dry_block(size_t bytes)
{
    const size_t mapped = bytes + ALIGNMENT;
    void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    madvise(base, mapped, MADV_NOHUGEPAGE);
    block_header *header = base;
    header->base = base;
    header->mapped_bytes = mapped;
    return header;
}

static block_header *heap_block(size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT + ALIGNMENT - 1) & ~((size_t)ALIGNMENT - 1);
    block_header *header = aligned_alloc(ALIGNMENT, rounded);
    if (header == NULL)
        return NULL;
    memset(header, 0, rounded);
    header->base = header;
    return header;
}

tess_status tess_mem_alloc(tess_mem *mem, tess_pool pool, size_t bytes, const char *what, void **out)
{
    block_header *header = NULL;
    if (bytes <= SIZE_MAX / 4 && mem->is_dry && !mem->is_filled && bytes >= DRY_BYTES)
        header = dry_block(bytes);
    else if (bytes <= SIZE_MAX / 4)
        header = bytes >= HUGE_BYTES ? map_block(bytes) : heap_block(bytes);
    if (header != NULL && mem->is_filled && bytes >= HUGE_BYTES)
        memset(header + 1, 0, bytes); /* a page that was never written is the system's page of zeros, in the cache */
    char hint[TESS_ADDRESS_SPACE_TEXT];
    TESS_CHECK(header != NULL, TESS_E_NOMEM, "cannot allocate %zu bytes for %s (pool %s, %zu bytes in use)%s", bytes,
               what, tess_pool_name(pool), tess_mem_stats(mem, pool).bytes, tess_os_address_space_hint(hint));
    header->magic = block_magic;
    header->parts.mem = mem;
    header->bytes = bytes;
    header->pool = (uint8_t)pool;
    pthread_mutex_lock(&mem->lock);
    add(mem, pool, (int64_t)bytes, 1);
    watch_alloc(mem, header, what);
    follow_alloc(mem, header, what);
    pthread_mutex_unlock(&mem->lock);
    *out = header + 1;
    return TESS_OK;
}

tess_status tess_mem_alloc_array(tess_mem *mem, tess_pool pool, size_t n, size_t size, const char *what, void **out)
{
    size_t bytes;
    TESS_CHECK(!__builtin_mul_overflow(n, size, &bytes), TESS_E_NOMEM, "%zu elements of %zu bytes for %s overflow", n,
               size, what);
    return tess_mem_alloc(mem, pool, bytes, what, out);
}

tess_status tess_scope_alloc(tess_scope *scope, tess_pool pool, size_t n, size_t size, const char *what, void **out)
{
    TESS_TRY(tess_mem_alloc_array(scope->mem, pool, n, size, what, out));
    block_header *header = (block_header *)*out - 1;
    pthread_mutex_lock(&scope->mem->lock);
    header->next = scope->first;
    header->link = &scope->first;
    if (header->next != NULL)
        header->next->link = &header->next;
    scope->first = header;
    pthread_mutex_unlock(&scope->mem->lock);
    return TESS_OK;
}

tess_status tess_scope_make_room(tess_scope *scope, size_t n, size_t item_bytes, const char *what, size_t *room,
                                 void *array)
{
    if (*room == 0)
        TESS_TRY(tess_scope_alloc(scope, TESS_POOL_MISC, 0, item_bytes, what, array));
    return tess_mem_make_room(scope->mem, TESS_POOL_MISC, n, item_bytes, what, room, array);
}

void tess_scope_end(tess_scope *scope)
{
    while (scope->first != NULL)
        tess_mem_free(scope->mem, scope->first + 1);
}

static block_header *header_of(void *block)
{
    block_header *header = (block_header *)block - 1;
    if (header->magic != block_magic)
        __builtin_trap(); /* freed twice, or not from this allocator: continuing would corrupt the heap */
    return header;
}

tess_scope *tess_scope_of(void *block)
{
    return &header_of(block)->parts;
}

tess_status tess_mem_grow(tess_mem *mem, tess_pool pool, size_t bytes, const char *what, void **ptr)
{
    void *bigger;
    TESS_TRY(tess_mem_alloc(mem, pool, bytes, what, &bigger));
    if (*ptr != NULL) {
        block_header *old = header_of(*ptr), *new = header_of(bigger);
        if (old->parts.first != NULL)
            __builtin_trap(); /* the parts would be freed here */
        memcpy(bigger, *ptr, old->bytes < bytes ? old->bytes : bytes);
        pthread_mutex_lock(&mem->lock);
        if (old->link != NULL) { /* the new block enters the scope in front of the old one, which leaves it next */
            new->next = old;
            new->link = old->link;
            *old->link = new;
            old->link = &new->next;
        }
        pthread_mutex_unlock(&mem->lock);
        tess_mem_free(mem, *ptr);
    }
    *ptr = bigger;
    return TESS_OK;
}

tess_status tess_mem_make_room(tess_mem *mem, tess_pool pool, size_t n, size_t item_bytes, const char *what,
                               size_t *room, void *array)
{
    return tess_mem_reserve(mem, pool, n + 1, item_bytes, what, room, array);
}

tess_status tess_mem_reserve(tess_mem *mem, tess_pool pool, size_t needed, size_t item_bytes, const char *what,
                             size_t *room, void *array)
{
    if (needed <= *room)
        return TESS_OK;
    TESS_CHECK(needed <= SIZE_MAX / 4 / item_bytes, TESS_E_NOMEM, "%s: %zu elements of %zu bytes", what, needed,
               item_bytes);
    size_t wanted = *room < 16 ? 16 : *room;
    while (wanted < needed)
        wanted *= 2;
    TESS_TRY(tess_mem_grow(mem, pool, wanted * item_bytes, what, array));
    *room = wanted;
    return TESS_OK;
}

void tess_mem_free(tess_mem *mem, void *block)
{
    if (block == NULL)
        return;
    block_header *header = header_of(block);
    tess_scope_end(&header->parts);
    pthread_mutex_lock(&mem->lock);
    add(mem, header->pool, -(int64_t)header->bytes, -1);
    watch_free(mem, header);
    follow_free(mem, header);
    if (header->link != NULL)
        *header->link = header->next;
    if (header->next != NULL)
        header->next->link = header->link;
    pthread_mutex_unlock(&mem->lock);
    header->magic = freed_magic;
    if (header->mapped_bytes > 0)
        munmap(header->base, header->mapped_bytes);
    else
        free(header->base);
}

void tess_mem_drop(void *variable)
{
    void *block;
    memcpy(&block, variable, sizeof(block));
    if (block != NULL)
        tess_mem_free(header_of(block)->parts.mem, block);
    memset(variable, 0, sizeof(block));
}

void tess_malloc_drop(void *variable)
{
    void *memory;
    memcpy(&memory, variable, sizeof(memory));
    free(memory);
    memset(variable, 0, sizeof(memory));
}

void tess_mem_count(tess_mem *mem, tess_pool pool, int64_t bytes)
{
    pthread_mutex_lock(&mem->lock);
    add(mem, pool, bytes, 0);
    if (mem->peak != NULL && pool != TESS_POOL_MISC) {
        (void)follow(mem, pool, "memory that ranks share", bytes);
        follow_bytes(mem, pool, bytes);
    }
    pthread_mutex_unlock(&mem->lock);
}

static void count_disk(tess_mem *mem, tess_pool pool, int64_t bytes)
{
    pthread_mutex_lock(&mem->lock);
    mem->disk_bytes[pool] += (size_t)bytes;
    pthread_mutex_unlock(&mem->lock);
}

tess_status tess_mem_alloc_private(tess_mem *mem, tess_pool pool, const char *what, size_t bytes, void **out)
{
    if (!tess_mem_on_disk(mem, pool))
        return tess_mem_alloc(mem, pool, bytes, what, out);
    TESS_TRY(mem->is_dry ? tess_mem_alloc(mem, TESS_POOL_MISC, bytes, what, out)
                         : mem->disk.alloc(mem->disk.disk, bytes, what, out));
    count_disk(mem, pool, (int64_t)bytes);
    return TESS_OK;
}

void tess_mem_free_private(tess_mem *mem, tess_pool pool, size_t bytes, void *memory)
{
    if (!tess_mem_on_disk(mem, pool)) {
        tess_mem_free(mem, memory);
    } else if (memory != NULL) {
        count_disk(mem, pool, -(int64_t)bytes);
        if (mem->is_dry)
            tess_mem_free(mem, memory);
        else
            mem->disk.free(mem->disk.disk, memory);
    }
}

tess_status tess_mem_alloc_named(tess_mem *mem, tess_pool pool, const char *name, size_t bytes, void **out, bool *found)
{
    bool on_disk = tess_mem_on_disk(mem, pool);
    tess_mem_region_fn region = on_disk ? mem->disk.region : mem->region;
    *found = false;
    if (region == NULL)
        return tess_mem_alloc_private(mem, pool, name, bytes, out);
    TESS_TRY(region(on_disk ? mem->disk.store : mem->store, name, bytes, out, found));
    (on_disk ? count_disk : tess_mem_count)(mem, pool, (int64_t)bytes);
    return TESS_OK;
}

void tess_mem_free_named(tess_mem *mem, tess_pool pool, size_t bytes, void *memory)
{
    bool on_disk = tess_mem_on_disk(mem, pool);
    if ((on_disk ? mem->disk.region : mem->region) == NULL)
        tess_mem_free_private(mem, pool, bytes, memory);
    else if (memory != NULL)
        (on_disk ? count_disk : tess_mem_count)(mem, pool, -(int64_t)bytes);
}

void tess_mem_set_store(tess_mem *mem, tess_mem_region_fn region, void *store)
{
    mem->region = region;
    mem->store = store;
}

bool tess_mem_has_store(const tess_mem *mem)
{
    return mem->region != NULL;
}

void tess_mem_set_disk(tess_mem *mem, const tess_mem_disk *disk)
{
    mem->disk = disk != NULL ? *disk : (tess_mem_disk){0};
}

bool tess_mem_on_disk(const tess_mem *mem, tess_pool pool)
{
    return (mem->disk.pools >> pool & 1) != 0;
}

struct tess_pager *tess_mem_pager(const tess_mem *mem)
{
    return mem->disk.pager;
}

size_t tess_mem_disk_bytes(const tess_mem *mem, tess_pool pool)
{
    tess_mem *locked = (tess_mem *)mem;
    pthread_mutex_lock(&locked->lock);
    size_t bytes = mem->disk_bytes[pool];
    pthread_mutex_unlock(&locked->lock);
    return bytes;
}

tess_pool_stats tess_mem_stats(const tess_mem *mem, tess_pool pool)
{
    tess_mem *locked = (tess_mem *)mem;
    pthread_mutex_lock(&locked->lock);
    tess_pool_stats stats = mem->pools[pool];
    pthread_mutex_unlock(&locked->lock);
    return stats;
}
