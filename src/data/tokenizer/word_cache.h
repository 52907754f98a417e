/* A cache of the ids of recent words. Most text repeats few words, so most words never need merging. The size is fixed;
 * a new word replaces the old one in its slot. */
#ifndef TESS_DATA_TOKENIZER_WORD_CACHE_H
#define TESS_DATA_TOKENIZER_WORD_CACHE_H

#include <string.h>

#include "data/tokenizer/strings.h"

enum { TESS_WORD_BYTES = 26, TESS_WORD_IDS = 8, TESS_WORD_SLOTS = 1 << 15 };

/* A cached word, which fills one cache line. */
typedef struct tess_word {
    uint32_t hash;
    uint8_t size; /* 0: free */
    uint8_t n_ids;
    char bytes[TESS_WORD_BYTES];
    int32_t ids[TESS_WORD_IDS];
} tess_word;

_Static_assert(sizeof(tess_word) == 64, "a word is a cache line");

/* Returns the slot of a word of 1..TESS_WORD_BYTES bytes; *hit: the slot holds that word. */
static inline tess_word *tess_word_find(tess_word *words, const char *word, size_t size, uint32_t *hash, bool *hit)
{
    *hash = (uint32_t)tess_strings_hash(word, size);
    tess_word *slot = &words[*hash & (TESS_WORD_SLOTS - 1)];
    *hit = slot->hash == *hash && slot->size == size && memcmp(slot->bytes, word, size) == 0;
    return slot;
}

static inline void tess_word_put(tess_word *slot, const char *word, size_t size, uint32_t hash, const int32_t *ids,
                                 size_t n_ids)
{
    slot->hash = hash;
    slot->size = (uint8_t)size;
    slot->n_ids = (uint8_t)n_ids;
    memcpy(slot->bytes, word, size);
    memcpy(slot->ids, ids, n_ids * sizeof(*ids));
}

#endif
