#include "data/tokenizer/bpe_train.h"

#include <string.h>

#include "base/core/heap.h"
#include "base/mem/make_room.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

/* ---- Tokens ---- */
static tess_status add_token(trainer *t, const char *text, size_t size, int32_t *id)
{
    tess_string_entry *entry;
    TESS_TRY(tess_strings_add(&t->tokens, text, size, (int64_t)t->tokens.n_entries, &entry, NULL));
    *id = (int32_t)entry->value;
    return TESS_OK;
}

/* Adds the special tokens, then the characters of GPT-2's alphabet in their order. */
static tess_status add_first_tokens(trainer *t, const char *const *specials, int n_specials, int32_t of_byte[256])
{
    int32_t id;
    for (int i = 0; i < n_specials; i++)
        TESS_TRY(add_token(t, specials[i], strlen(specials[i]), &id));
    for (uint32_t c = 0; c < 0x200; c++) {
        int byte = tess_char_to_byte(c);
        uint8_t text[4];
        if (byte >= 0)
            TESS_TRY(add_token(t, (const char *)text, (size_t)tess_utf8_encode(c, text), &of_byte[byte]));
    }
    return TESS_OK;
}

/* ---- Pairs ---- */
static size_t pair_slot(const trainer *t, uint64_t pair)
{
    uint64_t h = pair * 0x9e3779b97f4a7c15ull;
    size_t slot = (h ^ h >> 32) & (t->n_slots - 1);
    while (t->slots[slot] != 0 && t->pairs[t->slots[slot] - 1].pair != pair)
        slot = (slot + 1) & (t->n_slots - 1);
    return slot;
}

static tess_status widen_pairs(trainer *t)
{
    size_t n_slots = t->n_slots == 0 ? 1024 : t->n_slots * 2;
    void *slots;
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, n_slots, sizeof(int32_t), "bpe training: pairs", &slots));
    tess_mem_free(t->mem, t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    for (size_t i = 0; i < t->n_pairs; i++)
        t->slots[pair_slot(t, t->pairs[i].pair)] = (int32_t)i + 1;
    return TESS_OK;
}

static tess_status find_pair(trainer *t, uint64_t pair, train_pair **found)
{
    if (t->n_pairs * 2 >= t->n_slots)
        TESS_TRY(widen_pairs(t));
    size_t slot = pair_slot(t, pair);
    if (t->slots[slot] == 0) {
        TESS_CHECK(t->n_pairs < INT32_MAX / 2, TESS_E_NOMEM, "bpe training: too many pairs");
        TESS_TRY(tess_mem_reserve(t->mem, TESS_POOL_MISC, t->n_pairs + 1, sizeof(train_pair), "bpe training: pairs",
                                  &t->pairs_capacity, &t->pairs));
        t->pairs[t->n_pairs] = (train_pair){.pair = pair, .first = -1, .last = -1};
        t->slots[slot] = (int32_t)++t->n_pairs;
    }
    *found = &t->pairs[t->slots[slot] - 1];
    return TESS_OK;
}

/* Adds `change` occurrences of the pair in `word`. If the number grows, the word is stored for the pair's next
 * entry. */
static tess_status change_pair(trainer *t, int32_t left, int32_t right, int32_t word, int64_t change)
{
    train_pair *pair = NULL;
    TESS_TRY(find_pair(t, (uint64_t)(uint32_t)left << 32 | (uint32_t)right, &pair));
    pair->count += change;
    if (change <= 0 || (pair->last >= 0 && t->nodes[pair->last].word == word))
        return TESS_OK;
    TESS_CHECK(t->n_nodes < INT32_MAX, TESS_E_NOMEM, "bpe training: too many occurrences of pairs");
    TESS_TRY(tess_mem_reserve(t->mem, TESS_POOL_MISC, t->n_nodes + 1, sizeof(train_node), "bpe training: words",
                              &t->nodes_capacity, &t->nodes));
    int32_t node = (int32_t)t->n_nodes++;
    t->nodes[node] = (train_node){word, -1};
    if (pair->last >= 0) {
        t->nodes[pair->last].next = node;
    } else {
        TESS_TRY(tess_mem_reserve(t->mem, TESS_POOL_MISC, t->n_touched + 1, sizeof(int32_t), "bpe training",
                                  &t->touched_capacity, &t->touched));
        t->touched[t->n_touched++] = (int32_t)(pair - t->pairs);
        pair->first = node;
    }
    pair->last = node;
    return TESS_OK;
}

