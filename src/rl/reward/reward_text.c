/* Texts for graders: trimmed and compared by characters, cut to snippets, and made UTF-8. */
#include "rl/reward/reward_impl.h"

#include <string.h>

bool reward_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool reward_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

reward_text reward_trim(reward_text text)
{
    while (text.size > 0 && reward_is_space(text.at[text.size - 1]))
        text.size--;
    while (text.size > 0 && reward_is_space(text.at[0])) {
        text.at++;
        text.size--;
    }
    return text;
}

bool reward_same(reward_text a, reward_text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

size_t reward_find_last(reward_text text, const char *needle, size_t end)
{
    size_t n = strlen(needle);
    if (n > text.size)
        return SIZE_MAX;
    size_t at = end < text.size - n + 1 ? end : text.size - n + 1;
    while (at-- > 0)
        if (memcmp(text.at + at, needle, n) == 0)
            return at;
    return SIZE_MAX;
}

const char *reward_snippet(const char *text, size_t size, int most, char *out)
{
    size_t n = size < (size_t)most ? size : (size_t)most;
    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    strcpy(out + n, n < size ? "..." : "");
    return out;
}

json_t *reward_json_text(tess_mem *mem, const char *text, size_t size)
{
    tess_buffer clean = {.mem = mem};
    size_t begin = 0; /* start of the valid bytes that are not yet copied */
    bool room = true;
    for (size_t i = 0; i < size && room;) {
        uint32_t code_point;
        int n = tess_utf8_decode((const uint8_t *)text + i, size - i, &code_point);
        if (n == 0) {
            room = tess_buffer_append(&clean, text + begin, i - begin) == TESS_OK &&
                   tess_buffer_append(&clean, "\xef\xbf\xbd", 3) == TESS_OK;
            begin = i + 1;
        }
        i += n == 0 ? 1 : (size_t)n;
    }
    if (clean.size == 0 && begin == 0) {
        tess_buffer_free(&clean);
        return json_stringn(size > 0 ? text : "", size);
    }
    room = room && tess_buffer_append(&clean, text + begin, size - begin) == TESS_OK;
    json_t *string = room ? json_stringn(clean.data, clean.size) : NULL;
    tess_buffer_free(&clean);
    return string;
}
