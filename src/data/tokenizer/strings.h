/* A hash table from byte strings to integers. Keys are copied; entries stay in the order of insertion. */
#ifndef TESS_DATA_TOKENIZER_STRINGS_H
#define TESS_DATA_TOKENIZER_STRINGS_H

#include "tessera/memory.h"

typedef struct tess_string_entry {
    size_t offset; /* offset of the key in `bytes` */
    uint32_t size;
    uint32_t hash;
    int64_t value;
} tess_string_entry;

typedef struct tess_strings {
    tess_mem *mem;
    char *bytes;
    size_t n_bytes, bytes_capacity;
    tess_string_entry *entries;
    size_t n_entries, entries_capacity;
    uint32_t *slots; /* index of an entry + 1; 0: free */
    size_t n_slots;  /* a power of two, 0 before the first key */
} tess_strings;

uint64_t tess_strings_hash(const void *key, size_t size);

/* Returns the entry of `key`; NULL: there is none. Valid until the next add. */
tess_string_entry *tess_strings_find(const tess_strings *strings, const void *key, size_t size);

/* Adds `key` with `value`, or finds the existing entry. `added` may be NULL. */
tess_status tess_strings_add(tess_strings *strings, const void *key, size_t size, int64_t value,
                             tess_string_entry **entry, bool *added);

static inline const char *tess_strings_key(const tess_strings *strings, const tess_string_entry *entry)
{
    return strings->bytes + entry->offset;
}

void tess_strings_free(tess_strings *strings);

#endif
