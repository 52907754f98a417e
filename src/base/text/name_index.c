/* Finds names in a growing list: a hash table with linear probing, at most half full. */
#include "base/text/name_index.h"

#include <string.h>

#include "base/core/rng.h"
#include "base/mem/scoped.h"

/* Returns the slot of the first equal name, or the free slot where it belongs. */
static int *slot_of(const tess_name_index *index, const char *name)
{
    const uint64_t last = 2 * (uint64_t)index->room - 1;
    uint64_t i = tess_hash_text(name) & last;
    while (index->slots[i] != 0 && strcmp(index->names[index->slots[i] - 1], name) != 0)
        i = (i + 1) & last;
    return &index->slots[i];
}

/* Enters a name. Returns the number of the first equal one. */
static int put(tess_name_index *index, int number)
{
    int *slot = slot_of(index, index->names[number]);
    if (*slot == 0)
        *slot = number + 1;
    return *slot - 1;
}

static tess_status grow(tess_name_index *index, tess_mem *mem)
{
    const int room = index->room > 0 ? 2 * index->room : 64;
    int *slots = NULL;
    TESS_TRY(tess_mem_grow(mem, TESS_POOL_MISC, (size_t)room * sizeof(*index->names), "names", (void **)&index->names));
    TESS_TRY(TESS_NEW(mem, 2 * room, "slots of names", &slots));
    tess_mem_free(mem, index->slots);
    index->slots = slots;
    index->room = room;
    for (int i = 0; i < index->n; i++)
        (void)put(index, i);
    return TESS_OK;
}

tess_status tess_name_index_add(tess_name_index *index, tess_mem *mem, const char *name, int *first)
{
    if (index->n == index->room)
        TESS_TRY(grow(index, mem));
    index->names[index->n] = name;
    *first = put(index, index->n++);
    return TESS_OK;
}

int tess_name_index_find(const tess_name_index *index, const char *name)
{
    return index->room > 0 ? *slot_of(index, name) - 1 : -1;
}

/* No later name has passed the slots that become free: names enter in the order of their numbers. */
void tess_name_index_cut(tess_name_index *index, int n)
{
    for (int i = 0; i < 2 * index->room; i++)
        if (index->slots[i] > n)
            index->slots[i] = 0;
    index->n = n;
}

void tess_name_index_free(tess_name_index *index, tess_mem *mem)
{
    tess_mem_free(mem, index->names);
    tess_mem_free(mem, index->slots);
    *index = (tess_name_index){0};
}
