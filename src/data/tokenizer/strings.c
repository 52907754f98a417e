#include "data/tokenizer/strings.h"

#include <string.h>

#include "base/mem/make_room.h"

enum { MAX_ENTRIES = 1 << 30 };

/* Hashes by multiplying and folding, eight bytes at a time. Keys are words of a few bytes. A poor distribution only
 * costs memory. */
uint64_t tess_strings_hash(const void *key, size_t size)
{
    const unsigned char *p = key;
    uint64_t h = 0x9e3779b97f4a7c15ull ^ size;
    while (size >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = (h ^ v) * 0xd6e8feb86659fd93ull;
        h ^= h >> 32;
        p += 8;
        size -= 8;
    }
    uint64_t v = 0;
    memcpy(&v, p, size);
    h = (h ^ v) * 0xd6e8feb86659fd93ull;
    h ^= h >> 29;
    h *= 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

static size_t slot_of(const tess_strings *strings, const void *key, size_t size, uint32_t hash)
{
    size_t mask = strings->n_slots - 1, slot = hash & mask;
    for (; strings->slots[slot] != 0; slot = (slot + 1) & mask) {
        const tess_string_entry *entry = &strings->entries[strings->slots[slot] - 1];
        if (entry->hash == hash && entry->size == size && memcmp(strings->bytes + entry->offset, key, size) == 0)
            break;
    }
    return slot;
}

tess_string_entry *tess_strings_find(const tess_strings *strings, const void *key, size_t size)
{
    if (strings->n_slots == 0)
        return NULL;
    size_t slot = slot_of(strings, key, size, (uint32_t)tess_strings_hash(key, size));
    return strings->slots[slot] == 0 ? NULL : &strings->entries[strings->slots[slot] - 1];
}

static tess_status widen(tess_strings *strings)
{
    size_t n_slots = strings->n_slots == 0 ? 64 : strings->n_slots * 2;
    void *slots;
    TESS_TRY(tess_mem_alloc_array(strings->mem, TESS_POOL_MISC, n_slots, sizeof(uint32_t), "string table", &slots));
    tess_mem_free(strings->mem, strings->slots);
    strings->slots = slots;
    strings->n_slots = n_slots;
    for (size_t i = 0; i < strings->n_entries; i++) {
        size_t slot = strings->entries[i].hash & (n_slots - 1);
        while (strings->slots[slot] != 0)
            slot = (slot + 1) & (n_slots - 1);
        strings->slots[slot] = (uint32_t)i + 1;
    }
    return TESS_OK;
}

tess_status tess_strings_add(tess_strings *strings, const void *key, size_t size, int64_t value,
                             tess_string_entry **entry, bool *added)
{
    TESS_CHECK(size <= UINT32_MAX && strings->n_entries < MAX_ENTRIES, TESS_E_NOMEM,
               "string table: %zu keys, a key of %zu bytes", strings->n_entries, size);
    if (strings->n_entries * 2 >= strings->n_slots)
        TESS_TRY(widen(strings));
    uint32_t hash = (uint32_t)tess_strings_hash(key, size);
    size_t slot = slot_of(strings, key, size, hash);
    bool fresh = strings->slots[slot] == 0;
    if (fresh) {
        TESS_TRY(tess_mem_reserve(strings->mem, TESS_POOL_MISC, strings->n_bytes + size, 1, "strings",
                                  &strings->bytes_capacity, &strings->bytes));
        TESS_TRY(tess_mem_reserve(strings->mem, TESS_POOL_MISC, strings->n_entries + 1, sizeof(tess_string_entry),
                                  "strings", &strings->entries_capacity, &strings->entries));
        if (size > 0)
            memcpy(strings->bytes + strings->n_bytes, key, size);
        strings->entries[strings->n_entries] = (tess_string_entry){strings->n_bytes, (uint32_t)size, hash, value};
        strings->n_bytes += size;
        strings->slots[slot] = (uint32_t)++strings->n_entries;
    }
    if (entry != NULL)
        *entry = &strings->entries[strings->slots[slot] - 1];
    if (added != NULL)
        *added = fresh;
    return TESS_OK;
}

void tess_strings_free(tess_strings *strings)
{
    tess_mem_free(strings->mem, strings->bytes);
    tess_mem_free(strings->mem, strings->entries);
    tess_mem_free(strings->mem, strings->slots);
    *strings = (tess_strings){.mem = strings->mem};
}
