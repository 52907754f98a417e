#include "data/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

enum { MAX_FILE = 256 << 20, PATH_SIZE = 4096 };

/* Computes the number of bytes of text that a token of the model stands for. */
static tess_status count_bytes(const tess_tokenizer *t, tess_token *token, tess_buffer *work)
{
    token->n_bytes = token->size;
    if (t->bpe.byte_level) {
        bool all;
        work->size = 0;
        TESS_TRY(tess_bytes_from_alphabet(token->text, token->size, work, &all));
        if (all)
            token->n_bytes = (uint32_t)work->size;
        return TESS_OK;
    }
    if (t->bpe.byte_fallback && token->size == 6 && memcmp(token->text, "<0x", 3) == 0) {
        token->n_bytes = 1;
        return TESS_OK;
    }
    /* U+2581 stands for a space, which has two bytes less. */
    for (const char *p = token->text;
         (p = memmem(p, token->size - (size_t)(p - token->text), "\xe2\x96\x81", 3)) != NULL; p += 3)
        token->n_bytes -= 2;
    return TESS_OK;
}

static tess_status index_vocab(tess_tokenizer *t, const char *what)
{
    const tess_strings *vocab = &t->bpe.vocab;
    for (size_t i = 0; i < vocab->n_entries; i++) {
        const tess_string_entry *entry = &vocab->entries[i];
        tess_token *token = &t->tokens[entry->value];
        TESS_CHECK(token->text == NULL, TESS_E_FORMAT, "%s: model: vocab: two tokens have the id %lld", what,
                   (long long)entry->value);
        *token = (tess_token){.text = tess_strings_key(vocab, entry), .size = entry->size};
        if (token->size == 0)
            token->text = "";
    }
    return TESS_OK;
}

/* Fills the table of tokens by id: first the vocabulary, then the added tokens, which take precedence. */
static tess_status index_tokens(tess_tokenizer *t, const char *what)
{
    int64_t highest = -1;
    for (size_t i = 0; i < t->bpe.vocab.n_entries; i++)
        highest = t->bpe.vocab.entries[i].value > highest ? t->bpe.vocab.entries[i].value : highest;
    for (size_t i = 0; i < t->added.n_tokens; i++)
        highest = t->added.tokens[i].id > highest ? t->added.tokens[i].id : highest;
    TESS_TRY(TESS_PART(t, highest + 1, "token table", &t->tokens));
    t->n_tokens = highest + 1;
    TESS_TRY(index_vocab(t, what));
    for (size_t i = 0; i < t->added.n_tokens; i++) {
        const tess_added *added = &t->added.tokens[i];
        tess_token *token = &t->tokens[added->id];
        /* HF tokenizers decodes a normalized token to the pattern that it matches in the text. */
        const tess_buffer *text = added->normalized && added->pattern.size > 0 ? &added->pattern : &added->content;
        *token = (tess_token){.text = text->data,
                              .size = (uint32_t)text->size,
                              .n_bytes = added->special ? 0 : (uint32_t)text->size,
                              .special = added->special};
    }
    for (int i = 0; i < t->special.n_before + t->special.n_after; i++) {
        int32_t id = i < t->special.n_before ? t->special.before[i] : t->special.after[i - t->special.n_before];
        TESS_CHECK(id < t->n_tokens && t->tokens[id].text != NULL, TESS_E_FORMAT,
                   "%s: post_processor: id %d is not in the vocabulary", what, id);
    }
    TESS_AUTO(tess_buffer_free) tess_buffer work = {.mem = t->mem};
    for (size_t i = 0; i < t->bpe.vocab.n_entries; i++) {
        tess_token *token = &t->tokens[t->bpe.vocab.entries[i].value];
        if (!token->special)
            TESS_TRY(count_bytes(t, token, &work));
    }
    return TESS_OK;
}

