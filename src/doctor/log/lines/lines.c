/* Reads a log line by line, joins lines that were cut, and removes terminal colours. */
#include "doctor/log/log_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"

static tess_status read_some(const log_lines *lines, char *to, size_t room, size_t *n)
{
    ssize_t got;
    do
        got = read(lines->fd, to, room);
    while (got < 0 && errno == EINTR);
    *n = got > 0 ? (size_t)got : 0;
    return got < 0 ? tess_os_error("read", lines->path) : TESS_OK;
}

/* Converts the bytes in `raw`. UTF-8 takes up to half as many bytes more than UTF-16. */
static size_t convert(log_lines *lines, bool at_end)
{
    size_t room = (LOG_BUFFER - lines->end) / 3 * 2, size = lines->raw_size < room ? lines->raw_size : room, written;
    size_t used = log_utf16_convert(lines->encoding, lines->raw, size, at_end && size == lines->raw_size,
                                    lines->buffer + lines->end, &written);
    memmove(lines->raw, lines->raw + used, lines->raw_size - used);
    lines->raw_size -= used;
    return written;
}

static tess_status take_more(log_lines *lines)
{
    size_t n;
    memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    if (lines->raw == NULL) {
        TESS_TRY(read_some(lines, lines->buffer + lines->end, LOG_BUFFER - lines->end, &n));
        lines->at_end = n == 0;
        lines->end += n;
        return TESS_OK;
    }
    TESS_TRY(read_some(lines, lines->raw + lines->raw_size, LOG_BUFFER - lines->raw_size, &n));
    lines->raw_size += n;
    lines->end += convert(lines, n == 0);
    lines->at_end = n == 0 && lines->raw_size == 0;
    return TESS_OK;
}

/* Fills the buffer. Looks for the width again if none is known: error lines, which may come late, are often the
 * first that are longer than a terminal is wide. */
static tess_status fill(log_lines *lines)
{
    TESS_TRY(take_more(lines));
    if (lines->wrap.width == 0)
        lines->wrap = log_wrap_find(lines->buffer, lines->end);
    return TESS_OK;
}

/* Prepares the conversion if the file begins like UTF-16, which some tools on Windows write. */
static tess_status begin_conversion(log_lines *lines)
{
    TESS_TRY(tess_mem_alloc(lines->mem, TESS_POOL_MISC, LOG_BUFFER, "a log in UTF-16", (void **)&lines->raw));
    memcpy(lines->raw, lines->buffer, lines->end);
    lines->raw_size = lines->end;
    lines->end = 0;
    lines->end = convert(lines, false);
    return TESS_OK;
}

/* Fills at least half of the buffer. A pipe may deliver little at a time, which does not show whether its lines were
 * cut. */
static tess_status fill_half(log_lines *lines)
{
    while (!lines->at_end && lines->end < LOG_BUFFER / 2)
        TESS_TRY(take_more(lines));
    lines->wrap = log_wrap_find(lines->buffer, lines->end);
    return TESS_OK;
}

/* Fails for compressed files, because rotated logs are often compressed. */
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

/* Drops NULs at the beginning of the log. If a log is cut while a program writes to it, a hole of any size may stand
 * there. *n: number of NULs. */
static tess_status skip_first_hole(log_lines *lines, int64_t *n)
{
    *n = 0;
    while (lines->end > 0 && lines->buffer[0] == '\0') {
        size_t hole = 0;
        while (hole < lines->end && lines->buffer[hole] == '\0')
            hole++;
        *n += (int64_t)hole;
        lines->begin = hole;
        TESS_TRY(take_more(lines)); /* moves the rest to the beginning of the buffer */
    }
    return TESS_OK;
}

/* Fails for files that are no text: they hold only NULs, or some of their bytes are control characters that no program
 * prints. n_hole: number of NULs that were dropped from the beginning. Other NULs do not count. */
static tess_status refuse_binary(const log_lines *lines, int64_t n_hole)
{
    enum { SHARE = 50, FEW = 8 }; /* one of SHARE bytes */
    size_t n_bad = 0, n_nul = 0;
    TESS_CHECK(n_hole == 0 || lines->end > 0, TESS_E_INVALID, "%s: is not text: all of its %" PRId64 " bytes are NULs",
               lines->path, n_hole);
    for (size_t i = 0; i < lines->end; i++) {
        unsigned char c = (unsigned char)lines->buffer[i];
        n_nul += c == '\0';
        n_bad += (c < 0x20 && c != '\0' && strchr("\t\n\v\f\r\b\a\x1b", c) == NULL) || c == 0x7f;
    }
    TESS_CHECK(n_bad < FEW || n_bad * SHARE < lines->end - n_nul, TESS_E_INVALID,
               "%s: is not text: %zu of its first %zu bytes are control characters", lines->path, n_bad, lines->end);
    return TESS_OK;
}

static tess_status begin_text(log_lines *lines)
{
    int64_t n_hole;
    TESS_TRY(skip_first_hole(lines, &n_hole));
    return refuse_binary(lines, n_hole);
}

