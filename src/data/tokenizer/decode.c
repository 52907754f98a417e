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

static tess_status byte_level(const list *in, list *out)
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

static tess_status byte_fallback(const list *in, list *out)
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
    return end_run(&run, out);
}

static tess_status replace(const char *text, size_t size, const tess_buffer *from, const tess_buffer *to,
                           tess_buffer *out)
{
    for (size_t at = 0; at < size;) {
        const char *hit = from->size > 0 ? memmem(text + at, size - at, from->data, from->size) : NULL;
        size_t end = hit != NULL ? (size_t)(hit - text) : size;
        TESS_TRY(tess_buffer_append(out, text + at, end - at));
        if (hit != NULL)
            TESS_TRY(tess_buffer_append(out, to->data, to->size));
        at = end + (hit != NULL ? from->size : 0);
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

static tess_status each(const tess_decode_step *step, const list *in, list *out)
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
            TESS_TRY(replace(text, size, &step->from, drop ? &nothing : &step->to, &out->bytes));
        }
        TESS_TRY(end_string(out));
    }
    return TESS_OK;
}

static tess_status run_step(const tess_decode_step *step, const list *in, list *out)
{
    out->bytes.size = 0;
    out->n = 0;
    switch (step->kind) {
    case TESS_DECODE_BYTE_LEVEL:
        return byte_level(in, out);
    case TESS_DECODE_BYTE_FALLBACK:
        return byte_fallback(in, out);
    case TESS_DECODE_FUSE:
        return add_string(out, in->bytes.data, in->bytes.size);
    case TESS_DECODE_REPLACE:
    case TESS_DECODE_STRIP:
    case TESS_DECODE_METASPACE:
        break;
    }
    return each(step, in, out);
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

tess_status tess_decode(const tess_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, tess_buffer *text)
{
    TESS_AUTO(list_free) list first = {.bytes = {.mem = t->mem}}, second = first;
    list *last = &first, *next = &second;
    TESS_TRY(collect(t, ids, n, skip_special, last));
    for (int i = 0; i < t->decoder.n_steps; i++) {
        TESS_TRY(run_step(&t->decoder.steps[i], last, next));
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

tess_status tess_decode_settled(const tess_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                                tess_buffer *text)
{
    bool runs = false;
    for (int i = 0; i < t->decoder.n_steps; i++)
        runs = runs || t->decoder.steps[i].kind == TESS_DECODE_BYTE_FALLBACK;
    for (; runs && n > 0 && tess_tokenizer_has(t, ids[n - 1]); n--) {
        const tess_token *token = &t->tokens[ids[n - 1]];
        if (!token->special && fallback_byte(token->text, token->size) < 0)
            break;
    }
    size_t before = text->size;
    TESS_TRY(tess_decode(t, ids, n, skip_special, text));
    while (text->size >= before + 3 && memcmp(text->data + text->size - 3, "\xef\xbf\xbd", 3) == 0)
        text->size -= 3;
    return TESS_OK;
}