/* ---- Queue ---- */
/* The order of the queue: the most frequent pair first, of equally frequent ones the smaller pair, of entries of one
 * pair the older. */
static bool before(const void *x, const void *y)
{
    const train_entry *a = x, *b = y;
    if (a->count != b->count)
        return a->count > b->count;
    return a->pair != b->pair ? a->pair < b->pair : a->first < b->first;
}

static tess_status push(trainer *t, train_entry entry)
{
    TESS_TRY(tess_mem_reserve(t->mem, TESS_POOL_MISC, t->n_heap + 1, sizeof(train_entry), "bpe training: queue",
                              &t->heap_capacity, &t->heap));
    tess_heap_rise(t->heap, t->n_heap++, &entry, sizeof(entry), before);
    return TESS_OK;
}

static train_entry pop(trainer *t)
{
    train_entry top = t->heap[0], last = t->heap[--t->n_heap];
    tess_heap_sink(t->heap, t->n_heap, 0, &last, sizeof(last), before);
    return top;
}

/* Makes queue entries for the pairs that gained words in this round. */
static tess_status push_touched(trainer *t)
{
    for (size_t i = 0; i < t->n_touched; i++) {
        train_pair *pair = &t->pairs[t->touched[i]];
        if (pair->count > 0)
            TESS_TRY(push(t, (train_entry){pair->count, pair->pair, t->touched[i], pair->first}));
        pair->first = pair->last = -1;
    }
    t->n_touched = 0;
    return TESS_OK;
}

/* ---- Merging ---- */
static tess_status merge_in_word(trainer *t, int32_t index, int32_t left, int32_t right, int32_t id)
{
    train_word *word = &t->words[index];
    int32_t *s = t->symbols + word->begin, n = word->size, out = 0;
    for (int32_t i = 0; i < n; i++, out++) {
        if (s[i] != left || i + 1 >= n || s[i + 1] != right) {
            s[out] = s[i];
            continue;
        }
        if (out > 0) {
            TESS_TRY(change_pair(t, s[out - 1], left, index, -word->count));
            TESS_TRY(change_pair(t, s[out - 1], id, index, word->count));
        }
        if (i + 2 < n) {
            TESS_TRY(change_pair(t, right, s[i + 2], index, -word->count));
            TESS_TRY(change_pair(t, id, s[i + 2], index, word->count));
        }
        s[out] = id;
        i++;
    }
    word->size = out;
    return TESS_OK;
}

static tess_status merge_entry(trainer *t, const train_entry *top, tess_buffer *joined)
{
    int32_t left = (int32_t)(top->pair >> 32), right = (int32_t)(uint32_t)top->pair, id;
    joined->size = 0;
    for (int side = 0; side < 2; side++) {
        const tess_string_entry *part = &t->tokens.entries[side == 0 ? left : right];
        TESS_TRY(tess_buffer_append(joined, tess_strings_key(&t->tokens, part), part->size));
    }
    TESS_TRY(add_token(t, joined->data, joined->size, &id));
    TESS_TRY(tess_mem_reserve(t->mem, TESS_POOL_MISC, t->n_merges + 1, sizeof(train_merge), "bpe training: merges",
                              &t->merges_capacity, &t->merges));
    t->merges[t->n_merges++] = (train_merge){top->pair, id};
    for (int32_t node = top->first; node >= 0; node = t->nodes[node].next)
        TESS_TRY(merge_in_word(t, t->nodes[node].word, left, right, id));
    return push_touched(t);
}

static tess_status merge_all(trainer *t, int64_t vocab_size)
{
    TESS_AUTO(tess_buffer_free) tess_buffer joined = {.mem = t->mem};
    while ((int64_t)t->tokens.n_entries < vocab_size && t->n_heap > 0) {
        train_entry top = pop(t);
        int64_t count = t->pairs[top.index].count;
        if (count != top.count) {
            top.count = count;
            TESS_TRY(push(t, top));
            continue;
        }
        if (count < 1)
            break;
        TESS_TRY(merge_entry(t, &top, &joined));
    }
    return TESS_OK;
}

/* ---- Words ---- */
static tess_status count_piece(void *context, const char *piece, size_t size)
{
    tess_string_entry *entry;
    TESS_TRY(tess_strings_add(context, piece, size, 0, &entry, NULL));
    entry->value++;
    return TESS_OK;
}

