#include "doctor/table/clean.h"

#include <string.h>

#include "doctor/table/table.h"

const char *tess_clean(const char *text, size_t size, char *out, size_t out_size)
{
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        uint32_t point = 0;
        int bytes = tess_utf8_decode((const uint8_t *)text + at, size - at, &point);
        bool control =
            bytes > 0 && (point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029);
        size_t taken = bytes > 0 ? (size_t)bytes : 1;
        if (n + taken + 4 > out_size) {
            memcpy(out + n, "...", 4);
            return out;
        }
        if (bytes == 0 || control) {
            out[n++] = point == '\t' ? ' ' : '?';
        } else {
            memcpy(out + n, text + at, taken);
            n += taken;
        }
        at += taken;
    }
    out[n] = '\0';
    return out;
}

const char *tess_clean_text(const char *text, size_t most, char *out, size_t out_size)
{
    return tess_clean(text, strnlen(text, most), out, out_size);
}

void tess_clean_in_place(char *text, size_t size)
{
    char raw[1024];
    size_t n = strnlen(text, size - 1 < sizeof(raw) ? size - 1 : sizeof(raw));
    memcpy(raw, text, n);
    tess_clean(raw, n, text, size);
}

json_t *tess_clean_json(const char *text)
{
    char clean[TESS_TABLE_MOST_TEXT + 4];
    return json_string(tess_clean(text, strlen(text), clean, sizeof(clean)));
}

void tess_clean_put(json_t *object, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0')
        json_object_set_new(object, key, tess_clean_json(text));
}
