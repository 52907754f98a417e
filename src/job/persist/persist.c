/* Implements one block of persistent memory and its regions. */
#include "base/core/round_up.h"
#include "job/persist/persist_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/mem/pager.h"
#include "base/os/disk_files.h"
#include "base/os/os.h"

static uint64_t round_up(uint64_t n)
{
    return tess_round_up(n, PERSIST_HUGE_PAGE);
}

tess_status persist_format(int fd, size_t bytes, uint64_t identity)
{
    void *address;
    tess_os_punch(fd, 0, bytes);
    TESS_TRY(tess_os_map_shared(fd, 0, sizeof(persist_header), &address));
    persist_header *h = address;
    h->version = PERSIST_VERSION;
    h->bytes = bytes;
    h->identity = identity;
    h->n_launches = 1;
    h->end = round_up(sizeof(persist_header));
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, PERSIST_MAGIC, sizeof(h->magic));
    tess_os_unmap_shared(address, sizeof(persist_header));
    return TESS_OK;
}

/* Validates the header, because a named file may contain anything. */
static bool is_whole(const persist_header *h, size_t bytes)
{
    uint32_t n = atomic_load(&h->n_regions);
    if (memcmp(h->magic, PERSIST_MAGIC, sizeof(h->magic)) != 0 || h->version != PERSIST_VERSION || h->bytes != bytes ||
        n > TESS_PERSIST_REGIONS || h->end > bytes)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const persist_entry *e = &h->regions[i];
        uint64_t size = atomic_load(&e->bytes);
        bool fits = e->offset >= sizeof(persist_header) && e->offset <= h->end && size <= h->end - e->offset;
        if (size != 0 && (!fits || memchr(e->name, '\0', sizeof(e->name)) == NULL))
            return false;
    }
    return true;
}

tess_status tess_persist_open(tess_mem *mem, int fd, tess_persist **out)
{
    size_t bytes;
    void *base, *memory;
    *out = NULL;
    TESS_TRY(tess_os_fd_size(fd, &bytes));
    TESS_CHECK(bytes >= sizeof(persist_header), TESS_E_INVALID, "descriptor %d is no persistent memory", fd);
    TESS_TRY(tess_os_map_shared_huge(fd, 0, bytes, &base));
    tess_status status = is_whole(base, bytes)
                             ? tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_persist), "keep", &memory)
                             : TESS_FAIL(TESS_E_INVALID, "descriptor %d is no persistent memory", fd);
    if (status != TESS_OK) {
        tess_os_unmap_shared(base, bytes);
        return status;
    }
    *out = memory;
    **out = (tess_persist){
        .mem = mem, .fd = fd, .header = base, .base = base, .bytes = bytes, .is_on_disk = !tess_os_is_in_memory(fd)};
    return TESS_OK;
}

void tess_persist_close(tess_persist **handle)
{
    tess_persist *persist = *handle;
    if (persist == NULL)
        return;
    tess_os_unmap_shared(persist->base, persist->bytes);
    tess_mem_drop(handle);
}

bool persist_take_over(tess_persist *persist, uint64_t identity)
{
    if (persist->header->identity != identity)
        return false;
    persist->header->n_launches++;
    return true;
}

uint64_t tess_persist_identity(const tess_persist *persist)
{
    return persist->header->identity;
}

uint64_t tess_persist_launch(const tess_persist *persist)
{
    return persist->header->n_launches;
}

static persist_entry *find(const tess_persist *persist, const char *name)
{
    persist_header *h = persist->header;
    uint32_t n = atomic_load_explicit(&h->n_regions, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(h->regions[i].name, name) == 0)
            return &h->regions[i];
    return NULL;
}

void *tess_persist_find(const tess_persist *persist, const char *name, size_t *bytes)
{
    const persist_entry *entry = find(persist, name);
    uint64_t size = entry != NULL ? atomic_load_explicit(&entry->bytes, memory_order_acquire) : 0;
    if (size == 0)
        return NULL;
    *bytes = size;
    return persist->base + entry->offset;
}

