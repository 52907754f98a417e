#include "base/mem/disk.h"

#include <string.h>

#include "base/core/round_up.h"
#include "base/os/disk_files.h"
#include "base/os/os.h"

enum {
    PAGE = 4096,
    ALIGNMENT = 2 << 20
}; /* alignment of blocks in the file, so that even the largest folio holds pages of only one block */

typedef struct disk_block {
    struct disk_block *next;
    void *base;
    size_t bytes;
    uint64_t offset;
} disk_block;

struct tess_disk {
    tess_mem *mem;
    tess_pager *pager;
    disk_block *blocks;
    int fd;
    uint64_t end; /* end of the last block so far */
    char folder[1024];
};

tess_status tess_disk_create(tess_mem *mem, const char *folder, tess_pager *pager, tess_disk **out)
{
    TESS_AUTO(tess_disk_destroy) tess_disk *disk = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "memory on disk", &disk));
    *disk = (tess_disk){.mem = mem, .pager = pager, .fd = -1};
    strncpy(disk->folder, folder, sizeof(disk->folder) - 1);
    TESS_TRY(tess_os_open_disk(folder, tess_os_disk_file_bytes(folder), &disk->fd));
    *out = TESS_GIVE(disk);
    return TESS_OK;
}

static tess_status map(tess_disk *disk, disk_block *block, const char *what)
{
    TESS_TRY_CTX(tess_os_reserve_disk(disk->fd, block->offset, block->bytes, disk->folder), "%s of %zu bytes", what,
                 block->bytes);
    TESS_TRY(tess_os_map_shared_huge(disk->fd, block->offset, block->bytes, &block->base));
    tess_status status = tess_pager_add(disk->pager, block->base, block->bytes, disk->fd, block->offset, disk->folder);
    if (status != TESS_OK)
        tess_os_unmap_shared(block->base, block->bytes);
    return status;
}

static tess_status alloc_block(void *self, size_t bytes, const char *what, void **out)
{
    tess_disk *disk = self;
    disk_block *block;
    size_t whole = tess_round_up(bytes + (bytes == 0), PAGE);
    TESS_CHECK(whole >= bytes, TESS_E_NOMEM, "%s: %zu bytes", what, bytes);
    TESS_TRY(TESS_NEW(disk->mem, 1, "memory on disk", &block));
    *block = (disk_block){.next = disk->blocks, .bytes = whole, .offset = disk->end};
    tess_status status = map(disk, block, what);
    if (status != TESS_OK) {
        tess_os_punch(disk->fd, block->offset, block->bytes);
        tess_mem_free(disk->mem, block);
        return status;
    }
    disk->blocks = block;
    disk->end += tess_round_up(whole, ALIGNMENT);
    *out = block->base;
    return TESS_OK;
}

static void free_block(void *self, void *memory)
{
    tess_disk *disk = self;
    disk_block **at = &disk->blocks;
    while (memory != NULL && *at != NULL && (*at)->base != memory)
        at = &(*at)->next;
    disk_block *block = memory != NULL ? *at : NULL;
    if (block == NULL)
        return;
    *at = block->next;
    tess_pager_remove(disk->pager, block->base);
    tess_os_unmap_shared(block->base, block->bytes);
    tess_os_punch(disk->fd, block->offset, block->bytes);
    tess_mem_free(disk->mem, block);
}

void tess_disk_attach(tess_disk *disk, tess_mem_disk *mem_disk)
{
    mem_disk->alloc = alloc_block;
    mem_disk->free = free_block;
    mem_disk->disk = disk;
    mem_disk->pager = disk->pager;
}

void tess_disk_destroy(tess_disk **handle)
{
    tess_disk *disk = *handle;
    if (disk == NULL)
        return;
    while (disk->blocks != NULL)
        free_block(disk, disk->blocks->base);
    tess_os_close(&disk->fd);
    tess_mem_drop(handle);
}
