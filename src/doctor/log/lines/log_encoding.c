/* Decodes logs: UTF-8, UTF-16, and the escape sequences of terminals. */
#include "doctor/log/log_impl.h"

#include <ctype.h>
#include <string.h>

#include "base/text/text.h"

log_encoding log_encoding_of(const char *text, size_t size)
{
    if (size >= 2 && memcmp(text, "\xff\xfe", 2) == 0)
        return LOG_UTF16_LITTLE;
    return size >= 2 && memcmp(text, "\xfe\xff", 2) == 0 ? LOG_UTF16_BIG : LOG_BYTES;
}

static uint32_t unit_at(log_encoding encoding, const char *text)
{
    const uint8_t *bytes = (const uint8_t *)text;
    return encoding == LOG_UTF16_LITTLE ? bytes[0] | (uint32_t)bytes[1] << 8 : (uint32_t)bytes[0] << 8 | bytes[1];
}

size_t log_utf16_convert(log_encoding encoding, const char *text, size_t size, bool at_end, char *out, size_t *written)
{
    enum { REPLACEMENT = 0xfffd, MARK = 0xfeff };
    size_t at = 0, n = 0;
    while (at + 1 < size) {
        uint32_t unit = unit_at(encoding, text + at), point = unit;
        size_t used = 2;
        if (unit >= 0xd800 && unit < 0xe000) {
            if (unit < 0xdc00 && at + 3 >= size && !at_end)
                break;
            uint32_t low = unit < 0xdc00 && at + 3 < size ? unit_at(encoding, text + at + 2) : 0;
            bool is_pair = low >= 0xdc00 && low < 0xe000;
            point = is_pair ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00) : REPLACEMENT;
            used = is_pair ? 4 : 2;
        }
        if (point != MARK)
            n += (size_t)tess_utf8_encode(point, (uint8_t *)out + n);
        at += used;
    }
    *written = n;
    return at_end ? size : at;
}

/* Returns the length of a colour code such as "[36;1m" at `at`; 0: there is none. */
static size_t colour_at(const char *text, size_t size, size_t at)
{
    size_t i = at + 1;
    while (i < size && i < at + 16 && (isdigit((unsigned char)text[i]) || text[i] == ';'))
        i++;
    return i > at + 1 && i < size && text[i] == 'm' ? i + 1 - at : 0;
}

/* Returns the length of the escape sequence at `at` (ECMA-48): "ESC [ parameters letter", "ESC ] text BEL", or ESC
 * and one more character. */
static size_t sequence_at(const char *text, size_t size, size_t at)
{
    size_t i = at + 2;
    if (at + 1 >= size)
        return 1;
    if (text[at + 1] == '[') {
        while (i < size && text[i] >= 0x20 && text[i] < 0x40)
            i++;
    } else if (text[at + 1] == ']') {
        while (i < size && text[i] != '\a' && text[i] != '\x1b')
            i++;
    } else {
        return 2;
    }
    return i < size ? i + 1 - at : size - at;
}

static size_t escape_at(const char *text, size_t size, size_t at)
{
    if (text[at] == '\x1b')
        return sequence_at(text, size, at);
    if (text[at] == '[')
        return colour_at(text, size, at);
    /* the form that cat -v prints */
    if (text[at] == '^' && at + 2 < size && text[at + 1] == '[' && text[at + 2] == '[') {
        size_t colour = colour_at(text, size, at + 2);
        return colour > 0 ? colour + 2 : 0;
    }
    return 0;
}

/* Returns where the next escape sequence begins, `size` if there is none, and its length. */
static size_t next_escape(const char *text, size_t size, size_t from, size_t *length)
{
    *length = 0;
    for (size_t at = from; at < size; at++) {
        const char *bracket = memchr(text + at, '[', size - at);
        size_t end = bracket != NULL ? (size_t)(bracket - text) : size;
        const char *escape = memchr(text + at, '\x1b', end - at);
        if (escape != NULL)
            at = (size_t)(escape - text);
        else
            at = end > at && end < size && text[end - 1] == '^' ? end - 1 : end;
        if (at < size && (*length = escape_at(text, size, at)) > 0)
            return at;
    }
    return size;
}

size_t log_strip_escapes(char *text, size_t size)
{
    size_t n = 0, length;
    for (size_t at = 0; at < size;) {
        size_t escape = next_escape(text, size, at, &length);
        if (n != at)
            memmove(text + n, text + at, escape - at);
        n += escape - at;
        at = escape + length;
    }
    return n;
}
