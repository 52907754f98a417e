#include "page/page_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "base/text/json.h"

/* A window of the file: text[begin, end) has not been taken yet. */
typedef struct window {
    char *text; /* (PAGE_LINE) */
    size_t begin, end;
} window;

static tess_status take(page_lines *lines, const page_lines_reader *reader, const char *text, size_t n)
{
    json_t *line = NULL;
    size_t blank = 0;
    while (blank < n && strchr(" \t\r", text[blank]) != NULL)
        blank++;
    if (blank == n)
        return TESS_OK;
    tess_status status = tess_json_parse(text, n, "line", false, &line);
    if (status == TESS_E_NOMEM)
        return status;
    tess_error_clear();
    lines->n_bad += !json_is_object(line);
    status = json_is_object(line) ? reader->line(reader->self, line) : TESS_OK;
    json_decref(line);
    return status;
}

/* Takes the whole lines of the window. */
static tess_status take_lines(page_lines *lines, const page_lines_reader *reader, window *w)
{
    for (;;) {
        const char *from = w->text + w->begin, *end = memchr(from, '\n', w->end - w->begin);
        if (end == NULL)
            return TESS_OK;
        const size_t n = (size_t)(end - from);
        if (!lines->skips)
            TESS_TRY(take(lines, reader, from, n));
        lines->skips = false;
        w->begin += n + 1;
        lines->offset += n + 1;
    }
}

/* Moves what is left to the front of the window. A line that fills the window is skipped. */
static void make_room(page_lines *lines, window *w)
{
    const size_t left = w->end - w->begin;
    memmove(w->text, w->text + w->begin, left);
    w->begin = 0;
    w->end = left;
    if (left < PAGE_LINE && !lines->skips)
        return;
    lines->n_bad += !lines->skips;
    lines->offset += left;
    lines->skips = true;
    w->end = 0;
}

static tess_status read_on(page_lines *lines, int fd, const char *path, const page_lines_reader *reader, window *w)
{
    for (;;) {
        const ssize_t n = pread(fd, w->text + w->end, PAGE_LINE - w->end, (off_t)(lines->offset + w->end - w->begin));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tess_os_error("read", path);
        if (n == 0)
            return TESS_OK;
        w->end += (size_t)n;
        TESS_TRY(take_lines(lines, reader, w));
        make_room(lines, w);
        TESS_CHECK(reader->deadline_s == 0 || tess_os_now_s() < reader->deadline_s, TESS_E_TIMEOUT,
                   "%s is too long to be read in the given time", path);
    }
}

/* Returns a hash of the first and of the last bytes of the part of the file that has been read. */
static uint64_t hash_read(int fd, uint64_t offset)
{
    enum { BYTES = 256 };
    char bytes[2 * BYTES] = {0};
    const size_t n = offset < BYTES ? (size_t)offset : BYTES;
    const ssize_t first = pread(fd, bytes, n, 0), last = pread(fd, bytes + BYTES, n, (off_t)(offset - n));
    return first == (ssize_t)n && last == (ssize_t)n ? tess_hash_bytes(bytes, sizeof(bytes), 0) : 0;
}

static bool is_same(const page_lines *lines, int fd, const struct stat *facts)
{
    return lines->device == facts->st_dev && lines->inode == facts->st_ino &&
           lines->offset <= (uint64_t)facts->st_size &&
           (lines->offset == 0 || lines->seen == hash_read(fd, lines->offset));
}

tess_status page_lines_read(page_lines *lines, const char *path, const page_lines_reader *reader)
{
    struct stat facts;
    window w = {0};
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    TESS_AUTO(tess_os_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return TESS_OK;
    if (!is_same(lines, fd, &facts)) {
        if (reader->restart != NULL)
            reader->restart(reader->self);
        *lines = (page_lines){.device = facts.st_dev, .inode = facts.st_ino};
    }
    if (lines->offset == (uint64_t)facts.st_size)
        return TESS_OK;
    TESS_TRY(TESS_NEW(reader->mem, PAGE_LINE, "lines of a file", &text));
    w.text = text;
    tess_status status = read_on(lines, fd, path, reader, &w);
    lines->seen = hash_read(fd, lines->offset);
    return status;
}
