#include "base/core/redact.h"

#include <string.h>

enum { SHORTEST_SECRET = 6, STARS = 3 };

/* Replaces the bytes [from, to) by at most STARS stars. Returns the end of these. */
static char *cut(char *from, char *to)
{
    const size_t n = to - from < STARS ? (size_t)(to - from) : STARS;
    memset(from, '*', n);
    memmove(from + n, to, strlen(to) + 1);
    return from + n;
}

void tess_redact(char *text, const char *secret)
{
    const size_t n = strlen(secret);
    if (n < SHORTEST_SECRET)
        return;
    for (char *at = text; (at = strstr(at, secret)) != NULL;)
        at = cut(at, at + n);
}

/* The end of a query. Punctuation at its end belongs to the sentence around the URL. */
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
