#include "rl/reward/reward_headers.h"

#include <stdio.h>
#include <string.h>

#include "base/core/redact.h"
#include "rl/reward/reward_impl.h"

/* RFC 9110: a name is a token. */
static bool is_token(char c)
{
    return c > ' ' && c <= '~' && strchr("\"(),/:;<=>?@[\\]{}", c) == NULL;
}

static bool is_header(reward_text line)
{
    size_t n = 0;
    while (n < line.size && is_token(line.at[n]))
        n++;
    if (n == 0 || n == line.size || line.at[n] != ':' ||
        reward_trim((reward_text){line.at + n + 1, line.size - n - 1}).size == 0)
        return false;
    for (size_t i = n; i < line.size; i++)
        if ((line.at[i] < ' ' && line.at[i] != '\t') || line.at[i] > '~')
            return false;
    return true;
}

tess_status reward_headers_add(reward_headers *headers, const char *text, size_t size, const char *where)
{
    TESS_CHECK(size <= REWARD_HEADER_BYTES, TESS_E_INVALID, "%s: headers of more than %d bytes", where,
               REWARD_HEADER_BYTES);
    int number = 1;
    for (size_t at = 0; at < size; number++) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end != NULL ? (size_t)(end - text) - at : size - at;
        const reward_text line = reward_trim((reward_text){text + at, n});
        at += n + 1;
        if (line.size == 0 || line.at[0] == '#')
            continue;
        TESS_CHECK(is_header(line), TESS_E_INVALID, "%s: line %d is no header: expected Name: value, in ASCII", where,
                   number);
        TESS_CHECK(headers->n < REWARD_MOST_HEADERS, TESS_E_INVALID, "%s: more than %d headers", where,
                   REWARD_MOST_HEADERS);
        TESS_TRY(tess_buffer_append(&headers->lines, line.at, line.size));
        TESS_TRY(tess_buffer_append(&headers->lines, "", 1));
        headers->n++;
    }
    return TESS_OK;
}

const char *reward_headers_next(const reward_headers *headers, const char *line)
{
    const char *next = line == NULL ? headers->lines.data : line + strlen(line) + 1;
    return headers->n > 0 && next < headers->lines.data + headers->lines.size ? next : NULL;
}

/* Redacts a header's value, and also its last word by itself: the KEY of "Bearer KEY". */
static void redact_value(char *message, const char *value)
{
    value += strspn(value, " \t");
    tess_redact(message, value);
    const char *last = strrchr(value, ' ');
    if (last != NULL)
        tess_redact(message, last + 1);
}

/* Redacts each part of the URL that tess_redact_urls removes, because a server may repeat a part by itself. */
static void redact_url_parts(char *message, const char *url)
{
    char part[TESS_TEXT_SIZE];
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    const size_t n = strcspn(host, "/?#");
    const char *sign = memrchr(host, '@', n), *query = strchr(host, '?');
    if (sign != NULL) {
        snprintf(part, sizeof(part), "%.*s", (int)(sign - host), host);
        tess_redact(message, part);
        const char *colon = strchr(part, ':');
        tess_redact(message, colon != NULL ? colon + 1 : "");
    }
    for (const char *at = query; at != NULL; at = strchr(at, '&')) {
        at++;
        const size_t name = strcspn(at, "=&");
        const char *value = at[name] == '=' ? at + name + 1 : at;
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(value, "&"), value);
        tess_redact(message, part);
    }
}

void reward_headers_redact(const reward_headers *headers, const char *url, char *message)
{
    for (const char *line = NULL; (line = reward_headers_next(headers, line)) != NULL;)
        redact_value(message, strchr(line, ':') + 1);
    redact_url_parts(message, url);
}
