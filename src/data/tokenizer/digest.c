/* Hashes what a tokenizer does. Files of token ids contain this hash, so that they are not read with another
 * tokenizer. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

#include "data/tokenizer/tokenizer_impl.h"

/* A text with letters, cases, digits, spaces, marks, scripts and line ends. Its ids depend on the normalizer and the
 * pre-tokenizer, which the vocabulary does not show. */
static const char probe[] =
    "The Tower's 12345 steps;  don't\tSTOP\r\n\n  e\xcc\x81t\xc3\xa9 \xef\xac\x81ne "
    "\xe6\xbc\xa2\xe5\xad\x97\xe3\x81\x8b\xe3\x81\xaa \xd0\x9c\xd0\xb8\xd1\x80 \xf0\x9f\x98\x80 "
    "x+=3.14e-2; /* a_b */ <|endoftext|> http://a.b/c?d=1 ...";

static uint64_t hash_tokens(const tess_tokenizer *t)
{
    uint64_t hash = (uint64_t)t->n_tokens;
    for (int64_t id = 0; id < t->n_tokens; id++) {
        const tess_token *token = &t->tokens[id];
        if (token->text != NULL)
            hash = XXH3_64bits_withSeed(token->text, token->size, hash + (uint64_t)id + token->special);
    }
    return hash;
}

/* Sums the hashes of the merges. The table's order depends on its size, but a sum does not depend on the order. */
static uint64_t hash_merges(const tess_bpe *bpe)
{
    uint64_t sum = 0;
    for (uint64_t slot = 0; bpe->merges != NULL && slot <= bpe->merge_mask; slot++) {
        const tess_merge *merge = &bpe->merges[slot];
        const uint64_t words[] = {merge->pair, (uint64_t)merge->rank << 32 | (uint32_t)merge->id};
        if (merge->pair != UINT64_MAX)
            sum += XXH3_64bits(words, sizeof(words));
    }
    return sum;
}

tess_status tess_tokenizer_digest(const tess_tokenizer *tokenizer, uint64_t *digest)
{
    TESS_AUTO(tess_ids_free) tess_ids ids = {.mem = tokenizer->mem};
    TESS_TRY(tess_encode_text(tokenizer, probe, sizeof(probe) - 1, false, &ids));
    const uint64_t parts[] = {hash_tokens(tokenizer), hash_merges(&tokenizer->bpe),
                              XXH3_64bits(ids.data, ids.size * sizeof(*ids.data))};
    *digest = XXH3_64bits(parts, sizeof(parts));
    return TESS_OK;
}
