/* NFC and the other normal forms, with utf8proc's tables.
 *
 * utf8proc's own driver sorts marks by insertion, which is quadratic in a run of marks. This one sorts a run by
 * counting, so any text costs only linear time. */
#include <string.h>
#include <utf8proc.h>

#include "base/mem/make_room.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

/* Characters below the limit are already normal, but the last one before others may compose with what follows it. */
size_t tess_normal_form_skip(tess_norm_kind kind, const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    const unsigned char first = kind == TESS_NORM_NFC ? 0xcc : 0x80; /* U+0300 is cc 80 */
    size_t i = 0, last = 0;
    while (i < size && p[i] < first) {
        uint64_t word;
        if (size - i >= 8 && (memcpy(&word, p + i, 8), (word & 0x8080808080808080ull) == 0)) {
            i += 8;
            last = i - 1;
            continue;
        }
        last = i;
        i += (size_t)tess_utf8_length((char)p[i]);
    }
    return i >= size ? size : last;
}

static tess_status decompose(tess_norm_kind kind, tess_norm_scratch *scratch, const char *text, size_t size, size_t *n)
{
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (kind == TESS_NORM_NFKC || kind == TESS_NORM_NFKD)
        options |= UTF8PROC_COMPAT;
    *n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t c = 0;
        i += (size_t)tess_utf8_decode((const uint8_t *)text + i, size - i, &c);
        for (;;) {
            TESS_TRY(tess_mem_reserve(scratch->mem, TESS_POOL_MISC, *n + 32, sizeof(int32_t), "normalizer",
                                      &scratch->points_capacity, &scratch->points));
            utf8proc_ssize_t room = (utf8proc_ssize_t)(scratch->points_capacity - *n);
            utf8proc_ssize_t got =
                utf8proc_decompose_char((utf8proc_int32_t)c, scratch->points + *n, room, options, NULL);
            TESS_CHECK(got >= 0, TESS_E_INTERNAL, "normalizer: U+%04X: %s", (unsigned)c, utf8proc_errmsg(got));
            if (got <= room) {
                *n += (size_t)got;
                break;
            }
            TESS_TRY(tess_mem_reserve(scratch->mem, TESS_POOL_MISC, *n + (size_t)got, sizeof(int32_t), "normalizer",
                                      &scratch->points_capacity, &scratch->points));
        }
    }
    return TESS_OK;
}

static int combining_class(int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* Sorts points[0..n) by combining class, stably. Uses points[n..2n) as scratch memory. */
static void order_run(int32_t *points, size_t n, int32_t *work)
{
    size_t begin[257] = {0};
    for (size_t i = 0; i < n; i++)
        begin[combining_class(points[i]) + 1]++;
    for (int k = 0; k < 256; k++)
        begin[k + 1] += begin[k];
    for (size_t i = 0; i < n; i++)
        work[begin[combining_class(points[i])]++] = points[i];
    memcpy(points, work, n * sizeof(*points));
}

static tess_status order_marks(tess_norm_scratch *scratch, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (scratch->points[i] < 0x300 || combining_class(scratch->points[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        while (end < n && combining_class(scratch->points[end]) != 0)
            end++;
        if (end - i > 1) {
            TESS_TRY(tess_mem_reserve(scratch->mem, TESS_POOL_MISC, n + end - i, sizeof(int32_t), "normalizer",
                                      &scratch->points_capacity, &scratch->points));
            order_run(scratch->points + i, end - i, scratch->points + n);
        }
        i = end;
    }
    return TESS_OK;
}

/* Converts one stretch, which starts at an inert character (or at the start of the text) and ends before the next
 * one. */
static tess_status form_stretch(tess_norm_kind kind, tess_norm_scratch *scratch, const char *text, size_t size,
                                tess_buffer *out)
{
    size_t n = 0;
    TESS_TRY(decompose(kind, scratch, text, size, &n));
    TESS_TRY(order_marks(scratch, n));
    if (kind == TESS_NORM_NFC || kind == TESS_NORM_NFKC) {
        utf8proc_ssize_t composed =
            utf8proc_normalize_utf32(scratch->points, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        TESS_CHECK(composed >= 0, TESS_E_INTERNAL, "normalizer: %s", utf8proc_errmsg(composed));
        n = (size_t)composed;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[4];
        int length = tess_utf8_encode((uint32_t)scratch->points[i], bytes);
        TESS_TRY(tess_buffer_append(out, bytes, (size_t)length));
    }
    return TESS_OK;
}

tess_status tess_normal_form(tess_norm_kind kind, tess_norm_scratch *scratch, const char *text, size_t size,
                             tess_buffer *out)
{
    /* All characters below this limit are inert: the normal form does not change them, and they never compose with the
     * character before them. */
    const uint32_t inert_below = kind == TESS_NORM_NFC ? 0x300 : 0x80;
    for (size_t i = 0; i < size;) {
        size_t skip = tess_normal_form_skip(kind, text + i, size - i);
        TESS_TRY(tess_buffer_append(out, text + i, skip));
        i += skip;
        size_t end = i;
        while (end < size) {
            uint32_t c = 0;
            int length = tess_utf8_decode((const uint8_t *)text + end, size - end, &c);
            if (c < inert_below && end > i)
                break;
            end += (size_t)length;
        }
        TESS_TRY(form_stretch(kind, scratch, text + i, end - i, out));
        i = end;
    }
    return TESS_OK;
}
