/* Contents of files: reading, mapping and writing them. Names and folders are in paths.c. */
#include "base/os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/address_space.h"

tess_status tess_os_error(const char *what, const char *path)
{
    int number = errno;
    tess_status status = TESS_E_IO;
    if (number == ENOENT || number == ENOTDIR)
        status = TESS_E_NOT_FOUND;
    else if (number == ENOSPC || number == EDQUOT || number == EFBIG)
        status = TESS_E_NO_SPACE;
    else if (number == ENOMEM)
        status = TESS_E_NOMEM;
    else if (number == ELOOP)
        status = TESS_E_INVALID;
    char hint[TESS_ADDRESS_SPACE_TEXT] = "";
    if (number == ENOMEM)
        tess_os_address_space_hint(hint);
    else if (number == EFBIG)
        snprintf(hint, sizeof(hint), ": this process may not write a larger file here (ulimit -f, or the file system)");
    else if (number == ELOOP)
        snprintf(hint, sizeof(hint), ": one of them leads back to itself; remove it, or let it lead to what is meant");
    return TESS_FAIL(status, "%s %s: %s%s", what, path, strerror(number), hint);
}

/* Fails if the file is a git-lfs pointer: a small text that git leaves in place of a file that was not downloaded. */
static tess_status refuse_lfs_pointer(int fd, size_t size, const char *path)
{
    static const char begin[] = "version https://git-lfs.github.com/spec/";
    enum { POINTER_BYTES = 1024, N = sizeof(begin) - 1 };
    char head[N];
    bool is = size >= N && size <= POINTER_BYTES && pread(fd, head, N, 0) == N && memcmp(head, begin, N) == 0;
    TESS_CHECK(!is, TESS_E_FORMAT,
               "%s: a pointer of git-lfs, not the file itself: install git-lfs and run `git lfs pull` in its folder",
               path);
    return TESS_OK;
}

static tess_status check_regular(int fd, const char *path, size_t *size)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return tess_os_error("stat", path);
    TESS_CHECK(!S_ISFIFO(info.st_mode), TESS_E_INVALID,
               "open %s: a pipe, not a regular file: write what it carries into a file and name that", path);
    TESS_CHECK(S_ISREG(info.st_mode), TESS_E_INVALID, "open %s: not a regular file", path);
    *size = (size_t)info.st_size;
    return refuse_lfs_pointer(fd, *size, path);
}

/* Opens with O_NONBLOCK, because otherwise opening a FIFO would wait for its writer. */
static tess_status open_regular(const char *path, int *fd, size_t *size)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return tess_os_error("open", path);
    tess_status status = check_regular(*fd, path, size);
    if (status != TESS_OK)
        tess_os_close(fd);
    return status;
}

tess_status tess_os_map(const char *path, tess_mapping *mapping)
{
    int fd;
    *mapping = (tess_mapping){0};
    TESS_TRY(open_regular(path, &fd, &mapping->size));
    if (mapping->size > 0) {
        void *data = mmap(NULL, mapping->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            close(fd);
            return tess_os_error("map", path);
        }
        mapping->data = data;
    }
    close(fd);
    return TESS_OK;
}

void tess_os_unmap(tess_mapping *mapping)
{
    if (mapping->data != NULL)
        munmap((void *)mapping->data, mapping->size);
    *mapping = (tess_mapping){0};
}

tess_status tess_os_read(tess_mem *mem, const char *path, size_t limit, char **data, size_t *size)
{
    int fd;
    size_t expected = 0, done = 0;
    char *text;
    TESS_TRY(open_regular(path, &fd, &expected));
    tess_status status = TESS_OK;
    if (expected > limit)
        status = TESS_FAIL(TESS_E_INVALID, "%s has %zu bytes; at most %zu are read here", path, expected, limit);
    if (status == TESS_OK)
        status = tess_mem_alloc(mem, TESS_POOL_MISC, expected + 1, path, (void **)&text);
    while (status == TESS_OK && done < expected) {
        ssize_t n = read(fd, text + done, expected - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            status =
                n < 0 ? tess_os_error("read", path) : TESS_FAIL(TESS_E_IO, "read %s: it shrank while being read", path);
            tess_mem_free(mem, text);
            break;
        }
        done += (size_t)n;
    }
    close(fd);
    if (status == TESS_OK) {
        *data = text;
        *size = expected;
    }
    return status;
}

