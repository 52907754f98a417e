#include "ckpt/store/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ask_faults(void *self, tess_save_point point)
{
    const tess_io_faults *f = self;
    return tess_inject_save(f->faults, f->step, point);
}

tess_io tess_io_with_faults(tess_io_faults *faults)
{
    return (tess_io){.ask = faults->faults != NULL ? ask_faults : NULL, .self = faults};
}

static int ask(const tess_io *io, tess_save_point point)
{
    return io == NULL || io->ask == NULL ? 0 : io->ask(io->self, point);
}

/* Calls the hook before a call that cannot be cut short. */
static tess_status may_go_on(const tess_io *io, tess_save_point point, const char *path)
{
    int number = ask(io, point);
    if (number <= 0)
        return TESS_OK;
    errno = number;
    return tess_os_error(tess_save_point_name(point), path);
}

#define CALL(what, name, ...) ((tess_io_call){.change = (what), .path = (name), ##__VA_ARGS__})

/* Reports a call to `made` if it succeeded. Returns `status`. */
static tess_status observe(const tess_io *io, tess_status status, tess_io_call call)
{
    if (status == TESS_OK && io != NULL && io->made != NULL)
        io->made(io->self, &call);
    return status;
}

tess_status tess_io_make_folder(const tess_io *io, const char *path)
{
    TESS_TRY(may_go_on(io, TESS_SAVE_MAKE_FOLDER, path));
    return observe(io, tess_os_make_dir(path), CALL(TESS_IO_MADE_FOLDER, path));
}

tess_status tess_io_remove_tree(const tess_io *io, tess_save_point point, const char *path)
{
    TESS_TRY(may_go_on(io, point, path));
    return observe(io, tess_os_remove_tree(path), CALL(TESS_IO_REMOVED, path));
}

tess_status tess_io_create(const tess_io *io, const char *path, bool *direct, int *fd)
{
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    bool past_cache = direct != NULL && *direct;
    TESS_TRY(may_go_on(io, TESS_SAVE_CREATE, path));
    *fd = open(path, flags | (past_cache ? O_DIRECT : 0), 0666);
    if (*fd < 0 && past_cache && errno == EINVAL) { /* tmpfs, some network file systems */
        *direct = false;
        *fd = open(path, flags, 0666);
    }
    return observe(io, *fd < 0 ? tess_os_error("create", path) : TESS_OK, CALL(TESS_IO_CREATED, path));
}

tess_status tess_io_reserve(const tess_io *io, int fd, uint64_t size, const char *path)
{
    TESS_TRY(may_go_on(io, TESS_SAVE_RESERVE, path));
    return observe(io, tess_os_reserve(fd, size, path), CALL(TESS_IO_SIZED, path, .size = size));
}

/* Makes one write call. If the hook asks for a short one, writes half of the data, in whole units. */
static ssize_t write_once(int number, int fd, const char *from, size_t size, uint64_t offset, size_t unit)
{
    if (number > 0) {
        errno = number;
        return -1;
    }
    if (number == TESS_IO_SHORT && size > unit)
        size = size / 2 / unit * unit > 0 ? size / 2 / unit * unit : unit;
    return pwrite(fd, from, size, (off_t)offset);
}

tess_status tess_io_write(const tess_io *io, tess_save_point point, int fd, uint64_t offset, const void *data,
                          size_t size, size_t unit, const char *path)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write_once(ask(io, point), fd, (const char *)data + done, size - done, offset + done, unit);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tess_os_error("write", path);
        size_t whole = done + (size_t)n;
        whole = whole == size ? size : whole / unit * unit;
        TESS_CHECK(whole > done, TESS_E_IO, "write %s: the disk takes less than %zu bytes at a time", path, unit);
        observe(io, TESS_OK,
                CALL(TESS_IO_WRITTEN, path, .offset = offset + done, .size = whole - done,
                     .data = (const char *)data + done));
        done = whole;
    }
    return TESS_OK;
}

tess_status tess_io_trim(const tess_io *io, int fd, uint64_t size, const char *path)
{
    TESS_TRY(may_go_on(io, TESS_SAVE_TRIM, path));
    tess_status status = ftruncate(fd, (off_t)size) != 0 ? tess_os_error("shorten", path) : TESS_OK;
    return observe(io, status, CALL(TESS_IO_SIZED, path, .size = size));
}