static tess_status read_parts(tess_tokenizer *t, const tess_node *root)
{
    TESS_CHECK(json_is_object(root->json), TESS_E_FORMAT, "%s: expected a JSON object", root->what);
    const json_t *version = json_object_get(root->json, "version");
    TESS_CHECK(version == NULL || (json_is_string(version) && strcmp(json_string_value(version), "1.0") == 0),
               TESS_E_UNSUPPORTED, "%s: version: only \"1.0\" is known", root->what);
    tess_node node = tess_node_member(root, "normalizer");
    TESS_TRY(tess_normalizer_read(t->mem, &node, &t->normalizer));
    node = tess_node_member(root, "pre_tokenizer");
    TESS_TRY(tess_pre_tokenizer_read(t->mem, &node, &t->pre));
    node = tess_node_member(root, "model");
    TESS_TRY(tess_bpe_read(&t->bpe, &node, t->pre.byte_level));
    node = tess_node_member(root, "added_tokens");
    TESS_TRY(tess_added_read(&t->added, &node, &t->bpe.vocab, &t->normalizer));
    node = tess_node_member(root, "post_processor");
    TESS_TRY(tess_template_read(t->mem, &node, &t->special));
    node = tess_node_member(root, "decoder");
    TESS_TRY(tess_decoder_read(t->mem, &node, &t->decoder));
    return index_tokens(t, root->what);
}

static tess_status from_json(tess_mem *mem, const json_t *json, const char *what, tess_tokenizer **out)
{
    TESS_AUTO(tess_tokenizer_destroy) tess_tokenizer *t = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "tokenizer", &t));
    t->mem = t->bpe.mem = t->bpe.vocab.mem = t->bpe.words.mem = t->added.mem = mem;
    tess_node root = {.json = json};
    snprintf(root.what, sizeof(root.what), "%.200s", what);
    TESS_TRY(read_parts(t, &root));
    *out = TESS_GIVE(t);
    return TESS_OK;
}

tess_status tess_tokenizer_parse(tess_mem *mem, const char *text, size_t size, const char *what,
                                 tess_tokenizer **tokenizer)
{
    json_auto_t *json = NULL;
    *tokenizer = NULL;
    TESS_TRY(tess_json_parse(text, size, what, true, &json));
    return from_json(mem, json, what, tokenizer);
}

/* Finds the files of a tokenizer. `file` becomes the tokenizer.json of `path`, which is that file or its folder.
 * *older: the folder has vocab.json and merges.txt instead. TESS_E_UNSUPPORTED: it has only files of another kind. */
static tess_status locate(const char *path, char file[PATH_SIZE], char folder[PATH_SIZE], bool *older)
{
    bool is_folder = tess_os_is_dir(path);
    TESS_TRY(tess_os_join(file, PATH_SIZE, is_folder ? path : "", is_folder ? "tokenizer.json" : path));
    const char *slash = strrchr(file, '/'), *name = slash != NULL ? slash + 1 : file;
    snprintf(folder, PATH_SIZE, "%.*s", slash != NULL ? (int)(name - file) : 1, slash != NULL ? file : ".");
    bool missing = strcmp(name, "tokenizer.json") == 0 && !tess_os_is_file(file);
    *older = missing && tess_vocab_merges_at(folder);
    static const char *const others[] = {"tokenizer.model", "tekken.json", "spiece.model", "vocab.txt"};
    for (size_t i = 0; missing && !*older && i < sizeof(others) / sizeof(others[0]); i++) {
        char other[PATH_SIZE];
        TESS_TRY(tess_os_join(other, sizeof(other), folder, others[i]));
        TESS_CHECK(!tess_os_is_file(other), TESS_E_UNSUPPORTED,
                   "%s: without a tokenizer.json this file is not supported. " TESS_MAKE_TOKENIZER_JSON, other, folder,
                   folder);
    }
    return TESS_OK;
}

bool tess_tokenizer_is_at(const char *path)
{
    char file[PATH_SIZE], folder[PATH_SIZE];
    bool older = false;
    return locate(path, file, folder, &older) == TESS_OK && (older || tess_os_is_file(file));
}

