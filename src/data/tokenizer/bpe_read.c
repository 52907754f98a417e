/* Reads the model section of tokenizer.json: vocabulary and merges. */
#include <stdio.h>
#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

static tess_status read_vocab(tess_bpe *bpe, const tess_node *node)
{
    json_t *vocab = json_object_get(node->json, "vocab");
    TESS_CHECK(json_is_object(vocab) && json_object_size(vocab) > 0, TESS_E_FORMAT,
               "%s: expected an object 'vocab' of tokens and their ids", node->what);
    const char *token;
    json_t *id;
    json_object_foreach (vocab, token, id) {
        TESS_CHECK(json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < TESS_MAX_TOKEN_ID,
                   TESS_E_FORMAT, "%s: vocab: the id of '%.64s' is not an integer of 0..%d", node->what, token,
                   TESS_MAX_TOKEN_ID - 1);
        TESS_TRY(tess_strings_add(&bpe->vocab, token, strlen(token), json_integer_value(id), NULL, NULL));
    }
    return TESS_OK;
}

static int32_t id_of(const tess_bpe *bpe, const char *text, size_t size)
{
    const tess_string_entry *entry = tess_strings_find(&bpe->vocab, text, size);
    return entry != NULL ? (int32_t)entry->value : -1;
}

/* Reads the two sides of a merge: ["a", "b"], or "a b" in older files. */
static tess_status read_merge(const json_t *merge, const tess_node *node, size_t index, const char **left,
                              size_t *n_left, const char **right, size_t *n_right)
{
    if (json_is_array(merge)) {
        const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
        TESS_CHECK(json_array_size(merge) == 2 && json_is_string(a) && json_is_string(b), TESS_E_FORMAT,
                   "%s: merges[%zu]: expected two strings", node->what, index);
        *left = json_string_value(a);
        *n_left = json_string_length(a);
        *right = json_string_value(b);
        *n_right = json_string_length(b);
        return TESS_OK;
    }
    const char *text = json_string_value(merge), *space = text != NULL ? strchr(text, ' ') : NULL;
    TESS_CHECK(space != NULL && strchr(space + 1, ' ') == NULL, TESS_E_FORMAT,
               "%s: merges[%zu]: expected \"a b\" or [\"a\", \"b\"]", node->what, index);
    *left = text;
    *n_left = (size_t)(space - text);
    *right = space + 1;
    *n_right = strlen(space + 1);
    return TESS_OK;
}

/* Adds a merge. A pair that is listed twice keeps its later rank, as in HF tokenizers. */
static void put_merge(tess_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t h = pair * 0x9e3779b97f4a7c15ull;
    uint64_t slot = (h ^ h >> 32) & bpe->merge_mask;
    while (bpe->merges[slot].pair != UINT64_MAX && bpe->merges[slot].pair != pair)
        slot = (slot + 1) & bpe->merge_mask;
    bpe->merges[slot] = (tess_merge){pair, rank, id};
}

static tess_status read_merges(tess_bpe *bpe, const tess_node *node)
{
    json_t *merges = json_object_get(node->json, "merges");
    TESS_CHECK(json_is_array(merges), TESS_E_FORMAT, "%s: expected a list 'merges'", node->what);
    size_t n = json_array_size(merges), n_slots = 64;
    while (n_slots < n + n / 2)
        n_slots *= 2;
    void *block;
    TESS_TRY(tess_mem_alloc_array(bpe->mem, TESS_POOL_MISC, n_slots, sizeof(tess_merge), "merges", &block));
    bpe->merges = block;
    bpe->merge_mask = n_slots - 1;
    memset(block, 0xff, n_slots * sizeof(tess_merge));
    TESS_AUTO(tess_buffer_free) tess_buffer joined = {.mem = bpe->mem};
    for (size_t i = 0; i < n; i++) {
        const json_t *merge = json_array_get(merges, i);
        if (json_is_string(merge) && strncmp(json_string_value(merge), "#version", 8) == 0)
            continue;
        const char *left = NULL, *right = NULL;
        size_t n_left = 0, n_right = 0;
        TESS_TRY(read_merge(merge, node, i, &left, &n_left, &right, &n_right));
        joined.size = 0;
        TESS_TRY(tess_buffer_append(&joined, left, n_left));
        TESS_TRY(tess_buffer_append(&joined, right, n_right));
        int32_t a = id_of(bpe, left, n_left), b = id_of(bpe, right, n_right), ab = id_of(bpe, joined.data, joined.size);
        if (a < 0 || b < 0 || ab < 0)
            return TESS_FAIL(TESS_E_FORMAT, "%s: merges[%zu]: '%.64s' is not in the vocab", node->what, i,
                             a < 0   ? joined.data
                             : b < 0 ? right
                                     : joined.data);
        else
            put_merge(bpe, a, b, (uint32_t)i, ab);
    }
    return TESS_OK;
}

