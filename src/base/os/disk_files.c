#include "base/os/disk_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/core/round_up.h"
#include "base/os/machine.h"
#include "base/os/os.h"

int tess_os_open_nameless(const char *folder, int flags)
{
    char path[4096];
    int fd = open(folder, O_TMPFILE | O_CLOEXEC | flags, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    if (snprintf(path, sizeof(path), "%s/.tessera-nameless-%ld", folder, (long)getpid()) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC | flags, 0600);
    int reason = errno;
    if (fd >= 0 || reason == EINVAL) /* EINVAL: the file was created before the system refused O_DIRECT */
        unlink(path);
    errno = reason;
    return fd;
}

tess_status tess_os_check_disk(const char *folder, const char *key)
{
    struct statfs info;
    TESS_CHECK(folder[0] != '\0', TESS_E_INVALID, "%s: a folder on a disk is needed", key);
    TESS_CHECK(tess_os_is_dir(folder), TESS_E_NOT_FOUND, "%s: there is no folder %s", key, folder);
    if (statfs(folder, &info) != 0)
        return tess_os_error("look at the file system of", folder);
    bool in_memory = info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC || info.f_type == HUGETLBFS_MAGIC;
    TESS_CHECK(!in_memory, TESS_E_INVALID,
               "%s: %s is a %s, whose files are memory: what lies there saves none; name a folder on a disk", key,
               folder,
               info.f_type == TMPFS_MAGIC   ? "tmpfs"
               : info.f_type == RAMFS_MAGIC ? "ramfs"
                                            : "hugetlbfs");
    return TESS_OK;
}

bool tess_os_is_in_memory(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == HUGETLBFS_MAGIC);
}

tess_status tess_os_open_disk(const char *folder, size_t bytes, int *fd)
{
    *fd = tess_os_open_nameless(folder, O_RDWR);
    if (*fd < 0)
        return tess_os_error("make a file in", folder);
    tess_status status = tess_os_resize_zeroed(*fd, bytes, folder);
    if (status != TESS_OK)
        tess_os_close(fd);
    return status;
}

size_t tess_os_disk_file_bytes(const char *folder)
{
    static const uint64_t huge_page = 2 << 20, most = UINT64_C(8) << 40; /* most: half of ext4's limit */
    tess_os_space space;
    if (tess_os_space_at(folder, &space) != TESS_OK) {
        tess_error_clear();
        return most;
    }
    uint64_t bytes = tess_round_up(2 * space.total, huge_page);
    return bytes < most ? bytes : most;
}

tess_status tess_os_reserve_disk(int fd, uint64_t offset, size_t bytes, const char *name)
{
    do /* unlike fallocate, posix_fallocate never leaves holes */
        errno = bytes > 0 ? posix_fallocate(fd, (off_t)offset, (off_t)bytes) : 0;
    while (errno == EINTR);
    return errno == 0 ? TESS_OK : tess_os_error("reserve space for", name);
}