tess_status tess_tokenizer_load(tess_mem *mem, const char *path, tess_tokenizer **tokenizer)
{
    char file[PATH_SIZE], folder[PATH_SIZE];
    bool older;
    json_t *json = NULL;
    *tokenizer = NULL;
    TESS_TRY(locate(path, file, folder, &older));
    TESS_TRY(older ? tess_vocab_merges_load(mem, folder, &json) : tess_json_load(file, MAX_FILE, &json));
    tess_status status = from_json(mem, json, older ? folder : file, tokenizer);
    json_decref(json);
    TESS_TRY(status);
    status = tess_special_tokens_read(folder, &json, NULL);
    if (status == TESS_OK)
        tess_tokenizer_set_named(*tokenizer, json);
    else
        tess_tokenizer_destroy(tokenizer);
    return status;
}

tess_status tess_tokenizer_read(tess_mem *mem, const char *path, tess_buffer *text)
{
    char file[PATH_SIZE], folder[PATH_SIZE];
    TESS_AUTO(tess_mem_drop) char *bytes = NULL;
    bool older;
    json_t *json = NULL;
    size_t size = 0;
    TESS_TRY(locate(path, file, folder, &older));
    if (older) {
        TESS_TRY(tess_vocab_merges_load(mem, folder, &json));
        return tess_json_print(json, JSON_COMPACT | JSON_PRESERVE_ORDER, text);
    }
    TESS_TRY(tess_os_read(mem, file, MAX_FILE, &bytes, &size));
    return tess_buffer_append(text, bytes, size);
}

void tess_tokenizer_destroy(tess_tokenizer **tokenizer)
{
    tess_tokenizer *t = *tokenizer;
    if (t == NULL)
        return;
    tess_normalizer_free(&t->normalizer);
    tess_pre_tokenizer_free(&t->pre);
    tess_bpe_free(&t->bpe);
    tess_added_free(&t->added);
    tess_decoder_free(&t->decoder);
    json_decref(t->named);
    tess_mem_drop(tokenizer);
}

int64_t tess_tokenizer_vocab_size(const tess_tokenizer *tokenizer)
{
    return tokenizer->n_tokens;
}

int32_t tess_tokenizer_id(const tess_tokenizer *tokenizer, const char *text)
{
    size_t size = strlen(text);
    const tess_string_entry *entry = tess_strings_find(&tokenizer->bpe.vocab, text, size);
    if (entry != NULL)
        return (int32_t)entry->value;
    for (size_t i = 0; i < tokenizer->added.n_tokens; i++) {
        const tess_added *added = &tokenizer->added.tokens[i];
        if (added->content.size == size && memcmp(added->content.data, text, size) == 0)
            return added->id;
    }
    return -1;
}

bool tess_tokenizer_has(const tess_tokenizer *tokenizer, int64_t id)
{
    return id >= 0 && id < tokenizer->n_tokens && tokenizer->tokens[id].text != NULL;
}

bool tess_tokenizer_is_special(const tess_tokenizer *tokenizer, int64_t id)
{
    return tess_tokenizer_has(tokenizer, id) && tokenizer->tokens[id].special;
}

const json_t *tess_tokenizer_named(const tess_tokenizer *tokenizer)
{
    return tokenizer->named;
}

void tess_tokenizer_set_named(tess_tokenizer *tokenizer, json_t *named)
{
    json_decref(tokenizer->named);
    tokenizer->named = named;
}

tess_prefix tess_tokenizer_prefix(const tess_tokenizer *tokenizer)
{
    tess_prefix prefix = {.n = tokenizer->special.n_before};
    memcpy(prefix.id, tokenizer->special.before, sizeof(prefix.id));
    return prefix;
}

int64_t tess_tokenizer_bytes(const tess_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->n_tokens ? tokenizer->tokens[id].n_bytes : 0;
}