static tess_status read_flags(tess_bpe *bpe, const tess_node *node)
{
    const struct {
        const char *key;
        bool *value;
    } flags[] = {
        {"fuse_unk", &bpe->fuse_unk}, {"byte_fallback", &bpe->byte_fallback}, {"ignore_merges", &bpe->ignore_merges}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const json_t *value = json_object_get(node->json, flags[i].key);
        TESS_CHECK(value == NULL || json_is_null(value) || json_is_boolean(value), TESS_E_FORMAT,
                   "%s: '%s' is not true or false", node->what, flags[i].key);
        *flags[i].value = json_is_true(value);
    }
    const json_t *dropout = json_object_get(node->json, "dropout");
    TESS_CHECK(dropout == NULL || json_is_null(dropout) || json_number_value(dropout) == 0, TESS_E_UNSUPPORTED,
               "%s: dropout is not supported: encoding is deterministic", node->what);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const json_t *value = json_object_get(node->json, affixes[i]);
        TESS_CHECK(value == NULL || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0),
                   TESS_E_UNSUPPORTED, "%s: '%s' is not supported", node->what, affixes[i]);
    }
    const json_t *unk = json_object_get(node->json, "unk_token");
    bpe->unk_id = json_is_string(unk) ? id_of(bpe, json_string_value(unk), json_string_length(unk)) : -1;
    TESS_CHECK(!json_is_string(unk) || bpe->unk_id >= 0 || bpe->byte_level, TESS_E_FORMAT,
               "%s: unk_token '%.64s' is not in the vocab", node->what, json_string_value(unk));
    return TESS_OK;
}

static void find_symbols(tess_bpe *bpe)
{
    for (int i = 0; i < 256; i++) {
        uint8_t text[4];
        int size = tess_utf8_encode(bpe->byte_level ? tess_byte_to_char((uint8_t)i) : (uint32_t)i, text);
        bpe->symbols[i] = id_of(bpe, (const char *)text, (size_t)size);
        char name[8];
        snprintf(name, sizeof(name), "<0x%02X>", i);
        bpe->bytes[i] = id_of(bpe, name, 6);
    }
}

static tess_status find_words(tess_bpe *bpe)
{
    TESS_AUTO(tess_buffer_free) tess_buffer bytes = {.mem = bpe->mem};
    for (size_t i = 0; i < bpe->vocab.n_entries; i++) {
        const tess_string_entry *entry = &bpe->vocab.entries[i];
        bool all;
        bytes.size = 0;
        TESS_TRY(tess_bytes_from_alphabet(tess_strings_key(&bpe->vocab, entry), entry->size, &bytes, &all));
        if (all)
            TESS_TRY(tess_strings_add(&bpe->words, bytes.data, bytes.size, entry->value, NULL, NULL));
    }
    return TESS_OK;
}

tess_status tess_bpe_read(tess_bpe *bpe, const tess_node *node, bool byte_level)
{
    TESS_CHECK(json_is_object(node->json), TESS_E_FORMAT, "%s: expected an object", node->what);
    const json_t *type = json_object_get(node->json, "type");
    TESS_CHECK(type == NULL || (json_is_string(type) && strcmp(json_string_value(type), "BPE") == 0),
               TESS_E_UNSUPPORTED, "%s: model '%s' is not supported (BPE is)", node->what,
               json_is_string(type) ? json_string_value(type) : "?");
    bpe->byte_level = byte_level;
    TESS_TRY(read_vocab(bpe, node));
    TESS_TRY(read_flags(bpe, node));
    TESS_TRY(read_merges(bpe, node));
    find_symbols(bpe);
    return byte_level && bpe->ignore_merges ? find_words(bpe) : TESS_OK;
}

void tess_bpe_free(tess_bpe *bpe)
{
    tess_strings_free(&bpe->vocab);
    tess_strings_free(&bpe->words);
    tess_mem_drop(&bpe->merges);
}
