#include "launch/mpirun/launch_lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"

static void hand_on(tess_lines *lines, void (*hear)(void *self, const char *line), void *self)
{
    char *line = lines->text, *end;
    lines->text[lines->n] = '\0';
    while ((end = memchr(line, '\n', lines->n - (size_t)(line - lines->text))) != NULL) {
        *end = '\0';
        hear(self, line);
        line = end + 1;
    }
    lines->n -= (size_t)(line - lines->text);
    memmove(lines->text, line, lines->n);
}

static void flush(tess_lines *lines, void (*hear)(void *self, const char *line), void *self)
{
    lines->text[lines->n] = '\0';
    if (lines->n > 0)
        hear(self, lines->text);
    lines->n = 0;
}

void tess_lines_take(tess_lines *lines, void (*hear)(void *self, const char *line), void *self)
{
    ssize_t got;
    while (lines->fd >= 0) {
        got = read(lines->fd, lines->text + lines->n, sizeof(lines->text) - 1 - lines->n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        lines->n += got > 0 ? (size_t)got : 0;
        hand_on(lines, hear, self);
        if (got <= 0 || lines->n == sizeof(lines->text) - 1)
            flush(lines, hear, self);
        if (got <= 0)
            tess_os_close(&lines->fd);
    }
}
