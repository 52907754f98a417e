#include "base/core/redact.h"

#include <stdbool.h>
#include <string.h>

enum { SHORTEST_SECRET = 6, STARS = 3 };

/* Replaces the bytes [from, to) by at most STARS stars. Returns the end of the stars. */
static char *cut(char *from, char *to)
{
    const size_t n = to - from < STARS ? (size_t)(to - from) : STARS;
    memset(from, '*', n);
    memmove(from + n, to, strlen(to) + 1);
    return from + n;
}

/* Whether `shown` may stand for `byte`: messages show bytes outside of printable ASCII as '?' or a space. */
static bool is_shown_as(char byte, char shown)
{
    return shown == byte || ((shown == '?' || shown == ' ') && (byte < ' ' || byte > '~'));
}

/* Returns how many bytes at the start of `text` match the start of `secret`, which has n bytes. */
static size_t common(const char *text, const char *secret, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] != '\0' && is_shown_as(secret[i], text[i]))
        i++;
    return i;
}

static bool is_cut_at(const char *end)
{
    return *end == '\0' || strncmp(end, "...", 3) == 0;
}

static void redact_line(char *text, const char *line, size_t n)
{
    char *at = text;
    for (size_t from = 1; at == text && from + SHORTEST_SECRET <= n; from++)
        if (common(text, line + from, n - from) == n - from)
            at = cut(text, text + n - from);
    while (*at != '\0') {
        const size_t same = common(at, line, n);
        if (same == n || (same >= SHORTEST_SECRET && is_cut_at(at + same)))
            at = cut(at, at + same);
        else
            at++;
    }
}

void tess_redact(char *text, const char *secret)
{
    for (const char *line = secret; *line != '\0';) {
        const size_t n = strcspn(line, "\r\n");
        if (n >= SHORTEST_SECRET)
            redact_line(text, line, n);
        line += n + strspn(line + n, "\r\n");
    }
}

/* Returns the end of a URL's query. Punctuation at the end belongs to the sentence around the URL. */
static char *end_of_query(char *query)
{
    char *end = query + strcspn(query, " \t\r\n\"'`<>|\\");
    while (end > query && strchr(".,:;)", end[-1]) != NULL)
        end--;
    return end;
}

char *tess_redact_urls(char *text)
{
    for (char *at = text; (at = strstr(at, "://")) != NULL;) {
        at += 3;
        char *path = at + strcspn(at, " \t\r\n\"'`<>|\\/?#"), *sign = memrchr(at, '@', (size_t)(path - at));
        if (sign != NULL)
            at = cut(at, sign);
        char *query = at + strcspn(at, " \t\r\n\"'`<>|\\?");
        if (*query == '?')
            query = cut(query + 1, end_of_query(query + 1));
        at = query;
    }
    return text;
}
