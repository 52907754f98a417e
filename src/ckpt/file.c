#include "ckpt/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"

static int reserve(int fd, off_t size)
{
    if (size == 0 || fallocate(fd, 0, 0, size) == 0)
        return 0;
    return errno == EOPNOTSUPP || errno == ENOSYS ? ftruncate(fd, size) : -1;
}

tess_status tess_file_create(const char *path, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return tess_os_error("create", path);
    tess_status status = reserve(fd, (off_t)size) != 0 ? tess_os_error("reserve space for", path) : TESS_OK;
    close(fd);
    if (status != TESS_OK)
        unlink(path);
    return status;
}

tess_status tess_file_open(const char *path, int *fd)
{
    *fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? tess_os_error("open", path) : TESS_OK;
}

tess_status tess_file_write_at(int fd, const char *path, size_t offset, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, (const char *)data + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tess_os_error("write", path);
        done += (size_t)n;
    }
    return TESS_OK;
}

tess_status tess_file_sync_close(int *fd, const char *path)
{
    if (*fd < 0)
        return TESS_OK;
    tess_status status = fsync(*fd) != 0 ? tess_os_error("fsync", path) : TESS_OK;
    if (close(*fd) != 0 && status == TESS_OK)
        status = tess_os_error("close", path);
    *fd = -1;
    return status;
}

void tess_file_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

tess_status tess_file_rename(const char *from, const char *to)
{
    return rename(from, to) != 0 ? tess_os_error("rename", from) : TESS_OK;
}

tess_status tess_file_exchange(const char *from, const char *to)
{
    char aside[4096];
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return TESS_OK;
    if (errno == ENOENT)
        return tess_file_rename(from, to);
    if (errno != EINVAL && errno != ENOSYS)
        return tess_os_error("exchange", to);
    int n = snprintf(aside, sizeof(aside), "%s.old", from);
    TESS_CHECK(n > 0 && (size_t)n < sizeof(aside), TESS_E_INVALID, "path too long: %.100s...", from);
    TESS_TRY(tess_file_rename(to, aside));
    TESS_TRY(tess_file_rename(from, to));
    return tess_file_rename(aside, from);
}

void tess_file_remove(const char *path)
{
    unlink(path);
}

void tess_file_remove_empty_dir(const char *path)
{
    rmdir(path);
}

tess_status tess_file_make_dir(const char *path)
{
    return mkdir(path, 0777) != 0 ? tess_os_error("make folder", path) : TESS_OK;
}

tess_status tess_file_size(const char *path, uint64_t *size)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return tess_os_error("stat", path);
    TESS_CHECK(S_ISREG(info.st_mode), TESS_E_IO, "%s: not a regular file", path);
    *size = (uint64_t)info.st_size;
    return TESS_OK;
}

bool tess_file_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

tess_status tess_file_list(const char *folder, tess_status (*visit)(void *context, const char *name), void *context)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return tess_os_error("open folder", folder);
    tess_status status = TESS_OK;
    for (struct dirent *entry; status == TESS_OK && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = visit(context, entry->d_name);
    closedir(dir);
    return status;
}
