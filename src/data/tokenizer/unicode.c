#include "data/tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "data/tokenizer/unicode_added.h"

bool tess_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool tess_is_word(uint32_t c)
{
    const char *added = tess_unicode_added_category(c);
    if (c == 0x200c || c == 0x200d)
        return true;
    if (added != NULL)
        return strchr("LM", added[0]) != NULL || strcmp(added, "Nd") == 0;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    case UTF8PROC_CATEGORY_SO: /* circled and squared letters have the property Alphabetic */
        return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
               (c >= 0x1f170 && c <= 0x1f189);
    default:
        return false;
    }
}

bool tess_is_number(uint32_t c)
{
    const char *added = tess_unicode_added_category(c);
    if (added != NULL)
        return added[0] == 'N';
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

/* Returns the length of the valid character at p, or minus the length of the maximal invalid subpart. */
static int scan(const unsigned char *p, size_t n)
{
    unsigned char c = p[0];
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return -1;
    int need = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    unsigned char low = 0x80, high = 0xbf;
    if (c == 0xe0)
        low = 0xa0;
    else if (c == 0xed)
        high = 0x9f;
    else if (c == 0xf0)
        low = 0x90;
    else if (c == 0xf4)
        high = 0x8f;
    for (int i = 1; i < need; i++) {
        if ((size_t)i >= n || p[i] < low || p[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return need;
}

size_t tess_utf8_valid(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;
    while (i < size) {
        uint64_t word;
        if (size - i >= 8 && (memcpy(&word, p + i, 8), (word & 0x8080808080808080ull) == 0)) {
            i += 8;
            continue;
        }
        int n = scan(p + i, size - i);
        if (n < 0)
            break;
        i += (size_t)n;
    }
    return i;
}

tess_status tess_utf8_repair(const char *text, size_t size, tess_buffer *out)
{
    size_t i = 0;
    while (i < size) {
        size_t n = tess_utf8_valid(text + i, size - i);
        TESS_TRY(tess_buffer_append(out, text + i, n));
        i += n;
        if (i < size) {
            TESS_TRY(tess_buffer_append(out, "\xef\xbf\xbd", 3));
            i += (size_t)-scan((const unsigned char *)text + i, size - i);
        }
    }
    return TESS_OK;
}

static bool stands_for_itself(uint32_t c)
{
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

/* The bytes that do not stand for themselves, in ascending order, are 0..32, 127..160 and 173. */
uint32_t tess_byte_to_char(uint8_t byte)
{
    if (stands_for_itself(byte))
        return byte;
    return 256 + (byte <= 32 ? byte : byte <= 160 ? byte - 127u + 33 : 67);
}

int tess_char_to_byte(uint32_t c)
{
    if (c < 256)
        return stands_for_itself(c) ? (int)c : -1;
    c -= 256;
    return c <= 32 ? (int)c : c <= 66 ? (int)(c - 33 + 127) : c == 67 ? 173 : -1;
}

tess_status tess_bytes_from_alphabet(const char *text, size_t size, tess_buffer *out, bool *all)
{
    size_t before = out->size;
    *all = true;
    for (size_t i = 0; i < size;) {
        uint32_t c = 0;
        int n = tess_utf8_decode((const uint8_t *)text + i, size - i, &c);
        int byte = n > 0 ? tess_char_to_byte(c) : -1;
        if (byte < 0) {
            out->size = before;
            *all = false;
            return TESS_OK;
        }
        char b = (char)byte;
        TESS_TRY(tess_buffer_append(out, &b, 1));
        i += (size_t)n;
    }
    return TESS_OK;
}
