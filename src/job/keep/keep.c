/* A block and its regions. */
#include "job/keep/keep_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/mem/named.h"
#include "base/os/os.h"

static uint64_t round_up(uint64_t n)
{
    return (n + KEEP_HUGE_PAGE - 1) / KEEP_HUGE_PAGE * KEEP_HUGE_PAGE;
}

tess_status keep_format(int fd, size_t bytes, uint64_t identity)
{
    void *address;
    tess_os_punch(fd, 0, bytes);
    TESS_TRY(tess_os_map_shared(fd, 0, sizeof(keep_header), &address));
    keep_header *h = address;
    h->version = KEEP_VERSION;
    h->bytes = bytes;
    h->identity = identity;
    h->n_launches = 1;
    h->end = round_up(sizeof(keep_header));
    atomic_thread_fence(memory_order_release);
    memcpy(h->magic, KEEP_MAGIC, sizeof(h->magic));
    tess_os_unmap_shared(address, sizeof(keep_header));
    return TESS_OK;
}

/* Files with names may hold anything. */
static bool is_whole(const keep_header *h, size_t bytes)
{
    uint32_t n = atomic_load(&h->n_regions);
    if (memcmp(h->magic, KEEP_MAGIC, sizeof(h->magic)) != 0 || h->version != KEEP_VERSION || h->bytes != bytes ||
        n > TESS_KEEP_REGIONS || h->end > bytes)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const keep_entry *e = &h->regions[i];
        uint64_t size = atomic_load(&e->bytes);
        bool fits = e->offset >= sizeof(keep_header) && e->offset <= h->end && size <= h->end - e->offset;
        if (size != 0 && (!fits || memchr(e->name, '\0', sizeof(e->name)) == NULL))
            return false;
    }
    return true;
}

tess_status tess_keep_open(tess_mem *mem, int fd, tess_keep **out)
{
    size_t bytes;
    void *base, *memory;
    *out = NULL;
    TESS_TRY(tess_os_fd_size(fd, &bytes));
    TESS_CHECK(bytes >= sizeof(keep_header), TESS_E_INVALID, "descriptor %d is no kept memory", fd);
    TESS_TRY(tess_os_map_shared_huge(fd, 0, bytes, &base));
    tess_status status = is_whole(base, bytes) ? tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_keep), "keep", &memory)
                                               : TESS_FAIL(TESS_E_INVALID, "descriptor %d is no kept memory", fd);
    if (status != TESS_OK) {
        tess_os_unmap_shared(base, bytes);
        return status;
    }
    *out = memory;
    **out = (tess_keep){.mem = mem, .fd = fd, .header = base, .base = base, .bytes = bytes};
    return TESS_OK;
}

void tess_keep_close(tess_keep **handle)
{
    tess_keep *keep = *handle;
    if (keep == NULL)
        return;
    tess_os_unmap_shared(keep->base, keep->bytes);
    tess_mem_free(keep->mem, keep);
    *handle = NULL;
}

bool keep_take_over(tess_keep *keep, uint64_t identity)
{
    if (keep->header->identity != identity)
        return false;
    keep->header->n_launches++;
    return true;
}

uint64_t tess_keep_identity(const tess_keep *keep)
{
    return keep->header->identity;
}

uint64_t tess_keep_launch(const tess_keep *keep)
{
    return keep->header->n_launches;
}

static keep_entry *find(const tess_keep *keep, const char *name)
{
    keep_header *h = keep->header;
    uint32_t n = atomic_load_explicit(&h->n_regions, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(h->regions[i].name, name) == 0)
            return &h->regions[i];
    return NULL;
}

void *tess_keep_find(const tess_keep *keep, const char *name, size_t *bytes)
{
    const keep_entry *entry = find(keep, name);
    uint64_t size = entry != NULL ? atomic_load_explicit(&entry->bytes, memory_order_acquire) : 0;
    if (size == 0)
        return NULL;
    *bytes = size;
    return keep->base + entry->offset;
}

/* Room behind the last region: what was there before is zero again. */
static tess_status reserve(tess_keep *keep, const char *name, size_t bytes, uint64_t *offset)
{
    keep_header *h = keep->header;
    uint64_t size = round_up(bytes);
    TESS_CHECK(size >= bytes && size <= keep->bytes - h->end, TESS_E_NOMEM,
               "kept memory: no room for '%s' of %zu bytes: %llu of %zu are in use", name, bytes,
               (unsigned long long)h->end, keep->bytes);
    tess_os_punch(keep->fd, h->end, size);
    TESS_TRY_CTX(tess_os_reserve_shared(keep->fd, h->end, keep->base + h->end, bytes), "kept memory: '%s' of %zu bytes",
                 name, bytes);
    *offset = h->end;
    h->end += size;
    return TESS_OK;
}

tess_status tess_keep_region(tess_keep *keep, const char *name, size_t bytes, void **address, bool *found)
{
    keep_header *h = keep->header;
    keep_entry *entry = find(keep, name);
    size_t asked = bytes > 0 ? bytes : 1;
    uint64_t offset = 0;
    *found = entry != NULL && atomic_load(&entry->bytes) == asked;
    if (*found) {
        *address = keep->base + entry->offset;
        return TESS_OK;
    }
    uint32_t n = atomic_load(&h->n_regions);
    TESS_CHECK(strlen(name) < TESS_KEEP_NAME, TESS_E_INVALID, "kept memory: the name '%s' is too long", name);
    TESS_CHECK(entry != NULL || n < TESS_KEEP_REGIONS, TESS_E_NOMEM, "kept memory: '%s' is one region too many", name);
    TESS_TRY(reserve(keep, name, asked, &offset));
    if (entry != NULL) {
        uint64_t old = atomic_exchange(&entry->bytes, 0);
        tess_os_punch(keep->fd, entry->offset, old);
    } else {
        entry = &h->regions[n];
        snprintf(entry->name, sizeof(entry->name), "%s", name);
    }
    entry->offset = offset;
    atomic_store_explicit(&entry->bytes, asked, memory_order_release);
    if (entry == &h->regions[n])
        atomic_store_explicit(&h->n_regions, n + 1, memory_order_release);
    *address = keep->base + offset;
    return TESS_OK;
}

void tess_keep_clear(tess_keep *keep)
{
    keep_header *h = keep->header;
    uint64_t begin = round_up(sizeof(keep_header));
    atomic_store(&h->n_regions, 0);
    for (int i = 0; i < TESS_KEEP_REGIONS; i++)
        atomic_store(&h->regions[i].bytes, 0);
    tess_os_punch(keep->fd, begin, h->end - begin);
    h->end = begin;
}

static tess_status region_of(void *keep, const char *name, size_t bytes, void **address, bool *found)
{
    return tess_keep_region(keep, name, bytes, address, found);
}

void tess_keep_attach(tess_keep *keep, tess_mem *mem)
{
    tess_mem_set_store(mem, keep != NULL ? region_of : NULL, keep);
}
