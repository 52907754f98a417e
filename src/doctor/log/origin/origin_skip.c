/* Finds where the own text of a line begins, after times and the prefixes of launchers and loggers. */
#include "doctor/log/origin/origin_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

size_t origin_skip_time(const char *text, size_t size)
{
    static const char form[] = "0000-00-00?00:00:00";
    enum { CTIME = 24 };
    size_t n = sizeof(form) - 1, seconds = strspn(text, "0123456789.");
    if (seconds > 2 && strncmp(text + seconds, "s\t", 2) == 0) {
        size_t number = strspn(text + seconds + 2, "0123456789");
        return number > 0 && text[seconds + 2 + number] == '\t' ? seconds + number + 3 : 0;
    }
    if (size <= n)
        return 0;
    if (size > CTIME && isupper((unsigned char)text[0]) && text[13] == ':' && text[16] == ':' && text[CTIME] == '[')
        return CTIME;
    for (size_t i = 0; i < n; i++)
        if (form[i] == '0' ? !isdigit((unsigned char)text[i]) : form[i] != '?' && text[i] != form[i])
            return 0;
    while (n < size && text[n] != '\0' && strchr("0123456789.,:+-Z", text[n]) != NULL)
        n++;
    return n < size && text[n] == ' ' ? n + 1 : 0;
}

size_t origin_skip_bracket(const char *text, size_t size)
{
    enum { MOST = 100 };
    if (size < 3 || (text[0] != '[' && text[0] != '('))
        return 0;
    const char *close = memchr(text, text[0] == '[' ? ']' : ')', size < MOST ? size : MOST);
    size_t n = close != NULL ? (size_t)(close - text) + 1 : 0;
    if (text[0] == '(')
        return n > 7 && (memmem(text, n, "pid=", 4) != NULL || memcmp(text, "(raylet", 7) == 0) ? n : 0;
    if (n > 0 && n + 3 < size && text[n] == '<' &&
        (close = memchr(text + n, '>', size - n < 12 ? size - n : 12)) != NULL)
        n = (size_t)(close - text) + 1;
    return n > 0 && n < size && text[n] == ':' ? n + 1 : n;
}

size_t origin_skip_ucx_time(const char *text)
{
    int n = 0;
    (void)sscanf(text, "[%*10[0-9].%*6[0-9]] %n", &n);
    return (size_t)n;
}

size_t origin_skip_tag(const char *text)
{
    int n = 0;
    (void)sscanf(text, "[%*[0-9a-z@,:.-]]<std%*3[a-z]>:%n", &n);
    return (size_t)n;
}

size_t origin_skip_column(const char *text)
{
    size_t begin = text[0] == '|' ? 1 + strspn(text + 1, " ") : 0;
    size_t n = strspn(text + begin, "0123456789-:.,TZ+");
    return n > 0 && isdigit((unsigned char)text[begin]) && strncmp(text + begin + n, " | ", 3) == 0 ? begin + n + 3 : 0;
}

/* Returns the offset after a prefix of glog, "E0110 11:43:09.123456 77 file.cc:12] "; 0: the text has another form. */
static size_t skip_glog(const char *text, size_t size)
{
    size_t digits =
        size > 10 ? strspn(text + 1, "0123456789") : 0; /* month and day, after the year in newer versions */
    if (digits == 0 || strchr("IWEF", text[0]) == NULL || (digits != 4 && digits != 8) || text[digits + 1] != ' ')
        return 0;
    const char *close = memchr(text, ']', size);
    return close != NULL && close[1] == ' ' ? (size_t)(close - text) + 2 : 0;
}

/* Returns the offset after a level: "ERROR 01-10 11:43:09 " or "ERROR 01-10 11:43:09 worker.py:12] " of vLLM, or "-
 * trainer - ERROR - " after a time; 0: the text has another form. */
static size_t skip_level(const char *text)
{
    int n = 0;
    (void)sscanf(text, "- %*80[^ ] - %*10[A-Z] -%n", &n);
    if (n == 0)
        (void)sscanf(text, "%*1[DIWEC]%*[A-Z] %*2d-%*2d %*2d:%*2d:%*2d%n", &n);
    if (n == 0 || text[n] != ' ')
        return 0;
    size_t word = strcspn(text + n + 1, " []");
    bool is_place = word > 0 && text[n + 1 + word] == ']';
    return (size_t)n + 1 + (is_place ? word + 1 : 0);
}

