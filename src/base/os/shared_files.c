/* Memory files that outlive a process: they have names, and huge pages. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; the C library's headers may be older */
#endif

enum { HUGE_PAGE = 2 << 20 };

tess_status tess_os_map_shared_huge(int fd, size_t offset, size_t size, void **address)
{
    /* The kernel uses huge pages only if address and file offset are equally far from the start of a huge page. */
    uint8_t *room = mmap(NULL, size + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return tess_os_error("map", "shared memory");
    uint8_t *begin = (uint8_t *)(((uintptr_t)room + HUGE_PAGE - 1) & ~((uintptr_t)HUGE_PAGE - 1));
    size_t before = (size_t)(begin - room);
    if (before > 0)
        munmap(room, before);
    munmap(begin + size, HUGE_PAGE - before);
    void *mapped = mmap(begin, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (off_t)offset);
    if (mapped == MAP_FAILED) {
        tess_status status = tess_os_error("map", "shared memory");
        munmap(begin, size);
        return status;
    }
    madvise(mapped, size, MADV_DONTDUMP);
    *address = mapped;
    return TESS_OK;
}

static int allocate(int fd, size_t offset, size_t size)
{
    int failed;
    do
        failed = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    while (failed != 0 && errno == EINTR);
    return failed != 0 && errno != EOPNOTSUPP ? -1 : 0;
}

tess_status tess_os_reserve_shared(int fd, size_t offset, void *address, size_t size)
{
    /* Systems give memory files small pages by default. Allocating the first small page of a huge page is enough to
     * collapse the rest into it. What does not become huge is filled with small pages. */
    for (size_t at = 0; at + HUGE_PAGE <= size; at += HUGE_PAGE) {
        if (allocate(fd, offset + at, 1) != 0)
            return tess_os_error("reserve", "shared memory");
        (void)*(volatile uint8_t *)((uint8_t *)address + at);
        (void)madvise((uint8_t *)address + at, HUGE_PAGE, MADV_COLLAPSE);
    }
    return allocate(fd, offset, size) == 0 ? TESS_OK : tess_os_error("reserve", "shared memory");
}

tess_status tess_os_open_shared(const char *path, int *fd)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return *fd >= 0 ? TESS_OK : tess_os_error("open", path);
}

tess_status tess_os_resize_zeroed(int fd, size_t size, const char *path)
{
    if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)size) != 0)
        return tess_os_error("size", path);
    return TESS_OK;
}

tess_status tess_os_make_private_dir(const char *path)
{
    char parent[1024];
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (slash != NULL && slash != path && (size_t)(slash - path) < sizeof(parent)) {
        memcpy(parent, path, (size_t)(slash - path));
        parent[slash - path] = '\0';
        TESS_TRY(tess_os_make_dirs(parent));
    }
    if (mkdir(path, 0700) == 0)
        return TESS_OK;
    if (errno != EEXIST || lstat(path, &info) != 0)
        return tess_os_error("create", path);
    TESS_CHECK(S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 022) == 0, TESS_E_INVALID,
               "%s is there already, and not a folder of this user alone", path);
    return TESS_OK;
}

bool tess_os_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}
