/* Manages the blocks of all ranks of a host. They have no names, or are files that the next launch finds. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/disk_files.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "job/persist/persist_impl.h"

enum { OTHER_FILES = 64 }; /* number of files that a launcher opens in addition to the blocks */

/* Size of a block. It is address space, not memory, so a region that changes its size may leave a gap. */
static size_t block_bytes(void)
{
    return (sizeof(persist_header) + 2 * tess_os_memory_bytes() + PERSIST_HUGE_PAGE - 1) / PERSIST_HUGE_PAGE *
           PERSIST_HUGE_PAGE;
}

static tess_status block_path(const char *folder, int rank, char *path, size_t size)
{
    char name[32];
    snprintf(name, sizeof(name), "rank-%05d.keep", rank);
    return tess_os_join(path, size, folder, name);
}

static tess_status open_block(const tess_persist_set *set, int rank, int *fd)
{
    char path[1024];
    size_t size, bytes = block_bytes();
    if (set->folder == NULL)
        return tess_os_memfd("tessera-keep", bytes, fd);
    TESS_TRY(block_path(set->folder, rank, path, sizeof(path)));
    TESS_TRY(tess_os_open_shared(path, fd));
    TESS_TRY(tess_os_fd_size(*fd, &size));
    return size == bytes ? TESS_OK : tess_os_resize_zeroed(*fd, bytes, path);
}

/* Takes over the block of an earlier launch if it is valid and belongs to the same job; otherwise formats it. */
static tess_status take_block(const tess_persist_set *set, int fd, uint64_t identity)
{
    tess_persist *persist;
    bool taken = false;
    size_t bytes;
    if (tess_persist_open(set->mem, fd, &persist) == TESS_OK) {
        taken = persist_take_over(persist, identity);
        tess_persist_close(&persist);
    }
    tess_error_clear();
    TESS_TRY(tess_os_fd_size(fd, &bytes));
    return taken ? TESS_OK : persist_format(fd, bytes, identity);
}

/* Locks the folder through the descriptor, so that one launch at a time uses it. No child inherits the descriptor. */
static tess_status begin_folder(tess_persist_set *set, const char *folder)
{
    char path[1024];
    size_t size = strlen(folder) + 1;
    TESS_TRY(TESS_PART(set->fds, size, "folder of persistent memory", &set->folder));
    memcpy(set->folder, folder, size);
    TESS_TRY(tess_os_make_private_dir(folder));
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "lock"));
    TESS_TRY(tess_os_open_shared(path, &set->lock));
    TESS_CHECK(tess_os_lock(set->lock), TESS_E_INVALID, "another launch of this job is using %s", folder);
    return TESS_OK;
}

/* Removes blocks left by an earlier launch with more ranks. They are numbered without gaps. */
static void remove_from(const tess_persist_set *set, int first)
{
    char path[1024];
    for (int r = first; block_path(set->folder, r, path, sizeof(path)) == TESS_OK && access(path, F_OK) == 0; r++)
        tess_os_remove(path);
}

/* Raises the limit of open files, because each block is an open file of this process. */
static tess_status check_files(const tess_persist_set *set)
{
    uint64_t needed = (uint64_t)set->n * 2 + OTHER_FILES, allowed = tess_os_raise_open_files(needed);
    TESS_CHECK(allowed >= needed, TESS_E_NOMEM,
               "persistent memory of %d ranks takes %llu open files, but this process may have %llu: raise the hard "
               "limit (ulimit -Hn), start fewer ranks (-n), or set recovery.hot=false",
               set->n, (unsigned long long)needed, (unsigned long long)allowed);
    return TESS_OK;
}

tess_status tess_persist_set_next(const tess_persist_set *set, uint64_t identity)
{
    for (int r = 0; r < set->n; r++) {
        TESS_TRY_CTX(take_block(set, set->fds[r], identity), "persistent memory of rank %d", r);
        if (set->disk_fds != NULL)
            TESS_TRY_CTX(take_block(set, set->disk_fds[r], identity), "persistent memory of rank %d, on disk", r);
    }
    return TESS_OK;
}

static tess_status alloc_descriptors(tess_persist_set *set, int **fds)
{
    TESS_TRY(set->fds == NULL ? TESS_NEW(set->mem, set->n, "persistent memory", fds)
                              : TESS_PART(set->fds, set->n, "persistent memory", fds));
    for (int r = 0; r < set->n; r++)
        (*fds)[r] = -1;
    return TESS_OK;
}

tess_status tess_persist_set_add_disk(tess_persist_set *set, const char *folder, uint64_t identity)
{
    size_t bytes = tess_os_disk_file_bytes(folder);
    TESS_CHECK(set->folder == NULL, TESS_E_INVALID, "persistent memory with names, and on disk besides");
    if (set->disk_fds != NULL)
        return TESS_OK;
    TESS_TRY(alloc_descriptors(set, &set->disk_fds));
    for (int r = 0; r < set->n; r++) {
        TESS_TRY_CTX(tess_os_open_disk(folder, bytes, &set->disk_fds[r]), "persistent memory of rank %d", r);
        TESS_TRY_CTX(persist_format(set->disk_fds[r], bytes, identity), "persistent memory of rank %d", r);
    }
    return TESS_OK;
}

static tess_status create(tess_persist_set *set, int n, const char *folder, uint64_t identity)
{
    set->n = n;
    TESS_TRY(check_files(set));
    TESS_TRY(alloc_descriptors(set, &set->fds));
    if (folder != NULL) {
        TESS_TRY(begin_folder(set, folder));
        remove_from(set, n);
    }
    for (int r = 0; r < n; r++)
        TESS_TRY_CTX(open_block(set, r, &set->fds[r]), "persistent memory of rank %d", r);
    return tess_persist_set_next(set, identity);
}

tess_status tess_persist_set_create(tess_mem *mem, int n, const char *folder, uint64_t identity, tess_persist_set *set)
{
    *set = (tess_persist_set){.lock = -1, .mem = mem};
    TESS_CHECK(n >= 1, TESS_E_INVALID, "persistent memory of %d ranks", n);
    tess_status status = create(set, n, folder, identity);
    if (status != TESS_OK)
        tess_persist_set_destroy(set, false);
    return status;
}

void tess_persist_set_destroy(tess_persist_set *set, bool remove)
{
    if (set->mem == NULL)
        return;
    if (remove && set->folder != NULL && set->lock >= 0) {
        char path[1024];
        remove_from(set, 0);
        if (tess_os_join(path, sizeof(path), set->folder, "lock") == TESS_OK)
            tess_os_remove(path);
        tess_os_remove_empty_dir(set->folder);
    }
    for (int r = 0; set->fds != NULL && r < set->n; r++)
        tess_os_close(&set->fds[r]);
    for (int r = 0; set->disk_fds != NULL && r < set->n; r++)
        tess_os_close(&set->disk_fds[r]);
    tess_os_close(&set->lock);
    tess_mem_free(set->mem, set->fds);
    *set = (tess_persist_set){.lock = -1};
}
