#include "doctor/log/log_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_WIDTH = 60, MOST_WIDTH = 250, LEAST_JOINED = 3, HEAD = 48 };

static size_t count_characters(const char *line, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += ((uint8_t)line[i] & 0xc0) != 0x80;
    return n;
}

static size_t first_word(const char *line, size_t size)
{
    size_t n = 0;
    while (n < size && line[n] != ' ')
        n++;
    return n;
}

static bool has_ending(const char *word, size_t size, const char *ending)
{
    size_t n = strlen(ending);
    return size >= n && memcmp(word + size - n, ending, n) == 0;
}

/* "node-a:123:456 [0] NCCL WARN": host, process and thread. */
static bool is_nccl(const char *line, size_t size)
{
    char head[HEAD + 1];
    int process, thread;
    snprintf(head, sizeof(head), "%.*s", (int)(size < HEAD ? size : HEAD), line);
    return sscanf(head, "%*[^: ]:%d:%d", &process, &thread) == 2;
}

/* A line that begins like one of a logger, a launcher or a traceback, or that is indented. */
static bool begins(const char *line, size_t size)
{
    static const char *const words[] = {"Traceback", "File", "INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL", "FATAL"};
    static const char *const endings[] = {"Error:", "Exception:", "srun:", "slurmstepd:", "kernel:"};
    size_t head = size < HEAD ? size : HEAD, word = first_word(line, size);
    if (size == 0 || line[0] == '\t' || line[0] == '{' || (line[0] == ' ' && (size == 1 || line[1] == ' ')))
        return true;
    if (log_rank_of_line(line, head) >= 0 || log_has_time(line, head) || is_nccl(line, size))
        return true;
    if (line[0] == '(' && memmem(line, head, " pid=", 5) != NULL)
        return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (word >= strlen(words[i]) && memcmp(line, words[i], strlen(words[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if (has_ending(line, word, endings[i]))
            return true;
    return false;
}

/* The edge of a table, or a rule: other lines of the same width follow it. */
static bool is_drawn(const char *line, size_t size)
{
    return size < 2 || line[size - 1] == '|' || line[size - 1] == '+' ||
           (strchr("-=*#_ ", line[size - 1]) != NULL && line[size - 2] == line[size - 1]);
}

/* Whether `next` may be the rest of `line`: it does not begin like a line of its own or like `line`. */
static bool may_continue(const char *line, size_t size, const char *next, size_t next_size)
{
    enum { ALIKE = 4 };
    bool alike = size >= ALIKE && next_size >= ALIKE && memcmp(line, next, ALIKE) == 0;
    return !alike && !is_drawn(line, size) && !begins(next, next_size);
}

/* Where lines are cut between words, the next word did not fit. */
static bool is_full(log_wrap wrap, const char *line, size_t size, const char *next, size_t next_size)
{
    size_t n = count_characters(line, size);
    size_t word = wrap.at_words ? 1 + count_characters(next, first_word(next, next_size)) : 0;
    return n <= wrap.width && (wrap.at_words ? n + word > wrap.width : n == wrap.width);
}

bool log_wrap_joins(log_wrap wrap, const char *line, size_t size, const char *next, size_t next_size)
{
    return wrap.width > 0 && is_full(wrap, line, size, next, next_size) && may_continue(line, size, next, next_size);
}

/* The line at text[*at..size), without its end; moves *at behind it. False: there is none, or it is not whole. */
static bool take(const char *text, size_t size, size_t *at, const char **line, size_t *n)
{
    if (*at >= size)
        return false;
    const char *end = memchr(text + *at, '\n', size - *at);
    *line = text + *at;
    *n = end != NULL ? (size_t)(end - *line) : size - *at;
    *at += *n + 1;
    *n -= *n > 0 && (*line)[*n - 1] == '\r';
    return true;
}

/* Of the lines that could continue the one before, nearly all follow a full one; in a log whose lines are whole, few
 * do.
 */
static bool fits(log_wrap wrap, const char *text, size_t size)
{
    const char *line, *next;
    size_t n, next_n, at = 0, n_continue = 0, n_full = 0;
    for (bool any = take(text, size, &at, &line, &n); any && take(text, size, &at, &next, &next_n);
         line = next, n = next_n) {
        if (n == 0 || !may_continue(line, n, next, next_n))
            continue;
        n_continue++;
        n_full += is_full(wrap, line, n, next, next_n);
    }
    return n_full >= LEAST_JOINED && n_full * 10 >= n_continue * 9;
}

log_wrap log_wrap_find(const char *text, size_t size)
{
    log_wrap wrap = {0};
    const char *line;
    size_t n;
    for (size_t at = 0; take(text, size, &at, &line, &n);) {
        n = count_characters(line, n);
        wrap.width = n > wrap.width ? n : wrap.width;
    }
    if (wrap.width < LEAST_WIDTH || wrap.width > MOST_WIDTH)
        return (log_wrap){0};
    if (fits(wrap, text, size))
        return wrap;
    wrap.at_words = true;
    return fits(wrap, text, size) ? wrap : (log_wrap){0};
}