tess_status log_lines_open(tess_mem *mem, const char *path, log_lines *lines)
{
    *lines = (log_lines){.mem = mem, .fd = -1, .ends_line = true};
    bool standard = strcmp(path, "-") == 0;
    snprintf(lines->path, sizeof(lines->path), "%s", standard ? "(standard input)" : path);
    TESS_CHECK(standard || !tess_os_is_dir(path), TESS_E_INVALID, "%s: is a folder: name the files in it", path);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, LOG_BUFFER, "lines of a log", (void **)&lines->buffer));
    /* O_NONBLOCK: opening a FIFO without a writer would wait forever */
    lines->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (lines->fd < 0)
        return tess_os_error("open", path);
    if (!standard)
        (void)fcntl(lines->fd, F_SETFL, 0);
    TESS_TRY(take_more(lines));
    TESS_TRY(refuse_compressed(lines));
    lines->encoding = log_encoding_of(lines->buffer, lines->end);
    if (lines->encoding != LOG_BYTES)
        TESS_TRY(begin_conversion(lines));
    else
        TESS_TRY(begin_text(lines));
    return fill_half(lines);
}

void log_lines_close(log_lines *lines)
{
    if (lines->fd > STDIN_FILENO)
        close(lines->fd);
    tess_mem_free(lines->mem, lines->buffer);
    tess_mem_free(lines->mem, lines->raw);
    lines->fd = -1;
    lines->buffer = lines->raw = NULL;
}

/* Returns the length up to the next line end, at most LOG_LINE_MOST. *there: the buffer holds a line end. */
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

/* Whether `next` continues `line`, whose last part begins at line[last]. *skip: bytes to drop at the beginning of
 * `next`. *space: a blank belongs between the two. */
static bool continues(const log_lines *lines, const char *line, size_t n, size_t last, const char *next, size_t next_n,
                      size_t *skip, bool *space)
{
    if (log_report_goes_on(line, n, next, next_n, skip, space)) /* the words of a report say more than the width */
        return true;
    *skip = 0;
    *space =
        lines->wrap.at_words && n > 0 && line[n - 1] != ' '; /* some programs leave the blank at the end of the line */
    if (log_wrap_joins(lines->wrap, line + last, n - last, next, next_n))
        return true;
    *space = true;
    return log_message_is_open(line, n) && log_message_goes_on(line, n, next, next_n, skip);
}

/* Joins the lines that continue the line of *n bytes at lines->begin. Its bytes are moved up to the next line, over
 * the line end between them. */
static tess_status join(log_lines *lines, size_t *n)
{
    enum { MOST = 8 << 10 };  /* limit of the bytes of a joined line */
    for (size_t last = 0;;) { /* offset of the last of the joined lines */
        if (lines->end - lines->begin < 2 * MOST && !lines->at_end)
            TESS_TRY(fill(lines));
        char *line = lines->buffer + lines->begin;
        size_t rest = lines->end - lines->begin, gap = *n < rest && line[*n] == '\r' ? 2 : 1;
        if (*n + gap >= rest || line[*n + gap - 1] != '\n')
            return TESS_OK;
        const char *next = line + *n + gap, *end = memchr(next, '\n', rest - *n - gap);
        size_t next_n = end != NULL ? (size_t)(end - next) : rest - *n - gap;
        next_n -= next_n > 0 && next[next_n - 1] == '\r';
        size_t skip;
        bool space;
        if (*n + next_n >= MOST || !continues(lines, line, *n, last, next, next_n, &skip, &space))
            return TESS_OK;
        gap += skip;
        memmove(line + gap - space, line, *n);
        lines->begin += gap - space;
        if (space)
            line[*n + gap - 1] = ' ';
        last = *n + space;
        *n = last + next_n - skip;
        lines->n_joined++;
    }
}

/* Skips NULs at the beginning of a line of *n bytes: they fill the place of what was cut from a log while a program
 * wrote to it. */
static void skip_hole(log_lines *lines, size_t *n)
{
    while (*n > 0 && lines->buffer[lines->begin] == '\0') {
        lines->begin++;
        --*n;
    }
}

tess_status log_lines_next(log_lines *lines, const char **text, size_t *size)
{
    bool there = false;
    size_t n = measure(lines, &there);
    while (!there && n < LOG_LINE_MOST && !lines->at_end) {
        TESS_TRY(fill(lines));
        n = measure(lines, &there);
    }
    lines->line += lines->n_joined;
    lines->n_joined = 0;
    *text = NULL;
    *size = 0;
    if (!there && n == 0)
        return TESS_OK;
    const char *begin = lines->buffer + lines->begin;
    bool may_go_on = lines->wrap.width > 0 || log_message_is_open(begin, n) || log_report_is_open(begin, n);
    if (lines->ends_line && there && may_go_on)
        TESS_TRY(join(lines, &n));
    if (lines->ends_line)
        lines->line++;
    skip_hole(lines, &n);
    char *line = lines->buffer + lines->begin;
    *text = line;
    there = lines->begin + n < lines->end && (line[n] == '\n' || line[n] == '\r');
    lines->ends_line = there && line[n] == '\n';
    if (there)
        lines->begin += n + 1;
    else
        lines->begin += n == LOG_LINE_MOST ? n - LOG_LINE_OVERLAP : n;
    *size = there ? log_strip_escapes(line, n) : n; /* the next piece begins within this one */
    return TESS_OK;
}
