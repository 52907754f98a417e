#include "control/feed/feed_lines.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"

enum { CHUNK = 64 << 10, LONGEST = 64 << 20 }; /* a longer line is no line of ours */

tess_status feed_lines_open(tess_mem *mem, const char *folder, const char *name, bool at_end, feed_lines *lines)
{
    struct stat info;
    *lines = (feed_lines){.fd = -1, .read = {.mem = mem}};
    TESS_TRY(tess_os_join(lines->path, sizeof(lines->path), folder, name));
    feed_lines_follow(lines);
    if (at_end && lines->fd >= 0 && fstat(lines->fd, &info) == 0)
        lines->at = (uint64_t)info.st_size;
    return TESS_OK;
}

void feed_lines_close(feed_lines *lines)
{
    tess_os_close(&lines->fd);
    tess_buffer_free(&lines->read);
}

static size_t read_at(int fd, uint64_t offset, void *data, size_t size)
{
    ssize_t n = pread(fd, data, size, (off_t)offset);
    return n > 0 ? (size_t)n : 0;
}

/* Reads one more chunk. Returns whether there was one. */
static bool read_more(feed_lines *lines)
{
    char chunk[CHUNK];
    const size_t n = lines->fd >= 0 ? read_at(lines->fd, lines->at, chunk, sizeof(chunk)) : 0;
    if (n == 0 || lines->read.size > LONGEST)
        return false;
    if (lines->begin > 0)
        memmove(lines->read.data, lines->read.data + lines->begin, lines->read.size - lines->begin);
    lines->read.size -= lines->begin;
    lines->begin = 0;
    if (tess_buffer_append(&lines->read, chunk, n) != TESS_OK) {
        tess_error_clear();
        return false;
    }
    lines->at += n;
    return true;
}

static const char *line_end(const feed_lines *lines)
{
    return lines->read.size > lines->begin
               ? memchr(lines->read.data + lines->begin, '\n', lines->read.size - lines->begin)
               : NULL;
}

const char *feed_lines_next(feed_lines *lines, size_t *n)
{
    const char *end = line_end(lines);
    while (end == NULL && read_more(lines))
        end = line_end(lines);
    if (end == NULL)
        return NULL;
    *n = (size_t)(end - (lines->read.data + lines->begin));
    return lines->read.data + lines->begin;
}

void feed_lines_take(feed_lines *lines)
{
    const char *end = line_end(lines);
    if (end != NULL)
        lines->begin = (size_t)(end + 1 - lines->read.data);
}

/* Returns the end of the last line that both files have, at most `most`. */
static uint64_t common_lines(int a, int b, uint64_t most)
{
    char x[CHUNK], y[CHUNK];
    uint64_t at = 0, end = 0;
    while (at < most) {
        size_t n = read_at(a, at, x, sizeof(x)), m = read_at(b, at, y, sizeof(y)), i = 0;
        n = n < m ? n : m;
        n = n < most - at ? n : (size_t)(most - at);
        for (; i < n && x[i] == y[i]; i++)
            end = x[i] == '\n' ? at + i + 1 : end;
        if (i < n || n == 0)
            break;
        at += n;
    }
    return end;
}

void feed_lines_follow(feed_lines *lines)
{
    struct stat now, before = {0};
    int fd = open(lines->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &now) != 0 ||
        (lines->fd >= 0 && fstat(lines->fd, &before) == 0 && now.st_ino == before.st_ino &&
         now.st_dev == before.st_dev)) {
        tess_os_close(&fd);
        return;
    }
    const uint64_t next = lines->at - lines->read.size + lines->begin;
    lines->at = lines->fd >= 0 ? common_lines(lines->fd, fd, next) : 0;
    lines->read.size = lines->begin = 0;
    tess_os_close(&lines->fd);
    lines->fd = fd;
}

int64_t feed_line_step(const char *line, size_t n)
{
    static const char begin[] = "{\"step\": ";
    char text[64] = {0}, *end = text;
    memcpy(text, line, n < sizeof(text) - 1 ? n : sizeof(text) - 1);
    const int64_t step = strncmp(text, begin, sizeof(begin) - 1) == 0 ? strtoll(text + sizeof(begin) - 1, &end, 10) : 0;
    return *end == ',' ? step : -1;
}
