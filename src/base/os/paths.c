/* Names in the file system: folders, and operations on whole files. Contents of files are in files.c. */
#include "base/os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/variables.h"

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

tess_status tess_os_look_up(const char *path, tess_os_entry *entry)
{
    struct stat info;
    *entry = (tess_os_entry){.kind = TESS_OS_NOTHING};
    if (stat(path, &info) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return TESS_OK;
        tess_status status = tess_os_error("look at", path);
        /* INVALID (a circle of links) becomes IO: such a path may hide something */
        return status == TESS_E_INVALID ? TESS_E_IO : status;
    }
    entry->kind = S_ISDIR(info.st_mode) ? TESS_OS_FOLDER : S_ISREG(info.st_mode) ? TESS_OS_FILE : TESS_OS_OTHER;
    entry->bytes = entry->kind == TESS_OS_FILE ? (uint64_t)info.st_size : 0;
    return TESS_OK;
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

/* Syncs the folder above. Best effort: this user may not be allowed to open that folder. */
static void sync_name_of(const char *path)
{
    char above[4096 + 8];
    snprintf(above, sizeof(above), "%s/..", path);
    int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
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
        char saved = *slash;
        *slash = '\0';
        if (mkdir(partial, 0777) == 0)
            sync_name_of(partial);
        else if (errno != EEXIST)
            return tess_os_error("make folder", partial);
        *slash = saved;
        if (saved == '\0')
            break;
    }
    struct stat info;
    if (stat(path, &info) != 0)
        return tess_os_error("make folder", path);
    TESS_CHECK(S_ISDIR(info.st_mode), TESS_E_IO, "make folder %s: there is a file of that name", path);
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
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return TESS_OK;
    TESS_CHECK(errno != EINVAL && errno != ENOSYS, TESS_E_UNSUPPORTED, "exchange %s: the file system cannot", to);
    return tess_os_error("exchange", to);
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
    while (status == TESS_OK) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            status = errno != 0 ? tess_os_error("read folder", folder) : TESS_OK;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = visit(context, entry->d_name);
    }
    closedir(dir);
    return status;
}

static tess_status remove_entry(void *folder, const char *name)
{
    char inner[4096];
    TESS_TRY(tess_os_join(inner, sizeof(inner), folder, name));
    return tess_os_remove_tree(inner);
}

/* Removes a symbolic link itself, but not its target. */
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

tess_status tess_os_own_path(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    TESS_CHECK(n > 0, TESS_E_IO, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    return TESS_OK;
}

tess_status tess_os_expand_home(char *path, size_t size)
{
    if (path[0] != '~' || (path[1] != '/' && path[1] != '\0'))
        return TESS_OK;
    const char *home = tess_variable_value(TESS_VAR_HOME);
    TESS_CHECK(home != NULL && home[0] != '\0', TESS_E_INVALID, "%s: HOME is not set: write the path in full", path);
    size_t n = strlen(home), rest = strlen(path + 1);
    TESS_CHECK(n + rest < size, TESS_E_INVALID, "path too long: %.100s%.100s", home, path + 1);
    memmove(path + n, path + 1, rest + 1);
    memcpy(path, home, n);
    return TESS_OK;
}

tess_status tess_os_join(char *out, size_t size, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    bool slash = n > 0 && folder[n - 1] == '/';
    int used = snprintf(out, size, "%s%s%s", folder, slash || n == 0 ? "" : "/", name);
    TESS_CHECK(used >= 0 && (size_t)used < size, TESS_E_INVALID, "path too long: %.100s.../%.100s", folder, name);
    return TESS_OK;
}