tess_status tess_io_sync(const tess_io *io, tess_save_point point, int fd, const char *path)
{
    TESS_TRY(may_go_on(io, point, path));
    return observe(io, tess_os_sync(fd, path), CALL(TESS_IO_SYNCED, path));
}

tess_status tess_io_write_file(const tess_io *io, tess_save_point write, const char *path, const void *data,
                               size_t size)
{
    char temporary[4096];
    int n = snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    TESS_CHECK(n > 0 && (size_t)n < sizeof(temporary), TESS_E_INVALID, "path too long: %.100s...", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    TESS_TRY(observe(io, fd < 0 ? tess_os_error("create", temporary) : TESS_OK, CALL(TESS_IO_CREATED, temporary)));
    tess_status status = tess_io_write(io, write, fd, 0, data, size, 1, temporary);
    if (status == TESS_OK)
        status = tess_io_sync(io, write + 1, fd, temporary);
    if (close(fd) != 0 && status == TESS_OK)
        status = tess_os_error("close", temporary);
    TESS_TRY(status);
    return tess_io_rename(io, write + 2, temporary, path);
}

tess_status tess_io_sync_folder(const tess_io *io, tess_save_point point, const char *path)
{
    TESS_TRY(may_go_on(io, point, path));
    return observe(io, tess_os_fsync_dir(path), CALL(TESS_IO_LISTED, path));
}

tess_status tess_io_rename(const tess_io *io, tess_save_point point, const char *from, const char *to)
{
    TESS_TRY(may_go_on(io, point, from));
    return observe(io, tess_os_rename(from, to), CALL(TESS_IO_RENAMED, from, .to = to));
}

tess_status tess_io_exchange(const tess_io *io, const char *from, const char *to)
{
    int number = ask(io, TESS_SAVE_EXCHANGE);
    TESS_CHECK(number != ENOSYS, TESS_E_UNSUPPORTED, "exchange %s: the file system cannot", to);
    errno = number;
    tess_status status =
        number > 0 ? tess_os_error(tess_save_point_name(TESS_SAVE_EXCHANGE), from) : tess_os_exchange(from, to);
    return observe(io, status, CALL(TESS_IO_EXCHANGED, from, .to = to));
}

/* ---- Looking ---- */
static tess_status may_look(const tess_io *io, const char *path)
{
    int number = io == NULL || io->look == NULL ? 0 : io->look(io->self, path);
    errno = number;
    return number > 0 ? tess_os_error("look at", path) : TESS_OK;
}

tess_status tess_io_look_up(const tess_io *io, const char *path, tess_os_entry *entry)
{
    TESS_TRY(may_look(io, path));
    return tess_os_look_up(path, entry);
}

tess_status tess_io_list(const tess_io *io, const char *folder, tess_status (*visit)(void *context, const char *name),
                         void *context)
{
    TESS_TRY(may_look(io, folder));
    return tess_os_list(folder, visit, context);
}

/* Reads instead of mapping the file: with a mapping, a failing disk would kill the process. */
tess_status tess_io_read(const tess_io *io, const char *path, size_t limit, char **data, size_t *size)
{
    int fd;
    uint64_t bytes;
    tess_os_entry entry;
    TESS_TRY(tess_io_look_up(io, path, &entry));
    TESS_CHECK(entry.kind != TESS_OS_NOTHING, TESS_E_FORMAT, "%s is missing", path);
    TESS_CHECK(entry.kind == TESS_OS_FILE && entry.bytes <= limit, TESS_E_FORMAT,
               "%s is not a file of at most %zu bytes: it is damaged", path, limit);
    TESS_TRY(may_look(io, path));
    TESS_TRY(tess_os_open_read(path, &fd, &bytes));
    tess_status status = may_look(io, path);
    *size = (size_t)entry.bytes;
    *data = NULL;
    if (status == TESS_OK && (*data = malloc(*size + 1)) == NULL)
        status = TESS_FAIL(TESS_E_NOMEM, "no memory for the %zu bytes of %s", *size, path);
    if (status == TESS_OK)
        status = tess_os_read_at(fd, 0, *data, *size, path);
    tess_os_close(&fd);
    if (status != TESS_OK)
        free(*data);
    else
        (*data)[*size] = '\0';
    return status;
}
