#include "page/page_out.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "page/run_page.h"

void page_put(page_out *out, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (out->status == TESS_OK)
        out->status = tess_buffer_append(out->to, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* Returns the entity of a character that means something in HTML; NULL: it stands for itself. */
static const char *entity_of(uint32_t c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Whether a code point may stand in a document: no control character, no non-character. */
static bool is_shown(uint32_t c)
{
    return (c >= 0x20 || c == '\n' || c == '\t') && (c < 0x7f || c > 0x9f) && (c & 0xfffe) != 0xfffe &&
           !(c >= 0xfdd0 && c <= 0xfdef);
}

tess_status tess_page_put_text(const char *text, size_t n, tess_buffer *out)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t from = 0, at = 0;
    while (at < n) {
        uint32_t c = 0;
        const int bytes = tess_utf8_decode((const uint8_t *)text + at, n - at, &c);
        const char *instead = bytes == 0 || !is_shown(c) ? replacement : entity_of(c);
        if (instead != NULL) {
            TESS_TRY(tess_buffer_append(out, text + from, at - from));
            TESS_TRY(tess_buffer_append(out, instead, strlen(instead)));
        }
        at += bytes == 0 ? 1 : (size_t)bytes;
        from = instead != NULL ? at : from;
    }
    return tess_buffer_append(out, text + from, at - from);
}

void page_put_text(page_out *out, const char *text)
{
    if (out->status == TESS_OK)
        out->status = tess_page_put_text(text, strlen(text), out->to);
}

void page_put_some(page_out *out, const char *text, int n)
{
    const size_t all = strlen(text);
    size_t at = 0;
    for (int i = 0; i < n && at < all; i++) {
        uint32_t c;
        const int bytes = tess_utf8_decode((const uint8_t *)text + at, all - at, &c);
        at += bytes == 0 ? 1 : (size_t)bytes;
    }
    if (out->status == TESS_OK)
        out->status = tess_page_put_text(text, at, out->to);
    if (at < all)
        page_put(out, "...");
}

void page_put_at(page_out *out, double value)
{
    char text[40];
    int n = snprintf(text, sizeof(text), "%.2f", isfinite(value) ? value : 0);
    while (n > 0 && text[n - 1] == '0')
        n--;
    if (n > 0 && text[n - 1] == '.')
        n--;
    text[n] = '\0';
    page_put(out, "%s", strcmp(text, "-0") == 0 ? "0" : text);
}

const char *page_number(double value, char *text, size_t size)
{
    if (!isfinite(value))
        snprintf(text, size, "%s", isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf");
    else if (fabs(value) >= 1e5 && fabs(value) < 1e15)
        tess_format_count(value, text, size);
    else
        snprintf(text, size, "%.5g", value);
    return text;
}

void page_put_row(page_out *out, const char *name, const char *value)
{
    page_put(out, "<tr><th scope=\"row\">");
    page_put_text(out, name);
    page_put(out, "</th><td>");
    page_put_text(out, value);
    page_put(out, "</td></tr>\n");
}
