#include "base/text/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static tess_status reserve(tess_buffer *buffer, size_t more)
{
    size_t needed;
    TESS_CHECK(!__builtin_add_overflow(buffer->size, more + 1, &needed) && more < SIZE_MAX / 2, TESS_E_NOMEM,
               "a text of %zu + %zu bytes is too long", buffer->size, more);
    if (needed <= buffer->capacity)
        return TESS_OK;
    size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity;
    while (capacity < needed)
        capacity *= 2;
    TESS_TRY(tess_mem_grow(buffer->mem, TESS_POOL_MISC, capacity, "text", (void **)&buffer->data));
    buffer->capacity = capacity;
    return TESS_OK;
}

/* Returns how many of n more bytes fit. A buffer without a pool keeps its size. */
static size_t fit(const tess_buffer *buffer, size_t n)
{
    return buffer->mem != NULL || n < buffer->capacity - buffer->size ? n : buffer->capacity - buffer->size - 1;
}

size_t tess_text_add(char *text, size_t size, size_t at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + at, size - at, format, arguments);
    va_end(arguments);
    if (n < 0)
        return at;
    return (size_t)n < size - at ? at + (size_t)n : size - 1;
}

tess_status tess_buffer_append(tess_buffer *buffer, const void *data, size_t size)
{
    size = fit(buffer, size);
    TESS_TRY(reserve(buffer, size));
    if (size > 0)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
    return TESS_OK;
}

tess_status tess_buffer_printf(tess_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    TESS_CHECK(n >= 0, TESS_E_INTERNAL, "cannot format '%s'", format);
    const size_t size = fit(buffer, (size_t)n);
    TESS_TRY(reserve(buffer, size));
    va_start(args, format);
    vsnprintf(buffer->data + buffer->size, size + 1, format, args);
    va_end(args);
    buffer->size += size;
    return TESS_OK;
}

void tess_buffer_free(tess_buffer *buffer)
{
    tess_mem_free(buffer->mem, buffer->data);
    *buffer = (tess_buffer){.mem = buffer->mem};
}

bool tess_text_ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

bool tess_text_has(const char *text, size_t size, int where, const char *words)
{
    const bool caseless = where >= TESS_WORD_CASELESS;
    const int place = where % TESS_WORD_CASELESS;
    for (size_t n; *words != '\0'; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        if (n > size || (place == TESS_WORD_IS && n < size))
            continue;
        if (where == TESS_WORD_IN && memmem(text, size, words, n) != NULL)
            return true;
        size_t at = place == TESS_WORD_ENDS ? size - n : 0,
               end = where == TESS_WORD_IN + TESS_WORD_CASELESS ? size - n : at;
        for (; at <= end; at++)
            if (caseless ? tolower((unsigned char)text[at]) == words[0] && strncasecmp(text + at, words, n) == 0
                         : memcmp(text + at, words, n) == 0)
                return true;
    }
    return false;
}

enum { LONGEST = 63 };

int tess_text_distance(const char *a, const char *b)
{
    int n = (int)strnlen(a, LONGEST), m = (int)strnlen(b, LONGEST);
    int rows[3][LONGEST + 2]; /* rows i-2, i-1 and i of the table of distances, reused cyclically */
    for (int j = 0; j <= m; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int gap = above[j] < row[j - 1] ? above[j] + 1 : row[j - 1] + 1;
            int match = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = gap < match ? gap : match;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < row[j])
                row[j] = two_above[j - 2] + 1;
        }
    }
    return rows[n % 3][m];
}

int tess_utf8_decode(const uint8_t *s, size_t n, uint32_t *code_point)
{
    if (n == 0)
        return 0;
    if (s[0] < 0x80) {
        *code_point = s[0];
        return 1;
    }
    int length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || n < (size_t)length)
        return 0;
    uint32_t value = s[0] & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (s[i] & 0x3Fu);
    }
    bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
    if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    *code_point = value;
    return length;
}

int tess_utf8_encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

int tess_utf8_count(const char *text, size_t n)
{
    int count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static const char *format_scaled(double value, double base, const char *const *units, int n_units, char *text,
                                 size_t size)
{
    int unit = 0;
    while (value >= base && unit < n_units - 1) {
        value /= base;
        unit++;
    }
    const char *format = unit == 0 ? "%.0f%s" : value < 10 ? "%.2f%s" : value < 100 ? "%.1f%s" : "%.0f%s";
    snprintf(text, size, format, value, units[unit]);
    return text;
}

const char *tess_format_bytes(double bytes, char *text, size_t size)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
    return format_scaled(bytes, 1024, units, 6, text, size);
}

const char *tess_format_count(double count, char *text, size_t size)
{
    static const char *const units[] = {"", " k", " M", " B", " T"};
    return format_scaled(count, 1000, units, 5, text, size);
}

const char *tess_format_grouped(int64_t n, char *text, size_t size)
{
    char digits[24];
    const int length = snprintf(digits, sizeof(digits), "%lld", (long long)n), first = n < 0;
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < length; i++)
        at = tess_text_add(text, size, at, "%s%c", i > first && (length - i) % 3 == 0 ? "," : "", digits[i]);
    return text;
}
