/* Parses numbers from text, like Python's int() and float(). */
#include <stdlib.h>
#include <string.h>

#include "data/template/template_impl.h"

enum { NUMBER_SIZE = 400 }; /* longer texts are not numbers */

/* Returns the value of a digit of any script. In each script ten consecutive characters are the digits. */
static int digit_value(uint32_t c)
{
    int value = 0;
    if (c < 128)
        return (int)c - '0';
    while (template_is_digit(c - 1) && c - 1 >= 128) {
        c--;
        value++;
    }
    return value % 10;
}

/* Copies a text without the spaces around it, and with digits of all scripts converted to 0 to 9. False: the text is
 * too long, or has other characters beyond ASCII. */
static bool copy_plain(template_text text, char plain[NUMBER_SIZE])
{
    size_t n = 0;
    uint32_t c;
    text = template_strip(text, (template_text){0}, SIDE_BOTH);
    for (size_t at = 0; at < text.size; n++) {
        at += (size_t)template_decode(text, at, &c);
        bool digit = template_is_digit(c);
        if (n + 1 >= NUMBER_SIZE || c == 0 || (c >= 128 && !digit))
            return false;
        plain[n] = (char)(digit ? '0' + digit_value(c) : (int)c);
    }
    plain[n] = '\0';
    return n > 0 && !template_is_space((unsigned char)plain[0]);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
}

/* Returns the base that a prefix such as 0x states; 0: there is none. */
static int stated_base(const char *text)
{
    if (text[0] != '0')
        return 0;
    return (text[1] | 32) == 'x' ? 16 : (text[1] | 32) == 'o' ? 8 : (text[1] | 32) == 'b' ? 2 : 0;
}

bool template_read_int(template_text text, int64_t base, int64_t *out, bool *too_big)
{
    char plain[NUMBER_SIZE];
    *too_big = false;
    if (!copy_plain(text, plain))
        return false;
    const char *at = plain;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    if (*at == '_') /* an underscore must be between digits */
        return false;
    int stated = stated_base(at);
    if (stated != 0 && (base == 0 || base == stated)) {
        base = stated;
        at += 2;
        at += *at == '_';
    } else if (base == 0) {
        if (at[0] == '0' && strspn(at, "0_") < strlen(at)) /* 010 is not a number here, nor in Python's source */
            return false;
        base = 10;
    }
    if (base < 2 || base > 36 || *at == '\0')
        return false;
    *out = 0; /* the range below 0 has one number more */
    for (; *at != '\0'; at++) {
        at += *at == '_' && digit_of(at[-1]) < base;
        if (digit_of(*at) >= base)
            return false;
        *too_big = *too_big || __builtin_mul_overflow(*out, base, out) ||
                   __builtin_sub_overflow(*out, (int64_t)digit_of(*at), out);
    }
    if (!negative)
        *too_big = *too_big || __builtin_sub_overflow((int64_t)0, *out, out);
    return true;
}

bool template_read_real(template_text text, double *out)
{
    char plain[NUMBER_SIZE], digits[NUMBER_SIZE], *end;
    size_t n = 0;
    if (!copy_plain(text, plain))
        return false;
    for (size_t i = 0; plain[i] != '\0'; i++) {
        bool between = i > 0 && plain[i] == '_' && digit_of(plain[i - 1]) < 10 && digit_of(plain[i + 1]) < 10;
        if (!between)
            digits[n++] = plain[i];
    }
    digits[n] = '\0';
    *out = strtod(digits, &end);
    return *end == '\0' && strpbrk(digits, "xXpP(_") == NULL;
}
