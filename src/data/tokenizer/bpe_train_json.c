/* Writes a trained model as tokenizer.json, member by member as HF tokenizers does. */
#include "data/tokenizer/bpe_train.h"

#include <string.h>

#define BYTE_LEVEL(prefix, trim) \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix ",\"trim_offsets\":" trim ",\"use_regex\":true}"

static tess_status write_string(tess_buffer *json, const char *text, size_t size)
{
    TESS_TRY(tess_buffer_append(json, "\"", 1));
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            TESS_TRY(tess_buffer_printf(json, "\\%c", c));
        else if (c < 0x20)
            TESS_TRY(tess_buffer_printf(json, "\\u%04x", c));
        else
            TESS_TRY(tess_buffer_append(json, text + i, 1));
    }
    return tess_buffer_append(json, "\"", 1);
}

static tess_status write_token(const trainer *t, int32_t id, tess_buffer *json)
{
    const tess_string_entry *entry = &t->tokens.entries[id];
    return write_string(json, tess_strings_key(&t->tokens, entry), entry->size);
}

static tess_status write_added(const trainer *t, int n_specials, const char *const *specials, tess_buffer *json)
{
    int written = 0;
    for (int i = 0; i < n_specials; i++) {
        const tess_string_entry *entry = tess_strings_find(&t->tokens, specials[i], strlen(specials[i]));
        bool again = false;
        for (int k = 0; k < i; k++)
            again = again || strcmp(specials[k], specials[i]) == 0;
        if (entry == NULL || again)
            continue;
        TESS_TRY(tess_buffer_printf(json, "%s\n    {\"id\":%lld,\"content\":", written++ > 0 ? "," : "",
                                    (long long)entry->value));
        TESS_TRY(write_string(json, specials[i], entry->size));
        TESS_TRY(tess_buffer_printf(json,
                                    ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                                    "\"special\":true}"));
    }
    return TESS_OK;
}

/* Writes the merges. A pair that was merged in two rounds is written with the later one. */
static tess_status write_merges(const trainer *t, tess_buffer *json)
{
    TESS_AUTO(tess_strings_free) tess_strings last = {.mem = t->mem};
    for (size_t i = 0; i < t->n_merges; i++) {
        tess_string_entry *entry;
        TESS_TRY(tess_strings_add(&last, &t->merges[i].pair, sizeof(uint64_t), 0, &entry, NULL));
        entry->value = (int64_t)i;
    }
    const char *separator = "";
    for (size_t i = 0; i < t->n_merges; i++) {
        uint64_t pair = t->merges[i].pair;
        if (tess_strings_find(&last, &pair, sizeof(pair))->value != (int64_t)i)
            continue;
        TESS_TRY(tess_buffer_printf(json, "%s\n      [", separator));
        TESS_TRY(write_token(t, (int32_t)(pair >> 32), json));
        TESS_TRY(tess_buffer_append(json, ",", 1));
        TESS_TRY(write_token(t, (int32_t)(uint32_t)pair, json));
        TESS_TRY(tess_buffer_append(json, "]", 1));
        separator = ",";
    }
    return TESS_OK;
}

tess_status tess_train_write_json(const trainer *t, int n_specials, const char *const *specials, tess_buffer *json)
{
    TESS_TRY(tess_buffer_printf(json, "{\n  \"version\":\"1.0\",\n  \"truncation\":null,\n  \"padding\":null,\n"
                                      "  \"added_tokens\":["));
    TESS_TRY(write_added(t, n_specials, specials, json));
    TESS_TRY(tess_buffer_printf(
        json,
        "],\n  \"normalizer\":null,\n  \"pre_tokenizer\":" BYTE_LEVEL(
            "false",
            "true") ",\n"
                    "  \"post_processor\":" BYTE_LEVEL(
                        "true",
                        "false") ",\n"
                                 "  \"decoder\":" BYTE_LEVEL(
                                     "true",
                                     "true") ",\n"
                                             "  \"model\":{\n    \"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                                             "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_"
                                             "unk\":false,"
                                             "\"byte_fallback\":false,\"ignore_merges\":false,\n    \"vocab\":{"));
    for (size_t i = 0; i < t->tokens.n_entries; i++) {
        TESS_TRY(tess_buffer_printf(json, "%s\n      ", i > 0 ? "," : ""));
        TESS_TRY(write_token(t, (int32_t)i, json));
        TESS_TRY(tess_buffer_printf(json, ":%zu", i));
    }
    TESS_TRY(tess_buffer_printf(json, "\n    },\n    \"merges\":["));
    TESS_TRY(write_merges(t, json));
    return tess_buffer_printf(json, "\n    ]\n  }\n}\n");
}