tess_status tess_os_open_read(const char *path, int *fd, uint64_t *size)
{
    size_t bytes = 0;
    TESS_TRY(open_regular(path, fd, &bytes));
    *size = bytes;
    return TESS_OK;
}

tess_status tess_os_read_at(int fd, uint64_t offset, void *data, size_t size, const char *path)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, (char *)data + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tess_fail_context(tess_os_error("read", path), "at byte %llu", (unsigned long long)(offset + done));
        TESS_CHECK(n > 0, TESS_E_IO, "read %s: it ends at byte %llu", path, (unsigned long long)(offset + done));
        done += (size_t)n;
    }
    return TESS_OK;
}

/* Writes at `offset`; a negative offset means the file's current position. */
static tess_status write_fully(int fd, const void *data, size_t size, off_t offset, const char *path)
{
    for (size_t done = 0; done < size;) {
        const char *from = (const char *)data + done;
        ssize_t n = offset < 0 ? write(fd, from, size - done) : pwrite(fd, from, size - done, offset + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tess_os_error("write", path);
        done += (size_t)n;
    }
    return TESS_OK;
}

tess_status tess_os_write_all(int fd, const void *data, size_t size, const char *path)
{
    return write_fully(fd, data, size, -1, path);
}

tess_status tess_os_append(int fd, const void *data, size_t size, const char *path)
{
    off_t end = lseek(fd, 0, SEEK_END);
    tess_status status = write_fully(fd, data, size, -1, path);
    if (status != TESS_OK && end >= 0)
        (void)!ftruncate(fd, end);
    return status;
}

tess_status tess_os_write_at(int fd, size_t offset, const void *data, size_t size, const char *path)
{
    return write_fully(fd, data, size, (off_t)offset, path);
}

tess_status tess_os_reserve(int fd, uint64_t size, const char *path)
{
    int failed = 0;
    if (size == 0)
        return TESS_OK;
    do
        failed = fallocate(fd, 0, 0, (off_t)size);
    while (failed != 0 && errno == EINTR);
    if (failed != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        failed = ftruncate(fd, (off_t)size);
    return failed != 0 ? tess_os_error("reserve space for", path) : TESS_OK;
}

tess_status tess_os_sync(int fd, const char *path)
{
    int failed;
    do
        failed = fsync(fd);
    while (failed != 0 && errno == EINTR);
    return failed != 0 ? tess_os_error("fsync", path) : TESS_OK;
}

tess_status tess_os_fsync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tess_os_error("open", path);
    tess_status status = tess_os_sync(fd, path);
    close(fd);
    return status;
}

tess_status tess_os_create(const char *path, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return tess_os_error("create", path);
    tess_status status = tess_os_reserve(fd, size, path);
    close(fd);
    if (status != TESS_OK)
        unlink(path);
    return status;
}

tess_status tess_os_open(const char *path, int *fd)
{
    *fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? tess_os_error("open", path) : TESS_OK;
}

tess_status tess_os_sync_close(int *fd, const char *path)
{
    if (*fd < 0)
        return TESS_OK;
    tess_status status = tess_os_sync(*fd, path);
    if (close(*fd) != 0 && status == TESS_OK)
        status = tess_os_error("close", path);
    *fd = -1;
    return status;
}

void tess_os_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

tess_status tess_os_write_atomic(const char *path, const void *data, size_t size)
{
    char temporary[4096], folder[4096];
    int n = snprintf(temporary, sizeof(temporary), "%s.tmp%ld", path, (long)getpid());
    TESS_CHECK(n > 0 && (size_t)n < sizeof(temporary), TESS_E_INVALID, "path too long: %.100s...", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return tess_os_error("create", temporary);
    tess_status status = tess_os_write_all(fd, data, size, path);
    if (status == TESS_OK)
        status = tess_os_sync_close(&fd, path);
    tess_os_close(&fd);
    if (status == TESS_OK && rename(temporary, path) != 0)
        status = tess_os_error("rename", path);
    if (status != TESS_OK) {
        unlink(temporary);
        return status;
    }
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
    snprintf(folder, sizeof(folder), "%.*s", length > 0 ? length : 1, length > 0 ? path : ".");
    return tess_os_fsync_dir(folder);
}

tess_status tess_os_copy(const char *from, const char *to)
{
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    TESS_TRY(tess_os_map(from, &file));
    return tess_os_write_atomic(to, file.data != NULL ? (const void *)file.data : "", file.size);
}
