/* Converts ids to text by a chain of steps over a list of strings. Each step reads one of two lists and writes the
 * other. */
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

/* A list of strings in one buffer; string i ends at ends[i]. */
typedef struct list {
    tess_buffer bytes;
    size_t *ends;
    size_t n, capacity;
} list;

static tess_status end_string(list *l)
{
    TESS_TRY(
        tess_mem_reserve(l->bytes.mem, TESS_POOL_MISC, l->n + 1, sizeof(size_t), "decoder", &l->capacity, &l->ends));
    l->ends[l->n++] = l->bytes.size;
    return TESS_OK;
}

static tess_status add_string(list *l, const char *text, size_t size)
{
    TESS_TRY(tess_buffer_append(&l->bytes, text, size));
    return end_string(l);
}

static const char *string_at(const list *l, size_t i, size_t *size)
{
    size_t begin = i > 0 ? l->ends[i - 1] : 0;
    *size = l->ends[i] - begin;
    return *size > 0 ? l->bytes.data + begin : "";
}

static void list_free(list *l)
{
    tess_mem_free(l->bytes.mem, l->ends);
    tess_buffer_free(&l->bytes);
}

/* Writes one string. settled: leaves out a character at the end that may be incomplete. */
static tess_status byte_level(const list *in, bool settled, list *out)
{
    TESS_AUTO(tess_buffer_free) tess_buffer raw = {.mem = in->bytes.mem};
    for (size_t i = 0; i < in->n; i++) {
        size_t size;
        const char *text = string_at(in, i, &size);
        bool all;
        TESS_TRY(tess_bytes_from_alphabet(text, size, &raw, &all));
        if (!all)
            TESS_TRY(tess_buffer_append(&raw, text, size));
    }
    TESS_TRY(tess_utf8_repair(raw.data, raw.size, &out->bytes));
    while (settled && out->bytes.size >= 3 && memcmp(out->bytes.data + out->bytes.size - 3, "\xef\xbf\xbd", 3) == 0)
        out->bytes.size -= 3;
    return end_string(out);
}

/* Returns 10 for "<0x0A>"; -1: another text. */
static int fallback_byte(const char *text, size_t size)
{
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char hex[3] = {text[3], text[4], '\0'};
    char *end;
    long value = strspn(hex, "0123456789abcdefABCDEF") == 2 ? strtol(hex, &end, 16) : -1;
    return (int)value;
}

/* Ends a run of byte tokens: appends its text if it is UTF-8, otherwise U+FFFD for each token. */
static tess_status end_run(tess_buffer *run, list *out)
{
    if (run->size == 0)
        return TESS_OK;
    if (tess_utf8_valid(run->data, run->size) == run->size) {
        TESS_TRY(add_string(out, run->data, run->size));
    } else {
        for (size_t i = 0; i < run->size; i++)
            TESS_TRY(add_string(out, "\xef\xbf\xbd", 3));
    }
    run->size = 0;
    return TESS_OK;
}

/* settled: leaves out a run at the end, because it is decoded as a whole. */
static tess_status byte_fallback(const list *in, bool settled, list *out)
{
    TESS_AUTO(tess_buffer_free) tess_buffer run = {.mem = in->bytes.mem};
    for (size_t i = 0; i < in->n; i++) {
        size_t size;
        const char *text = string_at(in, i, &size);
        int byte = fallback_byte(text, size);
        if (byte >= 0) {
            char b = (char)byte;
            TESS_TRY(tess_buffer_append(&run, &b, 1));
            continue;
        }
        TESS_TRY(end_run(&run, out));
        TESS_TRY(add_string(out, text, size));
    }
    return settled ? TESS_OK : end_run(&run, out);
}

/* Returns the number of bytes at the end of the text that may be the beginning of `from`. */
static size_t begun(const char *text, size_t size, const tess_buffer *from)
{
    size_t n = from->size - 1 < size ? from->size - 1 : size;
    while (n > 0 && memcmp(text + size - n, from->data, n) != 0)
        n--;
    return n;
}

/* grows: more text will follow. A replaced text that may have begun at the end is left out. */
static tess_status replace(const char *text, size_t size, const tess_buffer *from, const tess_buffer *to, bool grows,
                           tess_buffer *out)
{
    if (from->size == 0)
        return tess_buffer_append(out, text, size);
    for (size_t at = 0; at < size;) {
        const char *hit = memmem(text + at, size - at, from->data, from->size);
        if (hit == NULL)
            return tess_buffer_append(out, text + at, size - at - (grows ? begun(text + at, size - at, from) : 0));
        TESS_TRY(tess_buffer_append(out, text + at, (size_t)(hit - text) - at));
        TESS_TRY(tess_buffer_append(out, to->data, to->size));
        at = (size_t)(hit - text) + from->size;
    }
    return TESS_OK;
}