static tess_status reserve_blocks(const tess_persist *persist, const char *name, size_t bytes)
{
    uint64_t offset = persist->header->end;
    if (persist->is_on_disk)
        TESS_TRY_CTX(tess_os_reserve_disk(persist->fd, offset, bytes, PERSIST_ON_DISK), "'%s' of %zu bytes", name,
                     bytes);
    else
        TESS_TRY_CTX(tess_os_reserve_shared(persist->fd, offset, persist->base + offset, bytes),
                     "persistent memory: '%s' of %zu bytes", name, bytes);
    return TESS_OK;
}

/* Reserves zeroed space after the last region. */
static tess_status reserve(tess_persist *persist, const char *name, size_t bytes, uint64_t *offset)
{
    persist_header *h = persist->header;
    uint64_t size = round_up(bytes);
    TESS_CHECK(size >= bytes && size <= persist->bytes - h->end, TESS_E_NOMEM,
               "persistent memory: no room for '%s' of %zu bytes: %llu of %zu are in use", name, bytes,
               (unsigned long long)h->end, persist->bytes);
    tess_os_punch(persist->fd, h->end, size);
    TESS_TRY(reserve_blocks(persist, name, bytes));
    *offset = h->end;
    h->end += size;
    return TESS_OK;
}

tess_status tess_persist_region(tess_persist *persist, const char *name, size_t bytes, void **address, bool *found)
{
    persist_header *h = persist->header;
    persist_entry *entry = find(persist, name);
    size_t asked = bytes > 0 ? bytes : 1;
    uint64_t offset = 0;
    *found = entry != NULL && atomic_load(&entry->bytes) == asked;
    if (*found) {
        *address = persist->base + entry->offset;
        return TESS_OK;
    }
    uint32_t n = atomic_load(&h->n_regions);
    TESS_CHECK(strlen(name) < TESS_PERSIST_NAME, TESS_E_INVALID, "persistent memory: the name '%s' is too long", name);
    TESS_CHECK(entry != NULL || n < TESS_PERSIST_REGIONS, TESS_E_NOMEM,
               "persistent memory: '%s' is one region too many", name);
    TESS_TRY(reserve(persist, name, asked, &offset));
    if (entry != NULL) {
        uint64_t old = atomic_exchange(&entry->bytes, 0);
        tess_os_punch(persist->fd, entry->offset, old);
    } else {
        entry = &h->regions[n];
        snprintf(entry->name, sizeof(entry->name), "%s", name);
    }
    entry->offset = offset;
    atomic_store_explicit(&entry->bytes, asked, memory_order_release);
    if (entry == &h->regions[n])
        atomic_store_explicit(&h->n_regions, n + 1, memory_order_release);
    *address = persist->base + offset;
    return TESS_OK;
}

void tess_persist_clear(tess_persist *persist)
{
    persist_header *h = persist->header;
    uint64_t begin = round_up(sizeof(persist_header));
    atomic_store(&h->n_regions, 0);
    for (int i = 0; i < TESS_PERSIST_REGIONS; i++)
        atomic_store(&h->regions[i].bytes, 0);
    tess_os_punch(persist->fd, begin, h->end - begin);
    h->end = begin;
}

static tess_status region_of(void *persist, const char *name, size_t bytes, void **address, bool *found)
{
    return tess_persist_region(persist, name, bytes, address, found);
}

tess_status tess_persist_attach_disk(tess_persist *persist, tess_mem_disk *disk)
{
    disk->region = region_of;
    disk->store = persist;
    return tess_pager_add(disk->pager, persist->base, persist->bytes, persist->fd, 0, PERSIST_ON_DISK);
}

void tess_persist_attach(tess_persist *persist, tess_mem *mem)
{
    tess_mem_set_store(mem, persist != NULL ? region_of : NULL, persist);
}
