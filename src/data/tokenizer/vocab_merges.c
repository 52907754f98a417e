/* Reads the older layout of a byte-level BPE: vocab.json and merges.txt. The remaining content of a tokenizer.json is
 * defined by the code of a tokenizer class. Makes the tokenizer.json that transformers makes of these files. */
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/tokenizer_impl.h"

enum { PATH_SIZE = 4096, MAX_BYTES = 256 << 20 };

/* The differences between the tokenizer classes. */
typedef struct tokenizer_class {
    const char *name, *models[4]; /* models: the model_types that use the class if no class is stated */
    const char *regex;            /* regex of the pre-tokenizer; NULL: the one of ByteLevel */
    const char *end_of_text[4];   /* the special tokens that are <|endoftext|> if they are not stated */
} tokenizer_class;

static const tokenizer_class classes[] = {
    {"GPT2Tokenizer", {"gpt2"}, NULL, {"bos_token", "eos_token", "unk_token"}},
    {"Qwen2Tokenizer",
     {"qwen2", "qwen3", "qwen2_moe", "qwen3_moe"},
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
     "\\s+(?!\\S)|\\s+",
     {"eos_token", "unk_token", "pad_token"}},
};

enum { N_CLASSES = sizeof(classes) / sizeof(classes[0]) };

typedef struct slow_files {
    const char *folder;
    const tokenizer_class *class;
    json_t *vocab, *merges, *config, *map, *added_ids; /* config: tokenizer_config.json; map: special_tokens_map.json */
    json_t *added;                                     /* added_tokens of tokenizer.json */
    int64_t next_id;                                   /* id of the next token that the vocabulary lacks */
} slow_files;

static bool holds(const char *folder, const char *name)
{
    char path[PATH_SIZE];
    return tess_os_join(path, sizeof(path), folder, name) == TESS_OK && tess_os_is_file(path);
}

bool tess_vocab_merges_at(const char *folder)
{
    return holds(folder, "vocab.json") && holds(folder, "merges.txt");
}

/* Loads an object; it is empty if there is no such file. */
static tess_status load(const char *folder, const char *name, json_t **object)
{
    char path[PATH_SIZE];
    TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
    if (!tess_os_is_file(path)) {
        *object = json_object();
        return TESS_OK;
    }
    TESS_TRY(tess_json_load(path, MAX_BYTES, object));
    TESS_CHECK(json_is_object(*object), TESS_E_FORMAT, "%s: expected a JSON object", path);
    return TESS_OK;
}

/* Finds the tokenizer class. tokenizer_config.json or config.json states it, or it follows from the model. Another
 * class would cut words differently, so it is never guessed. */
static tess_status find_class(slow_files *f)
{
    json_auto_t *model = NULL;
    TESS_TRY(load(f->folder, "config.json", &model));
    const char *type = json_string_value(json_object_get(model, "model_type"));
    const char *stated = json_string_value(json_object_get(f->config, "tokenizer_class"));
    if (stated == NULL)
        stated = json_string_value(json_object_get(model, "tokenizer_class"));
    for (int i = 0; i < N_CLASSES && f->class == NULL; i++) {
        size_t n = strlen(classes[i].name);
        bool fits = stated != NULL && strncmp(stated, classes[i].name, n) == 0 &&
                    (stated[n] == '\0' || strcmp(stated + n, "Fast") == 0);
        for (int k = 0; k < 4 && stated == NULL && type != NULL; k++)
            fits = fits || (classes[i].models[k] != NULL && strcmp(type, classes[i].models[k]) == 0);
        if (fits)
            f->class = &classes[i];
    }
    return f->class != NULL
               ? TESS_OK
               : TESS_FAIL(
                     TESS_E_UNSUPPORTED,
                     "%s/vocab.json and merges.txt: tokenizer_class is %.64s; without a tokenizer.json Tessera reads "
                     "GPT2Tokenizer and Qwen2Tokenizer. " TESS_MAKE_TOKENIZER_JSON,
                     f->folder, stated != NULL ? stated : "not stated", f->folder, f->folder);
}

