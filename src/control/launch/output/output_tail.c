/* Reads the last lines of a rank's output. */
#include <stdio.h>
#include <string.h>

#include "control/launch/output/output_file.h"
#include "control/launch/output/rank_output.h"

enum { LAST_LINES = 20 };

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
    static const char *const names[] = {"stderr.log", "stdout.log"};
    text[0] = path[0] = '\0';
    for (size_t i = 0; folder != NULL && folder[0] != '\0' && i < sizeof(names) / sizeof(names[0]); i++) {
        if (rank_output_path(folder, attempt, rank, names[i], path, path_size) != TESS_OK) {
            tess_error_clear();
            break;
        }
        bool is_cut;
        size_t n = output_file_read_end(path, text, size - 1, &is_cut);
        if (n > 0) {
            keep_last(text, n, is_cut);
            return text;
        }
    }
    text[0] = path[0] = '\0';
    return text;
}
