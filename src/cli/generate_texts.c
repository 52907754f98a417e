#include "cli/generate_texts.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "data/files/text_kind.h"
#include "data/tokenizer/stop_texts.h"
#include "data/tokenizer/unicode.h"

enum { FILE_LIMIT = 1 << 30, MOST_PROMPTS = 1 << 20 };

void generate_texts_free(generate_texts *t)
{
    for (int64_t i = 0; i < t->n_prompts; i++)
        tess_ids_free(&t->prompts[i]);
    for (int64_t i = 0; t->texts != NULL && i < t->n_prompts * t->n_each; i++) {
        tess_ids_free(&t->texts[i].ids);
        tess_buffer_free(&t->texts[i].logprobs);
    }
    tess_mem_free(t->mem, t->prompts);
    tess_mem_free(t->mem, t->texts);
}

/* ---- Prompts ---- */
tess_status generate_texts_add(generate_texts *t, tess_encoder *encoder, const tess_prefix *begin, bool add_special,
                               const char *text, size_t size)
{
    TESS_CHECK(t->n_prompts < MOST_PROMPTS, TESS_E_INVALID, "more than %d prompts", MOST_PROMPTS);
    if (t->n_prompts == t->room) {
        int64_t room = t->room > 0 ? 2 * t->room : 64;
        TESS_TRY(
            tess_mem_grow(t->mem, TESS_POOL_MISC, (size_t)room * sizeof(*t->prompts), "prompts", (void **)&t->prompts));
        t->room = room;
    }
    int64_t i = t->n_prompts++;
    tess_ids *ids = &t->prompts[i];
    *ids = (tess_ids){.mem = t->mem};
    for (int k = 0; k < begin->n; k++)
        TESS_TRY(tess_ids_append(ids, begin->id[k]));
    TESS_TRY(tess_encode(encoder, text, size, add_special, ids));
    TESS_CHECK(ids->size > 0, TESS_E_INVALID, "prompt %lld is empty: a model continues text", (long long)i);
    return TESS_OK;
}

/* Reads a prompt from a line of JSON. */
static tess_status add_object(generate_texts *t, tess_encoder *encoder, const tess_prefix *begin, bool add_special,
                              const char *what, const char *line, size_t size)
{
    json_auto_t *object = NULL;
    const char *prompt = NULL;
    TESS_TRY(tess_json_parse_record(line, size, what, &object));
    TESS_TRY(tess_json_get_string(object, "prompt", what, &prompt));
    if (prompt == NULL)
        return TESS_FAIL(TESS_E_FORMAT, "%s: no \"prompt\"; each line is an object that has one", what);
    return generate_texts_add(t, encoder, begin, add_special, prompt,
                              json_string_length(json_object_get(object, "prompt")));
}

tess_status generate_texts_load(generate_texts *t, tess_encoder *encoder, const tess_prefix *begin, bool add_special,
                                const char *path)
{
    char *text, what[512];
    size_t size;
    tess_text_kind kind = TESS_TEXT_PLAIN;
    if (tess_text_has_json_name(path))
        TESS_TRY_CTX(tess_text_kind_at(path, false, &kind), "--prompts");
    TESS_TRY_CTX(tess_os_read(t->mem, path, FILE_LIMIT, &text, &size), "--prompts");
    tess_records records = tess_records_of(kind, text, size);
    tess_status status = TESS_OK;
    long long number = 0;
    for (bool there = true; there && status == TESS_OK;) {
        status = tess_records_next(&records, &there);
        if (status == TESS_OK && !there)
            status = tess_records_end(&records);
        const char *prompt = text + records.begin;
        snprintf(what, sizeof(what), "%s, %s %lld", path, kind == TESS_TEXT_ARRAY ? "element" : "line", ++number);
        if (status != TESS_OK)
            tess_fail_context(status, "%s", what);
        else if (there && records.length > 0 && kind != TESS_TEXT_PLAIN)
            status = add_object(t, encoder, begin, add_special, what, prompt, records.length);
        else if (there && records.length > 0)
            status = generate_texts_add(t, encoder, begin, add_special, prompt, records.length);
    }
    tess_mem_free(t->mem, text);
    TESS_TRY(status);
    TESS_CHECK(t->n_prompts > 0, TESS_E_INVALID, "%s holds no prompt: one a line", path);
    return TESS_OK;
}

