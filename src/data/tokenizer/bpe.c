/* Merges the symbols of one piece: the pair with the lowest rank first, the leftmost of equal ones.
 *
 * Most pieces are words of a few bytes, which are merged in a small array. Longer pieces (runs of letters without
 * spaces, or whole texts if there is no pre-tokenizer) use a linked list and a heap, in n log n time. */
#include <string.h>

#include "base/core/heap.h"
#include "base/mem/make_room.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/tokenizer/unicode.h"

enum { SHORT = 24 };

static const tess_merge *find_merge(const tess_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t h = pair * 0x9e3779b97f4a7c15ull;
    for (uint64_t slot = (h ^ h >> 32) & bpe->merge_mask;; slot = (slot + 1) & bpe->merge_mask) {
        const tess_merge *merge = &bpe->merges[slot];
        if (merge->pair == pair)
            return merge;
        if (merge->pair == UINT64_MAX)
            return NULL;
    }
}

static tess_status add_symbol(tess_bpe_scratch *scratch, int32_t id)
{
    if (scratch->n_symbols == scratch->symbols_capacity) {
        TESS_CHECK(scratch->n_symbols < INT32_MAX / 2, TESS_E_INVALID, "a piece of %zu symbols is too long to tokenize",
                   scratch->n_symbols);
        TESS_TRY(tess_mem_reserve(scratch->mem, TESS_POOL_MISC, scratch->n_symbols + 1, sizeof(tess_symbol), "bpe",
                                  &scratch->symbols_capacity, &scratch->symbols));
    }
    int32_t at = (int32_t)scratch->n_symbols++;
    scratch->symbols[at] = (tess_symbol){.id = id, .prev = at - 1, .next = at + 1};
    return TESS_OK;
}

/* Returns the symbol of the character at p (at byte level: of the byte). *length: its number of bytes. */
static int32_t symbol_at(const tess_bpe *bpe, const char *p, size_t *length)
{
    unsigned char c = (unsigned char)*p;
    *length = 1;
    if (bpe->byte_level || c < 0x80)
        return bpe->symbols[c];
    *length = (size_t)tess_utf8_length(*p);
    const tess_string_entry *entry = tess_strings_find(&bpe->vocab, p, *length);
    return entry != NULL ? (int32_t)entry->value : -1;
}

/* Returns the byte tokens of a character that is missing from the vocabulary. They are the bytes of its UTF-8 as the
 * model sees it. */
static bool fall_back(const tess_bpe *bpe, const char *p, size_t length, int32_t ids[4], int *n)
{
    uint8_t bytes[4];
    memcpy(bytes, p, length);
    *n = (int)length;
    if (bpe->byte_level)
        *n = tess_utf8_encode(tess_byte_to_char(bytes[0]), bytes);
    for (int i = 0; i < *n; i++) {
        ids[i] = bpe->bytes[bytes[i]];
        if (ids[i] < 0)
            return false;
    }
    return true;
}

static tess_status split_symbols(const tess_bpe *bpe, tess_bpe_scratch *scratch, const char *piece, size_t size)
{
    bool unknown = false; /* an unk token is due, but the next one may fuse with it */
    scratch->n_symbols = 0;
    for (size_t i = 0, length; i < size; i += length) {
        int32_t id = symbol_at(bpe, piece + i, &length), fallback[4];
        int n = 0;
        if (id >= 0) {
            if (unknown)
                TESS_TRY(add_symbol(scratch, bpe->unk_id));
            unknown = false;
            TESS_TRY(add_symbol(scratch, id));
        } else if (bpe->byte_fallback && fall_back(bpe, piece + i, length, fallback, &n)) {
            for (int k = 0; k < n; k++)
                TESS_TRY(add_symbol(scratch, fallback[k]));
        } else if (bpe->unk_id >= 0) {
            if (unknown && !bpe->fuse_unk)
                TESS_TRY(add_symbol(scratch, bpe->unk_id));
            unknown = true;
        }
    }
    return unknown ? add_symbol(scratch, bpe->unk_id) : TESS_OK;
}