/* Loads the merges: one per line, "a b", after a line with the version. */
static tess_status load_merges(tess_mem *mem, slow_files *f)
{
    char path[PATH_SIZE], *rest = NULL;
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    size_t size = 0;
    TESS_TRY(tess_os_join(path, sizeof(path), f->folder, "merges.txt"));
    TESS_TRY(tess_os_read(mem, path, MAX_BYTES, &text, &size));
    f->merges = json_array();
    TESS_CHECK(memchr(text, '\0', size) == NULL, TESS_E_FORMAT, "%s: a NUL character: it is no text", path);
    bool first = true;
    for (char *line = strtok_r(text, "\r\n", &rest); line != NULL; line = strtok_r(NULL, "\r\n", &rest), first = false)
        if (!first || strncmp(line, "#version", 8) != 0)
            TESS_CHECK(json_array_append_new(f->merges, json_string(line)) == 0, TESS_E_FORMAT,
                       "%s: '%.60s' is not UTF-8", path, line);
    return TESS_OK;
}

/* Adds a token: a string, or an object with its content and flags. Its id is the vocabulary's, or the next free one. */
static tess_status add_token(slow_files *f, const json_t *token, bool special)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    const char *content = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    TESS_CHECK(
        content != NULL && content[0] != '\0', TESS_E_FORMAT,
        "%s: tokenizer_config.json, special_tokens_map.json: a special token is neither a text nor an object with "
        "a content",
        f->folder);
    for (size_t i = 0; i < json_array_size(f->added); i++) {
        json_t *other = json_array_get(f->added, i);
        if (strcmp(json_string_value(json_object_get(other, "content")), content) == 0)
            return special && json_object_set_new(other, "special", json_true()) != 0
                       ? TESS_FAIL(TESS_E_NOMEM, "%s: added tokens", f->folder)
                       : TESS_OK;
    }
    const json_t *known = json_object_get(f->vocab, content);
    const int64_t id = known != NULL ? json_integer_value(known) : f->next_id++;
    json_t *added = json_pack("{s:I, s:s}", "id", (json_int_t)id, "content", content);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && added != NULL; i++)
        json_object_set_new(added, flags[i], json_boolean(json_is_true(json_object_get(token, flags[i]))));
    if (special)
        json_object_set_new(added, "special", json_true());
    TESS_CHECK(json_array_append_new(f->added, added) == 0, TESS_E_NOMEM, "%s: added tokens", f->folder);
    return TESS_OK;
}

/* Returns the value of a special token in tokenizer_config.json or, if it is not there, in special_tokens_map.json.
 * NULL: not stated; a JSON null: there is no such token. */
static const json_t *stated_token(const slow_files *f, const char *key)
{
    const json_t *token = json_object_get(f->config, key);
    return token != NULL ? token : json_object_get(f->map, key);
}

typedef struct numbered_token {
    int64_t id;
    json_t *token; /* borrowed */
    const char *content;
} numbered_token;

