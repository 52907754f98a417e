/* Strings with the meaning that Python gives them: characters, spaces, lines, case. */
#include <string.h>
#include <utf8proc.h>

#include "data/template/template_impl.h"

bool template_text_is(template_text text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

int template_decode(template_text text, size_t at, uint32_t *code_point)
{
    int n = tess_utf8_decode((const uint8_t *)text.data + at, text.size - at, code_point);
    if (n > 0)
        return n;
    *code_point = 0xfffd;
    return 1;
}

bool template_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_start(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

size_t template_characters(template_text text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++)
        n += is_start(text.data[i]);
    return n;
}

size_t template_offset(template_text text, int64_t n)
{
    size_t at = 0;
    for (; at < text.size; at++)
        if (is_start(text.data[at]) && n-- <= 0)
            break;
    return at;
}

/* ---- Strip and find ---- */
static bool in_set(uint32_t c, template_text set)
{
    uint32_t other;
    if (set.data == NULL)
        return template_is_space(c);
    for (size_t at = 0; at < set.size;) {
        at += (size_t)template_decode(set, at, &other);
        if (other == c)
            return true;
    }
    return false;
}

template_text template_strip(template_text text, template_text set, template_side side)
{
    uint32_t c;
    while ((side & SIDE_LEFT) != 0 && text.size > 0) {
        size_t n = (size_t)template_decode(text, 0, &c);
        if (!in_set(c, set))
            break;
        text.data += n;
        text.size -= n;
    }
    while ((side & SIDE_RIGHT) != 0 && text.size > 0) {
        size_t last = text.size - 1;
        while (last > 0 && !is_start(text.data[last]))
            last--;
        template_decode(text, last, &c);
        if (!in_set(c, set))
            break;
        text.size = last;
    }
    return text;
}

size_t template_find_text(template_text text, template_text needle, size_t from)
{
    if (from > text.size || needle.size > text.size - from)
        return SIZE_MAX;
    if (needle.size == 0)
        return from;
    const char *at = memmem(text.data + from, text.size - from, needle.data, needle.size);
    return at != NULL ? (size_t)(at - text.data) : SIZE_MAX;
}

size_t template_find_last(template_text text, template_text needle, size_t end)
{
    if (needle.size > end)
        return SIZE_MAX;
    for (size_t at = end - needle.size + 1; at-- > 0;)
        if (memcmp(text.data + at, needle.data, needle.size) == 0)
            return at;
    return SIZE_MAX;
}

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool template_next_line(template_text text, size_t *at, template_text *line, size_t *with_end)
{
    uint32_t c;
    size_t begin = *at;
    if (begin >= text.size)
        return false;
    for (size_t i = begin; i < text.size;) {
        size_t n = (size_t)template_decode(text, i, &c);
        if (ends_line(c)) {
            *line = (template_text){text.data + begin, i - begin};
            i += n;
            *at = i + (c == '\r' && i < text.size && text.data[i] == '\n');
            *with_end = *at - begin;
            return true;
        }
        i += n;
    }
    *line = (template_text){text.data + begin, text.size - begin};
    *with_end = line->size;
    *at = text.size;
    return true;
}

/* ---- Case ---- */
bool template_is_upper(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LU;
}

bool template_is_lower(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_LL;
}

bool template_is_case(template_text text, bool lower)
{
    uint32_t code;
    bool some = false, other = false;
    for (size_t at = 0; at < text.size;) {
        at += (size_t)template_decode(text, at, &code);
        some = some || (lower ? template_is_lower(code) : template_is_upper(code));
        other = other || (lower ? template_is_upper(code) : template_is_lower(code));
    }
    return some && !other;
}

bool template_is_letter(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool template_is_digit(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_ND;
}
