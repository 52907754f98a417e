/* Finds added tokens in a text before the model sees it: the leftmost match first, and the longest of those that start
 * at the same position. */
#include <string.h>

#include "base/mem/make_room.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

static int32_t *trie_child(tess_trie *trie, int32_t at, unsigned char byte)
{
    int32_t *link = &trie->nodes[at].child;
    while (*link >= 0 && trie->nodes[*link].byte != byte)
        link = &trie->nodes[*link].sibling;
    return link;
}

static tess_status trie_new(tess_mem *mem, tess_trie *trie, unsigned char byte, int32_t *node)
{
    TESS_TRY(tess_mem_reserve(mem, TESS_POOL_MISC, trie->n_nodes + 1, sizeof(tess_trie_node), "added tokens",
                              &trie->capacity, &trie->nodes));
    *node = (int32_t)trie->n_nodes++;
    trie->nodes[*node] = (tess_trie_node){.child = -1, .sibling = -1, .added = -1, .byte = byte};
    return TESS_OK;
}

static tess_status trie_add(tess_mem *mem, tess_trie *trie, const char *text, size_t size, int32_t added)
{
    if (size == 0)
        return TESS_OK;
    const unsigned char *p = (const unsigned char *)text;
    int32_t at = trie->root[p[0]] - 1;
    if (at < 0) {
        TESS_TRY(trie_new(mem, trie, p[0], &at));
        trie->root[p[0]] = at + 1;
    }
    for (size_t i = 1; i < size; i++) {
        int32_t next = *trie_child(trie, at, p[i]);
        if (next < 0) {
            TESS_TRY(trie_new(mem, trie, p[i], &next));
            *trie_child(trie, at, p[i]) = next;
        }
        at = next;
    }
    if (trie->nodes[at].added < 0)
        trie->nodes[at].added = added;
    trie->any = true;
    return TESS_OK;
}

static tess_status read_flags(const tess_node *node, tess_added *token)
{
    const struct {
        const char *key;
        bool *value;
    } flags[] = {{"single_word", &token->single_word},
                 {"lstrip", &token->lstrip},
                 {"rstrip", &token->rstrip},
                 {"normalized", &token->normalized},
                 {"special", &token->special}};
    token->special = json_is_true(json_object_get(node->json, "special"));
    token->normalized = !token->special;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        TESS_TRY(tess_node_flag(node, flags[i].key, flags[i].value));
    return TESS_OK;
}

/* Reads the token. Its id is the vocabulary's or settled later, as in HF tokenizers: the stated one has no meaning. */
static tess_status read_token(const tess_node *node, tess_added *token)
{
    TESS_TRY(tess_node_text(node, "content", &token->content));
    TESS_CHECK(token->content.size <= TESS_MAX_ADDED_SIZE, TESS_E_UNSUPPORTED, "%s: a token of %zu bytes (at most %d)",
               node->what, token->content.size, TESS_MAX_ADDED_SIZE);
    const json_t *id = json_object_get(node->json, "id");
    TESS_CHECK(json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) <= UINT32_MAX,
               TESS_E_FORMAT, "%s: 'id' is not an integer of 0..%u", node->what, UINT32_MAX);
    return read_flags(node, token);
}

/* Numbers the newest token: tokens that the model lacks come after its vocabulary, in the order of the list. If an
 * earlier token has the same content, that one takes the flags of the newest, which is removed. `numbers` has the
 * contents so far, and their indices. */
static tess_status settle_newest(tess_added_set *set, const tess_strings *vocab, tess_strings *numbers, int64_t *next)
{
    tess_added *token = &set->tokens[set->n_tokens - 1];
    const size_t size = token->content.size;
    const tess_string_entry *known = tess_strings_find(vocab, token->content.data, size);
    tess_string_entry *entry = NULL;
    bool added = false;
    if (size > 0)
        TESS_TRY(tess_strings_add(numbers, token->content.data, size, (int64_t)set->n_tokens - 1, &entry, &added));
    if (added) {
        token->id = (int32_t)(known != NULL ? known->value : (*next)++);
        return TESS_OK;
    }
    set->n_tokens--;
    tess_buffer_free(&token->content);
    if (size == 0)
        return TESS_OK;
    tess_added *first = &set->tokens[entry->value];
    const bool special = first->special || token->special;
    token->id = first->id;
    token->content = first->content;
    *first = *token;
    first->special = special;
    return TESS_OK;
}

static tess_status read_list(tess_added_set *set, const tess_node *node, const tess_strings *vocab)
{
    TESS_AUTO(tess_strings_free) tess_strings numbers = {.mem = set->mem};
    int64_t next = (int64_t)vocab->n_entries;
    for (size_t i = 0; i < json_array_size(node->json); i++) {
        tess_node item = {.json = json_array_get(node->json, i)};
        snprintf(item.what, sizeof(item.what), "%.200s[%zu]", node->what, i);
        TESS_TRY(tess_mem_reserve(set->mem, TESS_POOL_MISC, set->n_tokens + 1, sizeof(tess_added), "added tokens",
                                  &set->capacity, &set->tokens));
        tess_added *token = &set->tokens[set->n_tokens++];
        *token = (tess_added){.content = {.mem = set->mem}, .pattern = {.mem = set->mem}};
        TESS_TRY(read_token(&item, token));
        TESS_TRY(settle_newest(set, vocab, &numbers, &next));
        TESS_CHECK(next <= TESS_MAX_TOKEN_ID, TESS_E_UNSUPPORTED, "%s: more than %d tokens", item.what,
                   TESS_MAX_TOKEN_ID);
    }
    return TESS_OK;
}

