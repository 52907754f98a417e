/* Names in the file system: folders, and files as a whole. files.c has what is in them. */
#include "base/os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

tess_status tess_os_file_size(const char *path, uint64_t *size)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return tess_os_error("stat", path);
    TESS_CHECK(S_ISREG(info.st_mode), TESS_E_IO, "%s: not a regular file", path);
    *size = (uint64_t)info.st_size;
    return TESS_OK;
}

double tess_os_changed_s(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (double)info.st_mtim.tv_sec + 1e-9 * (double)info.st_mtim.tv_nsec : 0;
}

bool tess_os_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
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

uint64_t tess_os_folder_id(const char *path)
{
    struct statx info;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME | STATX_TYPE, &info) != 0 || !S_ISDIR(info.stx_mode))
        return 0;
    uint64_t device = (uint64_t)info.stx_dev_major << 32 | info.stx_dev_minor;
    uint64_t made_ns = (uint64_t)info.stx_btime.tv_sec * UINT64_C(1000000000) + info.stx_btime.tv_nsec;
    return (device * 31 + info.stx_ino) * 31 + made_ns;
}

tess_status tess_os_make_dir(const char *path)
{
    return mkdir(path, 0777) != 0 ? tess_os_error("make folder", path) : TESS_OK;
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

tess_status tess_os_rename(const char *from, const char *to)
{
    return rename(from, to) != 0 ? tess_os_error("rename", from) : TESS_OK;
}

tess_status tess_os_link(const char *from, const char *to)
{
    return link(from, to) != 0 ? tess_os_error("link", to) : TESS_OK;
}

tess_status tess_os_exchange(const char *from, const char *to)
{
    char aside[4096];
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return TESS_OK;
    if (errno == ENOENT)
        return tess_os_rename(from, to);
    if (errno != EINVAL && errno != ENOSYS)
        return tess_os_error("exchange", to);
    int n = snprintf(aside, sizeof(aside), "%s.old", from);
    TESS_CHECK(n > 0 && (size_t)n < sizeof(aside), TESS_E_INVALID, "path too long: %.100s...", from);
    TESS_TRY(tess_os_rename(to, aside));
    tess_status status = tess_os_rename(from, to);
    if (status != TESS_OK) {
        rename(aside, to); /* what was there stays; nothing else can be done when that fails as well */
        return status;
    }
    return tess_os_rename(aside, from);
}

void tess_os_remove(const char *path)
{
    unlink(path);
}

void tess_os_remove_empty_dir(const char *path)
{
    rmdir(path);
}

tess_status tess_os_list(const char *folder, tess_status (*visit)(void *context, const char *name), void *context)
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

static tess_status remove_entry(void *folder, const char *name)
{
    char inner[4096];
    TESS_TRY(tess_os_join(inner, sizeof(inner), folder, name));
    return tess_os_remove_tree(inner);
}

/* A symbolic link goes itself, never what it points to. */
tess_status tess_os_remove_tree(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? TESS_OK : tess_os_error("look at", path);
    if (!S_ISDIR(info.st_mode))
        return unlink(path) != 0 && errno != ENOENT ? tess_os_error("remove", path) : TESS_OK;
    TESS_TRY(tess_os_list(path, remove_entry, (void *)path));
    return rmdir(path) != 0 && errno != ENOENT ? tess_os_error("remove folder", path) : TESS_OK;
}

tess_status tess_os_join(char *out, size_t size, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    bool slash = n > 0 && folder[n - 1] == '/';
    int used = snprintf(out, size, "%s%s%s", folder, slash || n == 0 ? "" : "/", name);
    TESS_CHECK(used >= 0 && (size_t)used < size, TESS_E_INVALID, "path too long: %.100s.../%.100s", folder, name);
    return TESS_OK;
}
