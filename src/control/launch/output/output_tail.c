/* Reads the last lines of a rank's output. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/launch/output/output_file.h"
#include "control/launch/output/rank_output.h"

enum { LAST_LINES = 20 };

/* Reads the end of a file. Returns the number of bytes. */
static size_t read_end(const char *path, char *text, size_t size)
{
    struct stat state;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &state) == 0 && S_ISREG(state.st_mode)) {
        off_t from = state.st_size > (off_t)size ? state.st_size - (off_t)size : 0;
        ssize_t got = pread(fd, text, size, from);
        n = got > 0 ? (size_t)got : 0;
    }
    tess_os_close(&fd);
    return n;
}

/* Keeps the last lines of a text of n bytes, and makes it a string. */
static void keep_last(char *text, size_t n, bool is_cut)
{
    size_t at = n;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = '?';
    for (int lines = 0; at > 0; at--)
        if (text[at - 1] == '\n' && at < n && ++lines == LAST_LINES)
            break;
    if (at == 0 && is_cut) { /* the first line is not whole, unless it is the only one */
        const char *end = memchr(text, '\n', n);
        if (end != NULL && end + 1 < text + n)
            at = (size_t)(end - text) + 1;
    }
    memmove(text, text + at, n - at);
    text[n - at] = '\0';
}

const char *rank_output_tail(const char *folder, int attempt, int rank, char *path, size_t path_size, char *text,
                             size_t size)
{
    static const char *const names[] = {"stderr.log", "stderr.log.1", "stdout.log", "stdout.log.1"};
    text[0] = path[0] = '\0';
    for (size_t i = 0; folder != NULL && folder[0] != '\0' && i < sizeof(names) / sizeof(names[0]); i++) {
        if (rank_output_path(folder, attempt, rank, names[i], path, path_size) != TESS_OK) {
            tess_error_clear();
            break;
        }
        size_t n = read_end(path, text, size - 1);
        if (n > 0) {
            keep_last(text, n, n == size - 1);
            return text;
        }
    }
    text[0] = path[0] = '\0';
    return text;
}