/* ---- Printing ---- */
static bool is_single(const generate_texts *t)
{
    return t->n_prompts * t->n_each == 1 && t->format == GENERATE_TEXT;
}

/* Finds the text up to the first stop string after its prompt. *begin: offset of the generated part. grows: more ids
 * will come, and only the part that they cannot change is wanted. */
static tess_status decode(const generate_texts *t, int64_t number, bool grows, tess_buffer *text, size_t *begin)
{
    const tess_ids *prompt = &t->prompts[number / t->n_each], *ids = &t->texts[number].ids;
    TESS_AUTO(tess_buffer_free) tess_buffer before = {.mem = t->mem};
    TESS_TRY(tess_decode(t->tokenizer, prompt->data, prompt->size, true, &before));
    TESS_TRY((grows ? tess_decode_settled : tess_decode)(t->tokenizer, ids->data, ids->size, true, text));
    *begin = tess_text_common(&before, text);
    for (int i = 0; t->stops[i] != NULL; i++) {
        const char *found = memmem(text->data + *begin, text->size - *begin, t->stops[i], strlen(t->stops[i]));
        if (found != NULL)
            text->size = (size_t)(found - text->data);
    }
    return TESS_OK;
}

static size_t longest_stop(const generate_texts *t)
{
    size_t longest = 0;
    for (int i = 0; t->stops[i] != NULL; i++)
        longest = strlen(t->stops[i]) > longest ? strlen(t->stops[i]) : longest;
    return longest;
}

static tess_status show_new_text(generate_texts *t, bool last)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = t->mem};
    size_t begin;
    TESS_TRY(decode(t, 0, !last, &text, &begin));
    size_t end = text.size, stop = longest_stop(t);
    if (!last && stop > 0) /* the text may end inside a stop string */
        end = end - begin > stop - 1 ? tess_utf8_begin(text.data, text.size, end - (stop - 1)) : begin;
    if (end > t->shown) {
        fwrite(text.data + t->shown, 1, end - t->shown, stdout);
        fflush(stdout);
        t->shown = end;
    }
    return TESS_OK;
}

static tess_status print_text(const generate_texts *t, int64_t number)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = t->mem};
    size_t begin;
    TESS_TRY(decode(t, number, false, &text, &begin));
    printf("--- prompt %lld", (long long)(number / t->n_each));
    if (t->n_each > 1)
        printf(", text %lld", (long long)(number % t->n_each));
    putchar('\n');
    fwrite(text.data, 1, text.size, stdout); /* the text may contain zero bytes */
    putchar('\n');
    return TESS_OK;
}

static tess_status json_line(const generate_texts *t, int64_t number, const char *text, size_t size, tess_buffer *line)
{
    static const char *const ends[] = {"end", "length", "stop", "budget"};
    const generate_text *g = &t->texts[number];
    const float *logprobs = (const float *)(const void *)g->logprobs.data;
    size_t n = g->logprobs.size / sizeof(float), first = g->ids.size - n;
    char digits[40];
    json_auto_t *string = json_stringn(text, size);
    TESS_CHECK(string != NULL || tess_utf8_valid(text, size) == size, TESS_E_INVALID,
               "prompt %lld: the text is not UTF-8 at byte %zu", (long long)(number / t->n_each),
               tess_utf8_valid(text, size));
    TESS_AUTO(tess_malloc_drop) char *quoted = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    TESS_CHECK(quoted != NULL, TESS_E_NOMEM, "no memory for a text of %zu bytes", size);
    TESS_TRY(tess_buffer_printf(line, "{\"prompt\": %lld, \"index\": %lld, \"text\": %s, \"ids\": [",
                                (long long)(number / t->n_each), (long long)(number % t->n_each), quoted));
    for (size_t i = 0; i < n; i++)
        TESS_TRY(tess_buffer_printf(line, "%s%d", i > 0 ? ", " : "", g->ids.data[first + i]));
    TESS_TRY(tess_buffer_printf(line, "], \"logprobs\": ["));
    for (size_t i = 0; i < n; i++)
        TESS_TRY(tess_buffer_printf(line, "%s%s", i > 0 ? ", " : "",
                                    tess_format_float(logprobs[i], digits, sizeof(digits))));
    return tess_buffer_printf(line, "], \"finish\": \"%s\"}\n", ends[g->finish]);
}