static void strip(const tess_decode_step *step, const char **text, size_t *size)
{
    const tess_buffer *c = &step->from;
    for (int i = 0; i < step->start && *size >= c->size && memcmp(*text, c->data, c->size) == 0; i++) {
        *text += c->size;
        *size -= c->size;
    }
    for (int i = 0; i < step->stop && *size >= c->size && memcmp(*text + *size - c->size, c->data, c->size) == 0; i++)
        *size -= c->size;
}

/* grows: the strings are the beginning of a text. */
static tess_status each(const tess_decode_step *step, const list *in, bool grows, list *out)
{
    for (size_t i = 0; i < in->n; i++) {
        size_t size;
        const char *text = string_at(in, i, &size);
        if (step->kind == TESS_DECODE_STRIP) {
            strip(step, &text, &size);
            TESS_TRY(tess_buffer_append(&out->bytes, text, size));
        } else {
            const tess_buffer nothing = {0};
            bool drop = step->kind == TESS_DECODE_METASPACE && step->drop_first && i == 0;
            TESS_TRY(replace(text, size, &step->from, drop ? &nothing : &step->to, grows, &out->bytes));
        }
        TESS_TRY(end_string(out));
    }
    return TESS_OK;
}

/* fused: the list is one string, which later ids make longer. */
static tess_status run_step(const tess_decode_step *step, const list *in, bool settled, bool fused, list *out)
{
    out->bytes.size = 0;
    out->n = 0;
    switch (step->kind) {
    case TESS_DECODE_BYTE_LEVEL:
        return byte_level(in, settled, out);
    case TESS_DECODE_BYTE_FALLBACK:
        return byte_fallback(in, settled, out);
    case TESS_DECODE_FUSE:
        return add_string(out, in->bytes.data, in->bytes.size);
    case TESS_DECODE_REPLACE:
    case TESS_DECODE_STRIP:
    case TESS_DECODE_METASPACE:
        break;
    }
    return each(step, in, settled && fused, out);
}

static tess_status collect(const tess_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, list *out)
{
    for (size_t i = 0; i < n; i++) {
        const tess_token *token = tess_tokenizer_has(t, ids[i]) ? &t->tokens[ids[i]] : NULL;
        if (token == NULL)
            TESS_TRY(add_string(out, "\xef\xbf\xbd", 3));
        else if (!(skip_special && token->special))
            TESS_TRY(add_string(out, token->text, token->size));
    }
    return TESS_OK;
}

/* settled: leaves out what later ids may change. */
static tess_status decode(const tess_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, bool settled,
                          tess_buffer *text)
{
    TESS_AUTO(list_free) list first = {.bytes = {.mem = t->mem}}, second = first;
    list *last = &first, *next = &second;
    bool fused = false;
    TESS_TRY(collect(t, ids, n, skip_special, last));
    for (int i = 0; i < t->decoder.n_steps; i++) {
        const tess_decode_step *step = &t->decoder.steps[i];
        TESS_TRY(run_step(step, last, settled, fused, next));
        fused = fused || step->kind == TESS_DECODE_FUSE || step->kind == TESS_DECODE_BYTE_LEVEL;
        last = next;
        next = last == &first ? &second : &first;
    }
    for (size_t i = 0; i < last->n; i++) {
        size_t size;
        const char *string = string_at(last, i, &size);
        if (i > 0 && !t->decoder.present)
            TESS_TRY(tess_buffer_append(text, " ", 1));
        TESS_TRY(tess_buffer_append(text, string, size));
    }
    return tess_buffer_append(text, "", 0); /* an empty text must not be NULL, because callers read text->data */
}

tess_status tess_decode(const tess_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, tess_buffer *text)
{
    return decode(t, ids, n, skip_special, false, text);
}

tess_status tess_decode_settled(const tess_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                                tess_buffer *text)
{
    return decode(t, ids, n, skip_special, true, text);
}

size_t tess_decode_from(const tess_tokenizer *t, const int32_t *ids, size_t n, bool skip_special)
{
    bool runs = false;
    size_t begin = n;
    for (int i = 0; i < t->decoder.n_steps; i++)
        runs = runs || t->decoder.steps[i].kind == TESS_DECODE_BYTE_FALLBACK;
    for (size_t i = n; runs && i > 0 && tess_tokenizer_has(t, ids[i - 1]); i--) {
        const tess_token *token = &t->tokens[ids[i - 1]];
        if (fallback_byte(token->text, token->size) >= 0)
            begin = i - 1;
        else if (!skip_special || !token->special)
            break;
    }
    return begin > 0 ? begin - 1 : 0;
}

size_t tess_text_common(const tess_buffer *before, const tess_buffer *text)
{
    size_t n = 0;
    while (n < before->size && n < text->size && before->data[n] == text->data[n])
        n++;
    return tess_utf8_begin(text->data, text->size, n);
}