static int by_id(const void *a, const void *b)
{
    const numbered_token *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Adds the tokens of added_tokens_decoder or, if there is none, of added_tokens.json. As in transformers, ids state
 * their order alone. */
static tess_status add_numbered(tess_mem *mem, slow_files *f)
{
    TESS_AUTO(tess_mem_drop) numbered_token *list = NULL;
    json_t *decoder = json_object_get(f->config, "added_tokens_decoder"), *token;
    const bool decodes = json_object_size(decoder) > 0;
    const char *key;
    size_t n = 0;
    TESS_TRY(TESS_NEW(mem, json_object_size(decodes ? decoder : f->added_ids), "added tokens", &list));
    json_object_foreach (decodes ? decoder : f->added_ids, key, token) {
        char *end = NULL;
        numbered_token *t = &list[n++];
        *t = (numbered_token){decodes ? strtoll(key, &end, 10) : json_integer_value(token), token, key};
        TESS_CHECK(!decodes || (*end == '\0' && end > key && t->id >= 0), TESS_E_FORMAT,
                   "%s/tokenizer_config.json: added_tokens_decoder: '%.32s' is no id", f->folder, key);
        TESS_CHECK(decodes || (json_is_integer(token) && t->id >= 0), TESS_E_FORMAT,
                   "%s/added_tokens.json: '%.64s' has no id", f->folder, key);
    }
    if (n > 1)
        qsort(list, n, sizeof(*list), by_id);
    for (size_t i = 0; i < n; i++) {
        json_auto_t *content = json_string(list[i].content);
        TESS_TRY(add_token(f, decodes ? list[i].token : content, false));
    }
    return TESS_OK;
}

static tess_status add_tokens(tess_mem *mem, slow_files *f)
{
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    f->added = json_array();
    f->next_id = (int64_t)json_object_size(f->vocab);
    TESS_TRY(add_numbered(mem, f));
    for (const char *const *name = tess_special_token_names; *name != NULL; name++)
        if (json_is_string(stated_token(f, *name)) || json_is_object(stated_token(f, *name)))
            TESS_TRY(add_token(f, stated_token(f, *name), true));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (size_t k = 0; k < json_array_size(stated_token(f, lists[i])); k++)
            TESS_TRY(add_token(f, json_array_get(stated_token(f, lists[i]), k), true));
    bool absent = false;
    for (int i = 0; i < 4 && f->class->end_of_text[i] != NULL; i++)
        absent = absent || stated_token(f, f->class->end_of_text[i]) == NULL;
    json_auto_t *end_of_text = json_string("<|endoftext|>");
    return absent ? add_token(f, end_of_text, true) : TESS_OK;
}

/* Returns the template that puts the bos before each text, if GPT-2's tokenizer asks for one; otherwise NULL. */
static json_t *bos_template(const slow_files *f)
{
    const json_t *token = stated_token(f, "bos_token");
    const char *bos = json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    json_t *id = NULL;
    if (f->class->regex != NULL || json_is_null(token) || !json_is_true(json_object_get(f->config, "add_bos_token")))
        return NULL;
    bos = bos != NULL ? bos : "<|endoftext|>";
    for (size_t i = 0; i < json_array_size(f->added); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(f->added, i), "content")), bos) == 0)
            id = json_object_get(json_array_get(f->added, i), "id");
    json_t *special = json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", bos, "type_id", 0);
    json_t *text = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0);
    json_t *second = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1);
    json_t *all = json_pack("{s:s, s:[O,O], s:[O,O,O,O], s:{s:{s:s, s:[O], s:[s]}}}", "type", "TemplateProcessing",
                            "single", special, text, "pair", special, text, special, second, "special_tokens", bos,
                            "id", bos, "ids", id, "tokens", bos);
    json_decref(special);
    json_decref(text);
    json_decref(second);
    return all;
}

static json_t *byte_level(bool prefix, bool trim, bool regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", (int)prefix, "trim_offsets",
                     (int)trim, "use_regex", (int)regex);
}

static tess_status compose(const slow_files *f, json_t **json)
{
    const char *regex = f->class->regex;
    bool prefix = json_is_true(json_object_get(f->config, "add_prefix_space"));
    json_t *pre = byte_level(prefix, true, regex == NULL), *post = bos_template(f);
    if (regex != NULL)
        pre = json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                        "pattern", "Regex", regex, "behavior", "Isolated", "invert", 0, pre);
    if (post == NULL)
        post = byte_level(true, false, true);
    *json = json_pack("{s:s, s:n, s:n, s:O, s:o?, s:o, s:o, s:o, s:{s:s, s:n, s:n, s:s, s:s, s:b, s:b, s:b, s:O, s:O}}",
                      "version", "1.0", "truncation", "padding", "added_tokens", f->added, "normalizer",
                      regex != NULL ? json_pack("{s:s}", "type", "NFC") : NULL, "pre_tokenizer", pre, "post_processor",
                      post, "decoder", byte_level(true, true, true), "model", "type", "BPE", "dropout", "unk_token",
                      "continuing_subword_prefix", "", "end_of_word_suffix", "", "fuse_unk", 0, "byte_fallback", 0,
                      "ignore_merges", 0, "vocab", f->vocab, "merges", f->merges);
    TESS_CHECK(*json != NULL, TESS_E_NOMEM, "%s: no memory for its tokenizer", f->folder);
    return TESS_OK;
}

tess_status tess_vocab_merges_load(tess_mem *mem, const char *folder, json_t **json)
{
    slow_files f = {.folder = folder};
    tess_status status;
    TESS_GOTO(load(folder, "tokenizer_config.json", &f.config), loaded);
    TESS_GOTO(load(folder, "special_tokens_map.json", &f.map), loaded);
    TESS_GOTO(load(folder, "added_tokens.json", &f.added_ids), loaded);
    TESS_GOTO(find_class(&f), loaded);
    TESS_GOTO(load(folder, "vocab.json", &f.vocab), loaded);
    TESS_GOTO(load_merges(mem, &f), loaded);
    TESS_GOTO(add_tokens(mem, &f), loaded);
    status = compose(&f, json);
loaded:
    json_decref(f.config);
    json_decref(f.map);
    json_decref(f.added_ids);
    json_decref(f.vocab);
    json_decref(f.merges);
    json_decref(f.added);
    return status;
}
