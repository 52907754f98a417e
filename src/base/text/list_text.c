/* Reads and writes the items of a list that is written as one text. */
#include "base/text/list_text.h"

#include <stdio.h>
#include <string.h>

static bool is_escape(const char *c)
{
    return c[0] == '\\' && (c[1] == '"' || c[1] == '\\');
}

/* Reads a quoted item that begins at *at, and moves *at after the closing quote. *length is the length of the whole
 * item; `item` receives as much of it as fits. */
static tess_status read_quoted(const char **at, const char *end, char *item, size_t size, size_t *length)
{
    const char *c = *at + 1, quote = **at;
    for (; c < end && *c != quote; c++) {
        if (quote == '"' && c + 1 < end && is_escape(c))
            c++;
        if (*length < size)
            item[*length] = *c;
        ++*length;
    }
    TESS_CHECK(c < end, TESS_E_INVALID, "the quote before %.40s is not closed; an item that begins with %c is '%s'",
               *at + 1, quote, quote == '"' ? "\"\\\"...\"" : "\"'...\"");
    *at = c + 1 + strspn(c + 1, " ");
    TESS_CHECK(*at >= end || **at == ',', TESS_E_INVALID, "'%.40s' follows a closing quote; a comma must", *at);
    return TESS_OK;
}

tess_status tess_list_read(const char **at, const char *end, char *item, size_t size)
{
    const char *c = *at + strspn(*at, " ");
    size_t n = 0;
    if (c < end && (*c == '"' || *c == '\'')) {
        TESS_TRY(read_quoted(&c, end, item, size, &n));
    } else if (c < end) {
        const char *comma = memchr(c, ',', (size_t)(end - c)), *last = comma != NULL ? comma : end;
        for (n = (size_t)(last - c); n > 0 && c[n - 1] == ' ';)
            n--;
        memcpy(item, c, n < size ? n : size);
        c = last;
    }
    TESS_CHECK(n < size, TESS_E_INVALID, "a text of %zu characters; at most %zu fit", n, size - 1);
    item[n] = '\0';
    *at = c < end ? c + 1 : end;
    return TESS_OK;
}

const char *tess_list_quote(const char *item, char quoted[TESS_LIST_MAX_QUOTED])
{
    size_t n = strlen(item), at = 0;
    if (n == 0 || (strpbrk(item, ",\"'[]") == NULL && item[0] != ' ' && item[n - 1] != ' ')) {
        snprintf(quoted, TESS_LIST_MAX_QUOTED, "%s", item);
        return quoted;
    }
    quoted[at++] = '"';
    for (; *item != '\0'; item++) {
        if (*item == '"' || *item == '\\')
            quoted[at++] = '\\';
        quoted[at++] = *item;
    }
    quoted[at++] = '"';
    quoted[at] = '\0';
    return quoted;
}