static tess_status count_valid(trainer *t, const char *text, size_t size)
{
    tess_pre_tokenizer pre = {.n_steps = 1, .steps = {{.kind = TESS_PRE_SPLIT, .text = {.mem = t->mem}}}};
    tess_pre_run run = {.pre = &pre, .emit = count_piece, .context = &t->texts};
    tess_status status =
        tess_oniguruma_create(t->mem, tess_gpt2_regex, strlen(tess_gpt2_regex), "bpe training", &pre.steps[0].regex);
    if (status == TESS_OK)
        status = tess_oniguruma_scratch_create(t->mem, &run.regex);
    if (status == TESS_OK)
        status = tess_pre_tokenize(&run, text, size);
    tess_regex_scratch_destroy(&run.regex);
    tess_pre_tokenizer_free(&pre);
    return status;
}

/* Counts the pieces into which GPT-2's regex cuts `text`. */
static tess_status count_words(trainer *t, const char *text, size_t size)
{
    if (tess_utf8_valid(text, size) == size)
        return count_valid(t, text, size);
    TESS_AUTO(tess_buffer_free) tess_buffer repaired = {.mem = t->mem};
    TESS_TRY(tess_utf8_repair(text, size, &repaired));
    return count_valid(t, repaired.data, repaired.size);
}

/* Spells the words as symbols, and counts the pairs in them. */
static tess_status spell_words(trainer *t, const int32_t of_byte[256])
{
    for (size_t i = 0; i < t->texts.n_entries; i++) {
        const tess_string_entry *text = &t->texts.entries[i];
        const unsigned char *bytes = (const unsigned char *)tess_strings_key(&t->texts, text);
        TESS_CHECK(text->size < INT32_MAX && i < INT32_MAX, TESS_E_INVALID, "bpe training: a word of %u bytes",
                   text->size);
        TESS_TRY(tess_mem_reserve(t->mem, TESS_POOL_MISC, t->n_symbols + text->size, sizeof(int32_t),
                                  "bpe training: symbols", &t->symbols_capacity, &t->symbols));
        TESS_TRY(tess_mem_reserve(t->mem, TESS_POOL_MISC, i + 1, sizeof(train_word), "bpe training: words",
                                  &t->words_capacity, &t->words));
        t->words[t->n_words++] = (train_word){t->n_symbols, (int32_t)text->size, text->value};
        for (uint32_t k = 0; k < text->size; k++) {
            t->symbols[t->n_symbols++] = of_byte[bytes[k]];
            if (k > 0)
                TESS_TRY(change_pair(t, of_byte[bytes[k - 1]], of_byte[bytes[k]], (int32_t)i, text->value));
        }
    }
    return push_touched(t);
}

static tess_status train(trainer *t, const char *text, size_t size, int64_t vocab_size, const char *const *specials,
                         int n_specials, tess_buffer *json)
{
    int32_t of_byte[256];
    TESS_TRY(add_first_tokens(t, specials, n_specials, of_byte));
    TESS_CHECK(
        vocab_size >= (int64_t)t->tokens.n_entries, TESS_E_INVALID,
        "bpe training: a vocabulary of %lld is too small: %zu tokens are needed for the 256 bytes and the special "
        "tokens",
        (long long)vocab_size, t->tokens.n_entries);
    TESS_TRY(count_words(t, text, size));
    TESS_TRY(spell_words(t, of_byte));
    TESS_TRY(merge_all(t, vocab_size));
    return tess_train_write_json(t, n_specials, specials, json);
}

tess_status tess_bpe_train(tess_mem *mem, const char *text, size_t size, int64_t vocab_size,
                           const char *const *specials, int n_specials, tess_buffer *json)
{
    TESS_CHECK(vocab_size <= TESS_MAX_TOKEN_ID, TESS_E_INVALID, "bpe training: a vocabulary of %lld; at most %d",
               (long long)vocab_size, TESS_MAX_TOKEN_ID);
    for (int i = 0; i < n_specials; i++) {
        size_t length = strlen(specials[i]);
        TESS_CHECK(length > 0 && length <= TESS_MAX_ADDED_SIZE && tess_utf8_valid(specials[i], length) == length,
                   TESS_E_INVALID, "bpe training: special token %d is not text of 1 to %d bytes", i,
                   TESS_MAX_ADDED_SIZE);
    }
    trainer t = {.mem = mem, .texts = {.mem = mem}, .tokens = {.mem = mem}};
    tess_status status = train(&t, text, size, vocab_size, specials, n_specials, json);
    void *arrays[] = {t.symbols, t.words, t.pairs, t.slots, t.nodes, t.heap, t.touched, t.merges};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        tess_mem_free(mem, arrays[i]);
    tess_strings_free(&t.texts);
    tess_strings_free(&t.tokens);
    return status;
}
