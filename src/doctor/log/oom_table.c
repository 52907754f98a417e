/* Reads the table of processes that the kernel prints when memory runs out. The process that it then kills is mostly
 * the largest one; the table shows it also where the line that names the killed process is missing. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/log/log_impl.h"

enum { ROW_MOST = 240, N_COLUMNS = 6 };

/* Reads "[ 4242]  1000  4242  123456  98765  ...  0 python3": the process, its user, thread group, total and resident
 * pages, further numbers and the name. */
static bool parse_row(const char *text, log_oom_row *row)
{
    int end = 0, pid;
    long long pages;
    if (sscanf(text, "[%9d] %*d %*d %*d %lld%n", &pid, &pages, &end) != 2 || end == 0 || pid <= 0 || pages < 0)
        return false;
    int n_numbers = 0;
    for (text += end; *text == ' ';) {
        char *after;
        text += strspn(text, " ");
        if (!isdigit((unsigned char)*text) && *text != '-')
            break;
        (void)strtoll(text, &after, 10);
        if (after == text || *after != ' ')
            return false;
        text = after;
        n_numbers++;
    }
    size_t n = strcspn(text, " \r");
    if (n_numbers < 3 || n_numbers > N_COLUMNS || n == 0 || n >= sizeof(row->name) || text[n] == ' ')
        return false;
    row->pid = pid;
    row->pages = pages;
    snprintf(row->name, sizeof(row->name), "%.*s", (int)n, text);
    return true;
}

void log_note_oom_row(survey_reading *r, const char *line, size_t size, int64_t number)
{
    char text[ROW_MOST];
    log_oom_row row;
    if (size >= sizeof(text) || size < 24 || !isalnum((unsigned char)line[size - 1]))
        return;
    const char *bracket = memrchr(line, '[', size);
    if (bracket == NULL || memchr(bracket, ']', size - (size_t)(bracket - line)) == NULL)
        return;
    snprintf(text, sizeof(text), "%.*s", (int)(size - (size_t)(bracket - line)), bracket);
    if (!parse_row(text, &row))
        return;
    bool is_new = r->largest.pid == 0 || number - r->largest.at.line > 1;
    if (is_new || row.pages > r->largest.pages)
        r->largest = row;
    r->largest.at = (log_place){r->file, number};
}

const char *log_oom_text(const log_oom_row *row, char *text, size_t size)
{
    static const double page = 4096;
    char bytes[32];
    snprintf(text, size, "%s (pid %d), %s resident", row->name, row->pid,
             tess_format_bytes((double)row->pages * page, bytes, sizeof(bytes)));
    return text;
}
