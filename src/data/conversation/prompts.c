#include "data/conversation/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "data/files/text_kind.h"

enum { LINE_BYTES = 64 << 20 };

/* The ids of a record, as a range in the list of all ids. Pointers would not do, since the list moves while it
 * grows. */
typedef struct id_span {
    size_t begin, size;
} id_span;

typedef struct prompt_line {
    id_span prompt, chosen, rejected;
    size_t text, label; /* offsets in the text of all records */
    tess_prompt_record record;
} prompt_line;

struct tess_prompts {
    tess_mem *mem;
    prompt_line *lines;
    size_t n, room;
    int64_t n_dropped;
    tess_ids ids;
    tess_buffer text;
    json_t *metadata; /* an array that owns the metadata of all records */
    uint64_t hash;
};

/* The state of one call of tess_prompts_open. */
typedef struct reading {
    tess_prompts *prompts;
    const tess_prompts_options *options;
    tess_encoder *encoder;
} reading;

/* ---- A line ---- */
static tess_status add_text(tess_prompts *p, const char *text, size_t size, size_t *place)
{
    *place = p->text.size;
    TESS_TRY(tess_buffer_append(&p->text, text, size));
    return tess_buffer_append(&p->text, "", 1);
}

static tess_status get_string(const json_t *line, const char *key, const char **text, size_t *size)
{
    *text = NULL;
    TESS_TRY(tess_json_get_string(line, key, "prompt", text));
    TESS_CHECK(*text != NULL, TESS_E_FORMAT, "it has no '%s'", key);
    *size = json_string_length(json_object_get(line, key));
    return TESS_OK;
}

/* Writes the text that the template makes of messages, up to the answer. */
static tess_status write_messages(reading *r, const json_t *line, const json_t *messages, bool prompts,
                                  tess_buffer *text)
{
    TESS_CHECK(json_array_size(messages) > 0, TESS_E_FORMAT, "a list of messages is empty");
    return tess_conversation_write(r->options->chat, messages, json_object_get(line, "tools"), prompts, text, NULL);
}

static tess_status add_ids(reading *r, const char *text, size_t size, id_span *span)
{
    tess_ids *ids = &r->prompts->ids;
    TESS_TRY(tess_encode(r->encoder, text, size, false, ids));
    span->size = ids->size - span->begin;
    return TESS_OK;
}

static tess_status add_prompt(reading *r, const char *text, size_t size, bool with_bos, prompt_line *out)
{
    tess_prompts *p = r->prompts;
    TESS_TRY(add_text(p, text, size, &out->text));
    out->record.size = size;
    out->prompt.begin = p->ids.size;
    for (int i = 0; i < r->options->bos.n && with_bos; i++)
        TESS_TRY(tess_ids_append(&p->ids, r->options->bos.id[i]));
    return add_ids(r, text, size, &out->prompt);
}

static tess_status read_prompt(reading *r, const json_t *line, prompt_line *out)
{
    const char *key = r->options->prompt_key != NULL ? r->options->prompt_key : "prompt";
    const char *text;
    size_t size = 0;
    if (r->options->prompt_key == NULL && !tess_json_has(line, key) && tess_json_has(line, "messages"))
        key = "messages";
    const json_t *value = json_object_get(line, key);
    if (json_is_array(value)) {
        tess_buffer written = {.mem = r->prompts->mem};
        tess_status status = write_messages(r, line, value, true, &written);
        if (status == TESS_OK)
            status = add_prompt(r, written.size > 0 ? written.data : "", written.size, false, out);
        tess_buffer_free(&written);
        TESS_TRY(status);
    } else {
        TESS_TRY(get_string(line, key, &text, &size));
        TESS_TRY(add_prompt(r, text, size, true, out));
    }
    TESS_CHECK(out->prompt.size > 0, TESS_E_FORMAT, "'%s' is empty: there is no token to go on from", key);
    return TESS_OK;
}

static const json_t *find_label(const json_t *line, const char *key)
{
    static const char *const names[] = {"label", "answer", "ground_truth"};
    if (key != NULL)
        return json_object_get(line, key);
    for (int i = 0; i < 3; i++)
        if (tess_json_has(line, names[i]))
            return json_object_get(line, names[i]);
    return NULL;
}

/* Reads a label. If it is not a string, its JSON text is the label. Until all records are read, record.label only says
 * whether there is one. */