/* Returns the offset after "| ERROR | stderr | ", which follows a time, or after "[rank=1] || "; 0: neither. */
static size_t skip_bars(const char *text, size_t size)
{
    enum { MOST = 120 };
    int n = 0;
    (void)sscanf(text, "| %*10[A-Z] | %*80[^ |] |%n", &n);
    if (n > 0 && text[n] == ' ')
        return (size_t)n + 1;
    const char *bars = memmem(text, size < MOST ? size : MOST, "] || ", 5);
    return bars != NULL ? (size_t)(bars - text) + 5 : 0;
}

/* Returns the offset after "192.0.2.8 [14] " of xla_dist; 0: the text has another form. */
static size_t skip_tpu_worker(const char *text)
{
    int host = 0, end = 0;
    (void)sscanf(text, "%*63[0-9.]%n [%*9d] %n", &host, &end);
    return host >= 7 ? (size_t)end : 0;
}

/* Returns the offset after "3: ", "rank3: ", "node-a: ", "job-worker-3  | " or "trainer_1  | "; 0: none of these. */
static size_t skip_label(const char *text, size_t size)
{
    size_t n = 0, end;
    while (n < size && log_is_host_char(text[n]))
        n++;
    for (end = n; end < size && text[end] == ' ';)
        end++;
    bool colon = end == n && n + 1 < size && text[n] == ':' && text[n + 1] == ' ';
    bool bar = end > n && end + 1 < size && text[end] == '|' && text[end + 1] == ' ';
    bool number = n > 0 && strspn(text, "0123456789") == n;
    bool known = log_is_host(text, n, LOG_HOST_ANYWHERE) || origin_rank_in_label(text, size) >= 0;
    if (known && origin_stream_at(text + n, size - n) > 0)
        return n + origin_stream_at(text + n, size - n);
    return (colon && (number || known)) || (bar && (known || origin_is_container(text, n))) ? end + 2 : 0;
}

/* Returns the offset after the role and replica that TorchX and NeMo-Run print, "train/0 "; 0: the text has another
 * form. A folder of numbers, "checkpoints/3 ", looks alike, so another prefix must follow. */
static size_t skip_replica(const char *text)
{
    enum { MOST = 40 };
    size_t n = 0, digits;
    while (n < MOST && log_is_host_char(text[n]))
        n++;
    digits = n > 0 && text[n] == '/' ? strspn(text + n + 1, "0123456789") : 0;
    const char *after = text + n + 1 + digits;
    bool is_followed = digits > 0 && (strncmp(after, " [", 2) == 0 || strncmp(after, " Traceback", 10) == 0 ||
                                      strncmp(after, "   File", 7) == 0);
    return is_followed ? n + 2 + digits : 0;
}

/* Returns the offset after the number that `grep -n` puts before a line, "123:Exception"; 0: the text has another
 * form. */
static size_t skip_grep(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && n < 8 && text[n] == ':' && isalpha((unsigned char)text[n + 1]) ? n + 1 : 0;
}

size_t log_text_begin(const char *line, size_t size)
{
    enum { MOST_PREFIXES = 6 };
    char head[2 * LOG_HEAD + 1];
    size_t n = origin_copy_head(line, size, head, sizeof(head)), at = skip_replica(head);
    at = at > 0 ? at : skip_grep(head);
    for (int i = 0; i < MOST_PREFIXES; i++) {
        size_t blanks = strspn(head + at, " "), left = n - at - blanks, next;
        const char *text = head + at + blanks;
        bool any = (next = origin_skip_time(text, left)) > 0 || (next = skip_glog(text, left)) > 0 ||
                   (next = skip_level(text)) > 0 || (next = origin_skip_column(text)) > 0 ||
                   (next = skip_bars(text, left)) > 0 || (next = origin_skip_bracket(text, left)) > 0 ||
                   (next = skip_label(text, left)) > 0 || (next = skip_tpu_worker(text)) > 0;
        if (!any && blanks >= 2 && strncmp(text, "| ", 2) == 0)
            next = 2; /* the bar that Python draws before the members of an exception group */
        if (next == 0)
            break;
        at += blanks + next;
    }
    return at + strspn(head + at, " \t");
}
