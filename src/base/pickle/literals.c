/* Parses numbers and texts that a pickle spells out in characters, as its older protocols do. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/pickle/pickle_impl.h"
#include "base/text/text.h"

/* Bounds the conversion of decimals, which takes quadratic time, to a few hundred operations per byte. */
enum { MAX_DIGITS = 512, BIG_BYTES = 216, FLOAT_CHARACTERS = 64 };

tess_status pickle_read_bytes_int(tess_pickle *pickle, const char *bytes, size_t n, tess_pickle_value **value)
{
    const uint8_t *data = (const uint8_t *)bytes;
    uint8_t sign = n > 0 && data[n - 1] >= 0x80 ? 0xff : 0;
    while (n > 1 && data[n - 1] == sign && (data[n - 2] >= 0x80) == (sign != 0))
        n--;
    if (n > 8)
        return pickle_make_string(pickle, TESS_PICKLE_BIG, data, n, value);
    uint64_t bits = sign != 0 ? UINT64_MAX : 0;
    for (size_t i = n; i-- > 0;)
        bits = bits << 8 | data[i];
    return pickle_make_int(pickle, (int64_t)bits, value);
}

static tess_status read_big(tess_pickle *pickle, const char *line, size_t n, bool negative, tess_pickle_value **value)
{
    uint8_t bytes[BIG_BYTES] = {0};
    for (size_t i = 0; i < n; i++) { /* bytes = bytes * 10 + digit */
        unsigned carry = (unsigned)(line[i] - '0');
        for (int k = 0; k < BIG_BYTES; k++) {
            carry += bytes[k] * 10u;
            bytes[k] = (uint8_t)carry;
            carry >>= 8;
        }
    }
    unsigned carry = 1;
    for (int k = 0; negative && k < BIG_BYTES; k++) { /* two's complement */
        carry += (uint8_t)~bytes[k];
        bytes[k] = (uint8_t)carry;
        carry >>= 8;
    }
    return pickle_read_bytes_int(pickle, (const char *)bytes, sizeof(bytes), value);
}

tess_status pickle_read_int(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value)
{
    if (n > 0 && line[n - 1] == 'L')
        n--;
    bool negative = n > 0 && line[0] == '-';
    line += negative;
    n -= negative;
    TESS_CHECK(n >= 1 && n <= MAX_DIGITS, TESS_E_FORMAT, "an integer of %zu digits: 1 to %d are read", n, MAX_DIGITS);
    for (size_t i = 0; i < n; i++)
        TESS_CHECK(isdigit((unsigned char)line[i]), TESS_E_FORMAT, "'%.*s' is not an integer", (int)n, line);
    if (n > 18)
        return read_big(pickle, line, n, negative, value);
    int64_t integer = 0;
    for (size_t i = 0; i < n; i++)
        integer = integer * 10 + (line[i] - '0');
    return pickle_make_int(pickle, negative ? -integer : integer, value);
}

tess_status pickle_read_float(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value)
{
    char text[FLOAT_CHARACTERS + 1];
    char *end;
    TESS_CHECK(n >= 1 && n <= FLOAT_CHARACTERS, TESS_E_FORMAT, "a number of %zu characters", n);
    memcpy(text, line, n);
    text[n] = '\0';
    double real = strtod(text, &end);
    TESS_CHECK(end == text + n, TESS_E_FORMAT, "'%s' is no number", text);
    TESS_TRY(pickle_make(pickle, TESS_PICKLE_FLOAT, value));
    (*value)->real = real;
    return TESS_OK;
}

/* Reads `digits` hexadecimal digits at s[0..n); -1: they are not there. */
static int64_t read_hex(const char *s, size_t n, size_t digits)
{
    int64_t value = 0;
    if (n < digits)
        return -1;
    for (size_t i = 0; i < digits; i++) {
        if (!isxdigit((unsigned char)s[i]))
            return -1;
        value = value << 4 | (isdigit((unsigned char)s[i]) ? s[i] - '0' : (s[i] | 0x20) - 'a' + 10);
    }
    return value;
}

/* Returns the byte that the escape after a backslash stands for; *used: number of its characters. -1: not an escape. */
static int64_t read_escape(const char *s, size_t n, size_t *used)
{
    static const char letters[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
    *used = 1;
    if (n == 0)
        return -1;
    const char *letter = s[0] != '\0' ? strchr(letters, s[0]) : NULL;
    if (letter != NULL)
        return bytes[letter - letters];
    if (s[0] == 'x') {
        *used = 3;
        return read_hex(s + 1, n - 1, 2);
    }
    int64_t value = -1;
    for (*used = 0; *used < n && *used < 3 && s[*used] >= '0' && s[*used] <= '7'; ++*used)
        value = (value < 0 ? 0 : value << 3) | (s[*used] - '0');
    return value > 255 ? -1 : value;
}

tess_status pickle_read_quoted(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value)
{
    void *memory;
    TESS_CHECK(n >= 2 && (line[0] == '\'' || line[0] == '"') && line[n - 1] == line[0], TESS_E_FORMAT,
               "a string without quotes");
    TESS_TRY(pickle_alloc(pickle, n, &memory));
    char *out = memory;
    size_t n_out = 0;
    for (size_t i = 1; i < n - 1;) {
        if (line[i] != '\\') {
            out[n_out++] = line[i++];
            continue;
        }
        size_t used;
        int64_t byte = read_escape(line + i + 1, n - 2 - i, &used);
        TESS_CHECK(byte >= 0, TESS_E_FORMAT, "an invalid escape at character %zu", i);
        out[n_out++] = (char)byte;
        i += 1 + used;
    }
    return pickle_make_text(pickle, out, n_out, value);
}

/* Decodes raw-unicode-escape: \uXXXX, \UXXXXXXXX, or a byte of Latin-1. */
tess_status pickle_read_escaped(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value)
{
    void *memory;
    /* A Latin-1 byte becomes at most 2 bytes; an escape becomes fewer bytes than it has */
    TESS_TRY(pickle_alloc(pickle, 2 * n + 4, &memory));
    uint8_t *out = memory;
    size_t n_out = 0, used;
    for (size_t i = 0; i < n; i += used) {
        const char *s = line + i;
        int64_t code_point = (uint8_t)s[0];
        used = 1;
        if (s[0] == '\\' && n - i >= 2 && (s[1] == 'u' || s[1] == 'U')) {
            size_t digits = s[1] == 'u' ? 4 : 8;
            used = 2 + digits;
            code_point = read_hex(s + 2, n - i - 2, digits);
        }
        bool valid = code_point >= 0 && code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff);
        TESS_CHECK(valid, TESS_E_FORMAT, "character %zu is not a code point", i);
        n_out += (size_t)tess_utf8_encode((uint32_t)code_point, out + n_out);
    }
    return pickle_make_text(pickle, memory, n_out, value);
}