static tess_status read_label(reading *r, const json_t *line, prompt_line *out)
{
    const json_t *label = find_label(line, r->options->label_key);
    if (label == NULL || json_is_null(label))
        return TESS_OK;
    out->record.label = "";
    if (json_is_string(label)) {
        out->record.label_size = json_string_length(label);
        return add_text(r->prompts, json_string_value(label), out->record.label_size, &out->label);
    }
    TESS_AUTO(tess_malloc_drop) char *text = json_dumps(label, JSON_ENCODE_ANY | JSON_COMPACT);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for a label");
    out->record.label_size = strlen(text);
    return add_text(r->prompts, text, out->record.label_size, &out->label);
}

/* Joins the prompt's messages and the messages of a completion. NULL: no memory, or the prompt is a string. */
static json_t *join_messages(const reading *r, const json_t *line, const json_t *completion)
{
    const char *key = r->options->prompt_key != NULL ? r->options->prompt_key : "prompt";
    const json_t *prompt = json_object_get(line, key);
    if (prompt == NULL)
        prompt = json_object_get(line, "messages");
    json_t *all = json_is_array(prompt) ? json_copy((json_t *)prompt) : NULL;
    if (all != NULL && json_array_extend(all, (json_t *)completion) != 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static tess_status read_answer(reading *r, const json_t *line, const char *key, const prompt_line *prompt,
                               id_span *span)
{
    json_auto_t *all = join_messages(r, line, json_object_get(line, key));
    TESS_AUTO(tess_buffer_free) tess_buffer written = {.mem = r->prompts->mem};
    TESS_CHECK(all != NULL, TESS_E_FORMAT, "'%s' is a list of messages, and the prompt is none", key);
    TESS_TRY(write_messages(r, line, all, false, &written));
    size_t n = prompt->record.size;
    bool goes_on = n == 0 || (written.size >= n && memcmp(written.data, r->prompts->text.data + prompt->text, n) == 0);
    if (!goes_on)
        return TESS_FAIL(TESS_E_UNSUPPORTED,
                         "the chat template does not preserve prefixes: with '%s' it does not go on from the prompt",
                         key);
    return add_ids(r, written.data + n, written.size - n, span);
}

static tess_status read_completion(reading *r, const json_t *line, const char *key, const prompt_line *prompt,
                                   id_span *span)
{
    tess_ids *ids = &r->prompts->ids;
    const char *text;
    size_t size = 0;
    span->begin = ids->size;
    if (json_is_array(json_object_get(line, key)))
        return read_answer(r, line, key, prompt, span);
    TESS_TRY(get_string(line, key, &text, &size));
    TESS_TRY(add_ids(r, text, size, span));
    if (r->options->eos_id >= 0)
        TESS_TRY(tess_ids_append(ids, r->options->eos_id));
    span->size = ids->size - span->begin;
    TESS_CHECK(span->size > 0, TESS_E_FORMAT, "'%s' is empty, and the model has no eos: there is nothing to compare",
               key);
    return TESS_OK;
}

/* Returns a new array with elements [begin, end). NULL: no memory. */
static json_t *slice(const json_t *array, size_t begin, size_t end)
{
    json_t *part = json_array();
    for (size_t i = begin; i < end && part != NULL; i++)
        if (json_array_append(part, json_array_get(array, i)) != 0) {
            json_decref(part);
            part = NULL;
        }
    return part;
}

static size_t count_common(const json_t *a, const json_t *b)
{
    size_t n = 0, most = json_array_size(a) < json_array_size(b) ? json_array_size(a) : json_array_size(b);
    while (n + 1 < most && json_equal(json_array_get(a, n), json_array_get(b, n)))
        n++;
    return n;
}

/* Splits a pair of whole conversations: the messages with which both begin become the prompt. If the prompt is a string
 * and the answers do not repeat it, it becomes a message of the user. */
static tess_status split_pair(const reading *r, json_t *line)
{
    const char *key = r->options->prompt_key != NULL ? r->options->prompt_key : "prompt";
    const json_t *chosen = json_object_get(line, "chosen"), *rejected = json_object_get(line, "rejected");
    const json_t *given = json_object_get(line, key);
    size_t n = count_common(chosen, rejected);
    bool messages = r->options->prompt_key == NULL && tess_json_has(line, "messages");
    bool pair = r->options->pairs && json_is_array(chosen) && json_is_array(rejected);
    if (!pair || json_is_array(given) || messages || (n == 0 && !json_is_string(given)))
        return TESS_OK;
    json_t *prompt = n > 0 ? slice(chosen, 0, n) : json_pack("[{s:s, s:O}]", "role", "user", "content", given);
    bool made = json_object_set_new(line, key, prompt) == 0 &&
                json_object_set_new(line, "chosen", slice(chosen, n, json_array_size(chosen))) == 0 &&
                json_object_set_new(line, "rejected", slice(rejected, n, json_array_size(rejected))) == 0;
    TESS_CHECK(made, TESS_E_NOMEM, "no memory for a pair");
    return TESS_OK;
}

static tess_status keep_metadata(tess_prompts *p, const json_t *line, tess_prompt_record *record)
{
    json_t *metadata = json_object_get(line, "metadata");
    if (metadata == NULL || json_is_null(metadata))
        return TESS_OK;
    record->metadata = metadata;
    TESS_CHECK(json_array_append(p->metadata, metadata) == 0, TESS_E_NOMEM, "no memory for metadata");
    return TESS_OK;
}

static bool is_too_long(const tess_prompts_options *o, const prompt_line *line)
{
    size_t longer = line->chosen.size > line->rejected.size ? line->chosen.size : line->rejected.size;
    return (o->max_prompt_tokens > 0 && line->prompt.size > (size_t)o->max_prompt_tokens) ||
           (o->pairs && o->max_tokens > 0 && line->prompt.size + longer > (size_t)o->max_tokens);
}

static tess_status read_object(reading *r, json_t *object)
{
    tess_prompts *p = r->prompts;
    prompt_line line = {0};
    size_t n_ids = p->ids.size, n_bytes = p->text.size;
    TESS_CHECK(json_is_object(object), TESS_E_FORMAT, "expected an object");
    TESS_TRY(split_pair(r, object));
    TESS_TRY(read_prompt(r, object, &line));
    TESS_TRY(read_label(r, object, &line));
    if (r->options->pairs) {
        TESS_TRY(read_completion(r, object, "chosen", &line, &line.chosen));
        TESS_TRY(read_completion(r, object, "rejected", &line, &line.rejected));
    }
    if (is_too_long(r->options, &line)) {
        p->ids.size = n_ids;
        p->text.size = n_bytes;
        p->n_dropped++;
        return TESS_OK;
    }
    TESS_TRY(keep_metadata(p, object, &line.record));
    TESS_TRY(tess_mem_reserve(p->mem, TESS_POOL_MISC, p->n + 1, sizeof(*p->lines), "prompts", &p->room, &p->lines));
    p->lines[p->n++] = line;
    return TESS_OK;
}

/* ---- Files ---- */
static tess_status read_line(reading *r, const char *line, size_t size)
{
    json_auto_t *object = NULL;
    size_t blank = 0;
    while (blank < size && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r'))
        blank++;
    if (blank == size)
        return TESS_OK;
    TESS_CHECK(size <= LINE_BYTES, TESS_E_FORMAT, "a line of %zu bytes, at most %d MiB are read", size,
               LINE_BYTES >> 20);
    TESS_TRY(tess_json_parse_record(line, size, "prompt", &object));
    return read_object(r, object);
}

static size_t line_of(const char *data, size_t at)
{
    size_t line = 1;
    for (const char *end; (end = memchr(data, '\n', at)) != NULL; line++) {
        at -= (size_t)(end + 1 - data);
        data = end + 1;
    }
    return line;
}

static tess_status read_records(reading *r, const char *path, tess_text_kind kind, const char *data, size_t size)
{
    tess_records records = tess_records_of(kind, data, size);
    for (bool there = true; there;) {
        tess_status status = tess_records_next(&records, &there);
        if (status == TESS_OK && there)
            status = read_line(r, data + records.begin, records.length);
        if (status == TESS_OK && !there)
            status = tess_records_end(&records);
        TESS_TRY_CTX(status, "%s: line %zu", path, line_of(data, records.begin));
    }
    return TESS_OK;
}

static tess_status read_file(reading *r, const char *path)
{
    tess_text_kind kind;
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    TESS_TRY(tess_text_kind_at(path, false, &kind));
    TESS_TRY(tess_os_map(path, &file));
    return read_records(r, path, kind, (const char *)file.data, file.size);
}

/* ---- Records ---- */
/* Sets the addresses of all records, now that the lists no longer move. */
static void set_addresses(tess_prompts *p, bool pairs)
{
    for (size_t i = 0; i < p->n; i++) {
        prompt_line *line = &p->lines[i];
        tess_prompt_record *record = &line->record;
        record->text = p->text.data + line->text;
        record->label = record->label != NULL ? p->text.data + line->label : NULL;
        record->ids = p->ids.data + line->prompt.begin;
        record->n = (int64_t)line->prompt.size;
        record->chosen = pairs ? p->ids.data + line->chosen.begin : NULL;
        record->rejected = pairs ? p->ids.data + line->rejected.begin : NULL;
        record->n_chosen = (int64_t)line->chosen.size;
        record->n_rejected = (int64_t)line->rejected.size;
    }
}

static tess_status hash_record(const tess_prompt_record *r, uint64_t *hash)
{
    const int64_t sizes[] = {r->n, (int64_t)r->size, r->label != NULL ? (int64_t)r->label_size : -1, r->n_chosen,
                             r->n_rejected};
    *hash = tess_hash_bytes(sizes, sizeof(sizes), *hash);
    *hash = tess_hash_bytes(r->text, r->size, *hash);
    *hash = tess_hash_bytes(r->ids, (size_t)r->n * sizeof(int32_t), *hash);
    if (r->label != NULL)
        *hash = tess_hash_bytes(r->label, r->label_size, *hash);
    if (r->chosen != NULL) {
        *hash = tess_hash_bytes(r->chosen, (size_t)r->n_chosen * sizeof(int32_t), *hash);
        *hash = tess_hash_bytes(r->rejected, (size_t)r->n_rejected * sizeof(int32_t), *hash);
    }
    if (r->metadata == NULL)
        return TESS_OK;
    char *text = json_dumps(r->metadata, JSON_ENCODE_ANY | JSON_COMPACT);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for metadata");
    *hash = tess_hash_bytes(text, strlen(text), *hash);
    free(text);
    return TESS_OK;
}

static tess_status finish(tess_prompts *p, const tess_prompts_options *options)
{
    TESS_CHECK(p->n > 0 || p->n_dropped == 0, TESS_E_INVALID,
               "%s: each of the %lld prompts is longer than the %lld tokens that a prompt may have", options->files[0],
               (long long)p->n_dropped, (long long)options->max_prompt_tokens);
    TESS_CHECK(p->n > 0, TESS_E_INVALID, "%s: there is no prompt", options->files[0]);
    set_addresses(p, options->pairs);
    for (size_t i = 0; i < p->n; i++)
        TESS_TRY(hash_record(&p->lines[i].record, &p->hash));
    return TESS_OK;
}

static tess_status read_all(tess_prompts *p, const tess_prompts_options *options)
{
    reading r = {.prompts = p, .options = options};
    TESS_CHECK(options->n_files > 0, TESS_E_INVALID, "no files of prompts");
    p->metadata = json_array();
    TESS_CHECK(p->metadata != NULL, TESS_E_NOMEM, "no memory for prompts");
    TESS_TRY(tess_encoder_create(p->mem, options->tokenizer, &r.encoder));
    tess_status status = TESS_OK;
    for (int i = 0; i < options->n_files && status == TESS_OK; i++)
        status = read_file(&r, options->files[i]);
    tess_encoder_destroy(&r.encoder);
    return status == TESS_OK ? finish(p, options) : status;
}

tess_status tess_prompts_open(tess_mem *mem, const tess_prompts_options *options, tess_prompts **out)
{
    TESS_AUTO(tess_prompts_close) tess_prompts *prompts = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "prompts", &prompts));
    *prompts = (tess_prompts){.mem = mem, .ids = {.mem = mem}, .text = {.mem = mem}};
    TESS_TRY(read_all(prompts, options));
    *out = TESS_GIVE(prompts);
    return TESS_OK;
}

void tess_prompts_close(tess_prompts **out)
{
    tess_prompts *p = *out;
    if (p == NULL)
        return;
    json_decref(p->metadata);
    tess_ids_free(&p->ids);
    tess_buffer_free(&p->text);
    tess_mem_free(p->mem, p->lines);
    tess_mem_drop(out);
}

int64_t tess_prompts_count(const tess_prompts *prompts)
{
    return (int64_t)prompts->n;
}

int64_t tess_prompts_dropped(const tess_prompts *prompts)
{
    return prompts->n_dropped;
}

const tess_prompt_record *tess_prompts_at(const tess_prompts *prompts, int64_t i)
{
    return &prompts->lines[i].record;
}

uint64_t tess_prompts_hash(const tess_prompts *prompts)
{
    return prompts->hash;
}
