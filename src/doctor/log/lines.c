#include "doctor/log/log_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"

static tess_status fill(log_lines *lines)
{
    memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    ssize_t n;
    do
        n = read(lines->fd, lines->buffer + lines->end, LOG_BUFFER - lines->end);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return tess_os_error("read", lines->path);
    lines->at_end = n == 0;
    lines->end += (size_t)n;
    return TESS_OK;
}

/* Rotated logs are often compressed. */
static tess_status refuse_compressed(const log_lines *lines)
{
    static const struct {
        const char *begin, *tool;
    } kinds[] = {{"\x1f\x8b", "zcat"},
                 {"\x28\xb5\x2f\xfd", "zstdcat"},
                 {"\xfd"
                  "7zXZ",
                  "xzcat"},
                 {"BZh", "bzcat"}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t n = strlen(kinds[i].begin);
        TESS_CHECK(lines->end < n || memcmp(lines->buffer, kinds[i].begin, n) != 0, TESS_E_INVALID,
                   "%s: is compressed: %s FILE | tessera doctor log -", lines->path, kinds[i].tool);
    }
    return TESS_OK;
}

tess_status log_lines_open(tess_mem *mem, const char *path, log_lines *lines)
{
    *lines = (log_lines){.mem = mem, .fd = -1, .ends_line = true};
    bool standard = strcmp(path, "-") == 0;
    snprintf(lines->path, sizeof(lines->path), "%s", standard ? "(standard input)" : path);
    TESS_CHECK(standard || !tess_os_is_dir(path), TESS_E_INVALID, "%s: is a folder: name the files in it", path);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, LOG_BUFFER, "lines of a log", (void **)&lines->buffer));
    /* A FIFO that nobody writes to would wait in open; a pipe of the shell is read like a file. */
    lines->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (lines->fd < 0)
        return tess_os_error("open", path);
    if (!standard)
        (void)fcntl(lines->fd, F_SETFL, 0);
    TESS_TRY(fill(lines));
    return refuse_compressed(lines);
}

void log_lines_close(log_lines *lines)
{
    if (lines->fd > STDIN_FILENO)
        close(lines->fd);
    tess_mem_free(lines->mem, lines->buffer);
    lines->fd = -1;
    lines->buffer = NULL;
}

/* Length up to the next line end, at most LOG_LINE_MOST; *there: the buffer has a line end. */
static size_t measure(const log_lines *lines, bool *there)
{
    const char *text = lines->buffer + lines->begin;
    size_t size = lines->end - lines->begin;
    if (size > LOG_LINE_MOST)
        size = LOG_LINE_MOST;
    const char *newline = memchr(text, '\n', size);
    size_t n = newline != NULL ? (size_t)(newline - text) : size;
    const char *return_ = memchr(text, '\r', n);
    *there = newline != NULL || return_ != NULL;
    return return_ != NULL ? (size_t)(return_ - text) : n;
}

tess_status log_lines_next(log_lines *lines, const char **text, size_t *size)
{
    bool there = false;
    size_t n = measure(lines, &there);
    while (!there && n < LOG_LINE_MOST && !lines->at_end) {
        TESS_TRY(fill(lines));
        n = measure(lines, &there);
    }
    *text = NULL;
    *size = n;
    if (!there && n == 0)
        return TESS_OK;
    if (lines->ends_line)
        lines->line++;
    *text = lines->buffer + lines->begin;
    if (there) {
        lines->ends_line = (*text)[n] == '\n';
        lines->begin += n + 1;
    } else {
        lines->ends_line = false;
        lines->begin += n == LOG_LINE_MOST ? n - LOG_LINE_OVERLAP : n;
    }
    return TESS_OK;
}
