#include "base/os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return TESS_FAIL(status, "%s %s: %s", what, path, strerror(number));
}

static tess_status open_regular(const char *path, int *fd, size_t *size)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return tess_os_error("open", path);
    if (fstat(*fd, &info) != 0) {
        close(*fd);
        return tess_os_error("stat", path);
    }
    if (!S_ISREG(info.st_mode)) {
        close(*fd);
        return TESS_FAIL(TESS_E_IO, "open %s: not a regular file", path);
    }
    *size = (size_t)info.st_size;
    return TESS_OK;
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
    size_t expected, done = 0;
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

tess_status tess_os_write_all(int fd, const void *data, size_t size, const char *path)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tess_os_error("write", path);
        done += (size_t)n;
    }
    return TESS_OK;
}

tess_status tess_os_fsync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tess_os_error("open", path);
    int failed = fsync(fd);
    tess_status status = failed ? tess_os_error("fsync", path) : TESS_OK;
    close(fd);
    return status;
}

/* The folder that holds `path`. */
static void parent_of(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(out, size, ".");
    else
        snprintf(out, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
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
    if (status == TESS_OK && fsync(fd) != 0)
        status = tess_os_error("fsync", path);
    if (close(fd) != 0 && status == TESS_OK)
        status = tess_os_error("close", path);
    if (status == TESS_OK && rename(temporary, path) != 0)
        status = tess_os_error("rename", path);
    if (status != TESS_OK) {
        unlink(temporary);
        return status;
    }
    parent_of(path, folder, sizeof(folder));
    return tess_os_fsync_dir(folder);
}

bool tess_os_is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool tess_os_is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

tess_status tess_os_make_dirs(const char *path)
{
    char partial[4096];
    size_t n = strlen(path);
    TESS_CHECK(n > 0 && n < sizeof(partial), TESS_E_INVALID, "folder name is empty or too long: '%.100s'", path);
    memcpy(partial, path, n + 1);
    for (char *slash = partial + 1;; slash++) {
        if (*slash != '/' && *slash != '\0')
            continue;
        char kept = *slash;
        *slash = '\0';
        if (mkdir(partial, 0777) != 0 && errno != EEXIST)
            return tess_os_error("make folder", partial);
        *slash = kept;
        if (kept == '\0')
            break;
    }
    TESS_CHECK(tess_os_is_dir(path), TESS_E_IO, "make folder %s: there is a file of that name", path);
    return TESS_OK;
}

tess_status tess_os_remove_tree(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        if (errno == ENOENT)
            return TESS_OK;
        if (errno != ENOTDIR)
            return tess_os_error("open folder", path);
        return unlink(path) == 0 ? TESS_OK : tess_os_error("remove", path);
    }
    tess_status status = TESS_OK;
    for (struct dirent *entry; status == TESS_OK && (entry = readdir(folder)) != NULL;) {
        char inner[4096];
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        status = tess_os_join(inner, sizeof(inner), path, entry->d_name);
        if (status != TESS_OK)
            break;
        /* A symbolic link goes itself, never what it points to. */
        if (lstat(inner, &info) == 0 && S_ISDIR(info.st_mode))
            status = tess_os_remove_tree(inner);
        else if (unlink(inner) != 0 && errno != ENOENT)
            status = tess_os_error("remove", inner);
    }
    closedir(folder);
    if (status == TESS_OK && rmdir(path) != 0 && errno != ENOENT)
        status = tess_os_error("remove folder", path);
    return status;
}

tess_status tess_os_join(char *out, size_t size, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    bool slash = n > 0 && folder[n - 1] == '/';
    int used = snprintf(out, size, "%s%s%s", folder, slash || n == 0 ? "" : "/", name);
    TESS_CHECK(used >= 0 && (size_t)used < size, TESS_E_INVALID, "path too long: %.100s.../%.100s", folder, name);
    return TESS_OK;
}