tess_status tess_added_read(tess_added_set *set, const tess_node *node, const tess_strings *vocab,
                            const tess_normalizer *normalizer)
{
    if (node->json == NULL || json_is_null(node->json))
        return TESS_OK;
    TESS_CHECK(json_is_array(node->json), TESS_E_FORMAT, "%s: expected a list", node->what);
    TESS_TRY(read_list(set, node, vocab));
    TESS_AUTO(tess_norm_scratch_free)
    tess_norm_scratch scratch = {.mem = set->mem, .text = {{.mem = set->mem}, {.mem = set->mem}}};
    TESS_TRY(tess_oniguruma_scratch_create(set->mem, &scratch.regex));
    for (size_t i = 0; i < set->n_tokens; i++) {
        tess_added *token = &set->tokens[i];
        const char *pattern = token->content.data;
        size_t size = token->content.size;
        if (token->normalized)
            TESS_TRY(tess_normalize(normalizer, &scratch, token->content.data, size, &pattern, &size));
        TESS_TRY(tess_buffer_append(&token->pattern, pattern, size));
        TESS_TRY(trie_add(set->mem, token->normalized ? &set->normalized : &set->raw, pattern, size, (int32_t)i));
    }
    return TESS_OK;
}

void tess_added_free(tess_added_set *set)
{
    for (size_t i = 0; i < set->n_tokens; i++) {
        tess_buffer_free(&set->tokens[i].content);
        tess_buffer_free(&set->tokens[i].pattern);
    }
    tess_mem_free(set->mem, set->tokens);
    tess_mem_free(set->mem, set->raw.nodes);
    tess_mem_free(set->mem, set->normalized.nodes);
    *set = (tess_added_set){.mem = set->mem};
}

/* Returns the longest pattern that starts at text[0]; -1: none. */
static int32_t longest(const tess_trie *trie, const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    int32_t at = trie->root[p[0]] - 1, best = -1;
    for (size_t i = 1; at >= 0; i++) {
        if (trie->nodes[at].added >= 0)
            best = trie->nodes[at].added;
        if (i >= size)
            break;
        at = trie->nodes[at].child;
        while (at >= 0 && trie->nodes[at].byte != p[i])
            at = trie->nodes[at].sibling;
    }
    return best;
}

/* Finds the character that ends before text[at]. */
static size_t previous(const char *text, size_t at, uint32_t *c)
{
    size_t begin = tess_utf8_begin(text, at, at - 1);
    *c = 0;
    tess_utf8_decode((const uint8_t *)text + begin, at - begin, c);
    return begin;
}

static bool stands_alone(const char *text, size_t size, size_t begin, size_t end)
{
    uint32_t before = ' ', after = ' ';
    if (begin > 0)
        previous(text, begin, &before);
    if (end < size)
        tess_utf8_decode((const uint8_t *)text + end, size - end, &after);
    return !tess_is_word(before) && !tess_is_word(after);
}

/* Returns the end of the space at text[from...). A run of spaces is scanned only once, however many matches are in
 * it. */
static size_t skip_space(tess_added_scan *scan, size_t from)
{
    if (from >= scan->space_begin && from < scan->space_end)
        return scan->space_end;
    size_t at = from;
    while (at < scan->size) {
        uint32_t c = 0;
        int length = tess_utf8_decode((const uint8_t *)scan->text + at, scan->size - at, &c);
        if (!tess_is_space(c))
            break;
        at += (size_t)length;
    }
    scan->space_begin = from;
    scan->space_end = at;
    return at;
}

/* Returns the start of the space before text[at], but at least the end of the last match. */
static size_t skip_space_back(const tess_added_scan *scan, size_t at)
{
    while (at > scan->floor) {
        uint32_t c;
        size_t begin = previous(scan->text, at, &c);
        if (begin < scan->floor || !tess_is_space(c))
            break;
        at = begin;
    }
    return at;
}

const tess_added *tess_added_next(tess_added_scan *scan, size_t *begin, size_t *end)
{
    for (size_t i = scan->from; scan->trie->any && i < scan->size; i++) {
        if (scan->trie->root[(unsigned char)scan->text[i]] == 0)
            continue;
        int32_t index = longest(scan->trie, scan->text + i, scan->size - i);
        if (index < 0)
            continue;
        const tess_added *token = &scan->set->tokens[index];
        size_t after = i + token->pattern.size;
        *end = token->rstrip ? skip_space(scan, after) : after;
        /* A token that strips the space before it cannot lie in the space that the last match consumed. */
        bool taken = token->lstrip && *end <= scan->floor;
        if (taken || (token->single_word && !stands_alone(scan->text, scan->size, i, after))) {
            i = after - 1;
            continue;
        }
        /* The search continues right after the pattern, even inside the space that the match consumes, as in HF
         * tokenizers. */
        scan->from = after;
        *begin = token->lstrip ? skip_space_back(scan, i) : i;
        scan->floor = *end;
        return token;
    }
    return NULL;
}