static tess_status merge_short(const tess_bpe *bpe, const tess_bpe_scratch *scratch, tess_ids *ids)
{
    int32_t symbols[SHORT];
    const tess_merge *merges[SHORT]; /* merges[i]: the merge of symbols i and i + 1 */
    int n = (int)scratch->n_symbols;
    for (int i = 0; i < n; i++)
        symbols[i] = scratch->symbols[i].id;
    for (int i = 0; i + 1 < n; i++)
        merges[i] = find_merge(bpe, symbols[i], symbols[i + 1]);
    for (;;) {
        int best = -1;
        uint32_t rank = UINT32_MAX;
        for (int i = 0; i + 1 < n; i++) {
            if (merges[i] != NULL && merges[i]->rank < rank) {
                rank = merges[i]->rank;
                best = i;
            }
        }
        if (best < 0)
            break;
        symbols[best] = merges[best]->id;
        n--;
        memmove(&symbols[best + 1], &symbols[best + 2], sizeof(symbols[0]) * (size_t)(n - best - 1));
        if (best + 1 < n)
            memmove(&merges[best + 1], &merges[best + 2], sizeof(merges[0]) * (size_t)(n - best - 2));
        if (best > 0)
            merges[best - 1] = find_merge(bpe, symbols[best - 1], symbols[best]);
        if (best + 1 < n)
            merges[best] = find_merge(bpe, symbols[best], symbols[best + 1]);
    }
    for (int i = 0; i < n; i++)
        TESS_TRY(tess_ids_append(ids, symbols[i]));
    return TESS_OK;
}

static bool before(const void *x, const void *y)
{
    const tess_candidate *a = x, *b = y;
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Puts the pair that starts at symbol `at` on the heap, if there is a merge for it. */
static tess_status push(const tess_bpe *bpe, tess_bpe_scratch *scratch, int32_t at)
{
    int32_t next = scratch->symbols[at].next;
    if (next >= (int32_t)scratch->n_symbols)
        return TESS_OK;
    const tess_merge *merge = find_merge(bpe, scratch->symbols[at].id, scratch->symbols[next].id);
    if (merge == NULL)
        return TESS_OK;
    TESS_TRY(tess_mem_reserve(scratch->mem, TESS_POOL_MISC, scratch->n_heap + 1, sizeof(tess_candidate), "bpe",
                              &scratch->heap_capacity, &scratch->heap));
    tess_candidate candidate = {merge->rank, at, merge->id};
    tess_heap_rise(scratch->heap, scratch->n_heap++, &candidate, sizeof(candidate), before);
    return TESS_OK;
}

static tess_candidate pop(tess_bpe_scratch *scratch)
{
    tess_candidate top = scratch->heap[0], last = scratch->heap[--scratch->n_heap];
    tess_heap_sink(scratch->heap, scratch->n_heap, 0, &last, sizeof(last), before);
    return top;
}

static tess_status merge_long(const tess_bpe *bpe, tess_bpe_scratch *scratch, tess_ids *ids)
{
    tess_symbol *symbols = scratch->symbols;
    int32_t n = (int32_t)scratch->n_symbols;
    scratch->n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++)
        TESS_TRY(push(bpe, scratch, i));
    while (scratch->n_heap > 0) {
        tess_candidate top = pop(scratch);
        tess_symbol *left = &symbols[top.at];
        if (left->id < 0 || left->next >= n)
            continue;
        tess_symbol *right = &symbols[left->next];
        const tess_merge *merge = find_merge(bpe, left->id, right->id);
        if (merge == NULL || merge->id != top.id)
            continue; /* one of the two symbols was merged meanwhile */
        left->id = top.id;
        left->next = right->next;
        right->id = -1;
        if (left->next < n)
            symbols[left->next].prev = top.at;
        if (left->prev >= 0)
            TESS_TRY(push(bpe, scratch, left->prev));
        TESS_TRY(push(bpe, scratch, top.at));
    }
    for (int32_t i = 0; i < n; i = symbols[i].next)
        TESS_TRY(tess_ids_append(ids, symbols[i].id));
    return TESS_OK;
}

tess_status tess_bpe_encode(const tess_bpe *bpe, tess_bpe_scratch *scratch, const char *piece, size_t size,
                            tess_ids *ids)
{
    if (bpe->ignore_merges) {
        const tess_string_entry *whole = tess_strings_find(bpe->byte_level ? &bpe->words : &bpe->vocab, piece, size);
        if (whole != NULL)
            return tess_ids_append(ids, (int32_t)whole->value);
    }
    TESS_TRY(split_symbols(bpe, scratch, piece, size));
    return scratch->n_symbols <= SHORT ? merge_short(bpe, scratch, ids) : merge_long(bpe, scratch, ids);
}

void tess_bpe_scratch_free(tess_bpe_scratch *scratch)
{
    tess_mem_free(scratch->mem, scratch->symbols);
    tess_mem_free(scratch->mem, scratch->heap);
    *scratch = (tess_bpe_scratch){.mem = scratch->mem};
}
