/* The state of a BPE training: words and their counts, pairs and where they occur, the merges so far. Private to this
 * folder.
 *
 * The order of merges is exactly that of HF tokenizers' BpeTrainer. Entries of the queue are (pair, count, words),
 * with the count at the time of the entry. If the count of a popped entry is stale, the entry is put back with the
 * new count. A pair whose token already exists (spelled by another merge) may get a second entry with only the new
 * words. */
#ifndef TESS_DATA_TOKENIZER_BPE_TRAIN_H
#define TESS_DATA_TOKENIZER_BPE_TRAIN_H

#include "base/text/text.h"
#include "data/tokenizer/strings.h"

typedef struct train_word {
    size_t begin; /* index of its first symbol in `symbols` */
    int32_t size;
    int64_t count;
} train_word;

typedef struct train_pair {
    uint64_t pair; /* left << 32 | right */
    int64_t count;
    int32_t first, last; /* words found since the pair's last entry: a list of nodes; -1: none */
} train_pair;

typedef struct train_node {
    int32_t word, next;
} train_node;

typedef struct train_entry {
    int64_t count;
    uint64_t pair;
    int32_t index; /* index of the pair */
    int32_t first; /* index of the entry's first node */
} train_entry;

typedef struct train_merge {
    uint64_t pair;
    int32_t id;
} train_merge;

typedef struct trainer {
    tess_mem *mem;
    tess_strings texts; /* text of each word; value = count */
    int32_t *symbols;
    size_t n_symbols, symbols_capacity;
    train_word *words;
    size_t n_words, words_capacity;
    train_pair *pairs;
    size_t n_pairs, pairs_capacity;
    int32_t *slots; /* hash table of pairs: index + 1 */
    size_t n_slots;
    train_node *nodes;
    size_t n_nodes, nodes_capacity;
    train_entry *heap;
    size_t n_heap, heap_capacity;
    int32_t *touched; /* pairs that gained words in this round */
    size_t n_touched, touched_capacity;
    tess_strings tokens; /* text in GPT-2's alphabet -> id; entries are in the order of ids */
    train_merge *merges;
    size_t n_merges, merges_capacity;
} trainer;

/* bpe_train_json.c */
tess_status tess_train_write_json(const trainer *t, int n_specials, const char *const *specials, tess_buffer *json);

#endif