static tess_status print_json(const generate_texts *t, int64_t number)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = t->mem}, line = {.mem = t->mem};
    size_t begin;
    TESS_TRY(decode(t, number, false, &text, &begin));
    TESS_TRY(json_line(t, number, text.data + begin, text.size - begin, &line));
    fwrite(line.data, 1, line.size, stdout);
    return TESS_OK;
}

static tess_status print_one(generate_texts *t, int64_t number)
{
    if (t->format == GENERATE_JSONL)
        return print_json(t, number);
    if (!is_single(t))
        return print_text(t, number);
    TESS_TRY(show_new_text(t, true));
    putchar('\n');
    return TESS_OK;
}

/* ---- Texts ---- */
tess_status generate_texts_begin(generate_texts *t)
{
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, (size_t)t->n_prompts, (size_t)t->n_each * sizeof(*t->texts),
                                  "texts", (void **)&t->texts));
    for (int64_t i = 0; i < t->n_prompts * t->n_each; i++) {
        t->texts[i].ids.mem = t->texts[i].logprobs.mem = t->mem;
        const tess_ids *prompt = &t->prompts[i / t->n_each];
        for (size_t k = 0; k < prompt->size; k++)
            TESS_TRY(tess_ids_append(&t->texts[i].ids, prompt->data[k]));
    }
    return is_single(t) ? show_new_text(t, false) : TESS_OK;
}

tess_status generate_texts_token(generate_texts *t, const tess_request *r, int64_t position, int32_t token,
                                 float logprob, bool generated, bool *stop)
{
    char number[40], index[40] = "";
    generate_text *g = &t->texts[r->id];
    if (t->format == GENERATE_TOKEN) {
        if (t->n_each > 1)
            snprintf(index, sizeof(index), "\"index\": %lld, ", (long long)r->id % t->n_each);
        printf("{\"prompt\": %lld, %s\"position\": %lld, \"token\": %d, \"logprob\": %s, \"generated\": %s}\n",
               (long long)r->id / t->n_each, index, (long long)position, token,
               tess_format_float(logprob, number, sizeof(number)), generated ? "true" : "false");
    }
    if (!generated)
        return TESS_OK;
    TESS_TRY(tess_ids_append(&g->ids, token));
    TESS_TRY(tess_buffer_append(&g->logprobs, &logprob, sizeof(logprob)));
    TESS_TRY(tess_stop_texts_end(t->tokenizer, t->stops, g->ids.data, g->ids.size, (size_t)r->n, t->mem, stop));
    return is_single(t) ? show_new_text(t, false) : TESS_OK;
}

tess_status generate_texts_finished(generate_texts *t, const tess_request *r, tess_finish why)
{
    t->texts[r->id].done = true;
    t->texts[r->id].finish = why;
    for (; t->n_printed < t->n_prompts * t->n_each && t->texts[t->n_printed].done; t->n_printed++) {
        if (t->format != GENERATE_TOKEN)
            TESS_TRY(print_one(t, t->n_printed));
        tess_ids_free(&t->texts[t->n_printed].ids);
        tess_buffer_free(&t->texts[t->n_printed].logprobs);
    }
    fflush(stdout);
    return TESS_OK;
}
