#include "control/launch/output/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"

static const double retry_after_s = 5;
/* A line that separates the text of two processes. */
static const char mark[] = "--- tessera: a new process of this rank ---\n";

/* Writes the name of a rotated file; number 0 is the file itself. */
static void name_of(const output_file *file, int number, char *path, size_t size)
{
    if (number == 0)
        snprintf(path, size, "%s", file->path);
    else
        snprintf(path, size, "%s.%d", file->path, number);
}

/* Renames the file to .1, and the older ones to the next numbers. The oldest is replaced. */
static void rotate(output_file *file, int n_kept)
{
    char from[OUTPUT_PATH_BYTES + 16], to[OUTPUT_PATH_BYTES + 16];
    tess_os_close(&file->fd);
    if (n_kept == 0)
        unlink(file->path);
    for (int i = n_kept; i > 0; i--) {
        name_of(file, i - 1, from, sizeof(from));
        name_of(file, i, to, sizeof(to));
        (void)rename(from, to);
    }
    file->size = 0;
}

/* Returns the offset after the last mark in the n bytes of a text, or 0. */
static size_t after_mark(const char *text, size_t n)
{
    const size_t size = sizeof(mark) - 1;
    for (size_t at = n; at >= size; at--)
        if (memcmp(text + at - size, mark, size) == 0)
            return at;
    return 0;
}

void output_file_separate(const char *path)
{
    char end[sizeof(mark) - 1];
    struct stat state;
    int fd = open(path, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &state) == 0 && S_ISREG(state.st_mode) && state.st_size > 0) {
        const size_t n = (size_t)state.st_size < sizeof(end) ? (size_t)state.st_size : sizeof(end);
        const bool is_read = pread(fd, end, n, state.st_size - (off_t)n) == (ssize_t)n;
        const bool is_marked = is_read && after_mark(end, n) > 0, is_cut = is_read && end[n - 1] != '\n';
        if (!is_marked && (!is_cut || write(fd, "\n", 1) == 1) && write(fd, mark, sizeof(mark) - 1) < 0)
            errno = 0; /* a full disk: the text is not separated */
    }
    tess_os_close(&fd);
}

size_t output_file_read_end(const char *path, char *text, size_t size, bool *is_cut)
{
    struct stat state;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *is_cut = false;
    if (fd >= 0 && fstat(fd, &state) == 0 && S_ISREG(state.st_mode)) {
        *is_cut = state.st_size > (off_t)size;
        ssize_t got = pread(fd, text, size, *is_cut ? state.st_size - (off_t)size : 0);
        n = got > 0 ? (size_t)got : 0;
    }
    tess_os_close(&fd);
    const size_t begin = after_mark(text, n);
    memmove(text, text + begin, n - begin);
    *is_cut &= begin == 0;
    return n - begin;
}

/* Opens the file at its end. */
static bool open_file(output_file *file)
{
    struct stat state;
    char folder[OUTPUT_PATH_BYTES];
    snprintf(folder, sizeof(folder), "%s", file->path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
        if (tess_os_make_dirs(folder) != TESS_OK) {
            int reason = errno;
            tess_error_clear();
            errno = reason;
            return false;
        }
    }
    file->fd = open(file->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return false;
    if (fstat(file->fd, &state) != 0 || !S_ISREG(state.st_mode)) {
        tess_os_close(&file->fd);
        errno = EINVAL;
        return false;
    }
    file->size = state.st_size;
    return true;
}

static bool write_all(output_file *file, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(file->fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        file->size += done;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

static bool fail(output_file *file)
{
    int reason = errno;
    file->retry_s = tess_os_now_s() + retry_after_s;
    tess_os_close(&file->fd);
    errno = reason;
    return false;
}

/* Writes the part of the bytes that still fits into the file: up to its last line end if there is one. */
static size_t part_that_fits(const output_file *file, const char *bytes, size_t n, int64_t max_bytes)
{
    if (max_bytes == 0 || file->size + (int64_t)n <= max_bytes)
        return n;
    size_t room = file->size < max_bytes ? (size_t)(max_bytes - file->size) : 0;
    const char *end = memrchr(bytes, '\n', room);
    if (end != NULL)
        return (size_t)(end - bytes) + 1;
    return file->size > 0 ? 0 : room; /* a line that is longer than a file is cut */
}

bool output_file_write(output_file *file, const char *bytes, size_t n, int64_t max_bytes, int n_kept)
{
    if (file->path[0] == '\0' || (file->retry_s != 0 && tess_os_now_s() < file->retry_s))
        return true;
    while (n > 0) {
        if (file->fd < 0 && !open_file(file))
            return fail(file);
        size_t part = part_that_fits(file, bytes, n, max_bytes);
        if (part > 0 && !write_all(file, bytes, part))
            return fail(file);
        bytes += part;
        n -= part;
        if (n > 0) {
            rotate(file, n_kept);
            /* a file that could not be renamed begins again, so that its size keeps its bound */
            if (!open_file(file) || (file->size > 0 && ftruncate(file->fd, file->size = 0) != 0))
                return fail(file);
        }
    }
    file->retry_s = 0;
    return true;
}

void output_file_close(output_file *file)
{
    tess_os_close(&file->fd);
}
