#include "doctor/perfetto/arrivals_impl.h"

#include "base/core/rng.h"

/* The slot of the operation, or the free slot where it belongs. */
static arrival *find_place(arrival *table, size_t room, uint64_t team, uint64_t sequence)
{
    const uint64_t key[] = {team, sequence};
    size_t i = tess_hash_bytes(key, sizeof(key), 0) & (room - 1);
    while (table[i].n_ranks != 0 && (table[i].team != team || table[i].sequence != sequence))
        i = (i + 1) & (room - 1);
    return &table[i];
}

static tess_status grow(arrivals *arrivals)
{
    void *memory;
    size_t room = arrivals->room == 0 ? 1024 : 2 * arrivals->room;
    TESS_TRY(tess_mem_alloc_array(arrivals->mem, TESS_POOL_MISC, room, sizeof(arrival), "timeline", &memory));
    for (size_t i = 0; i < arrivals->room; i++)
        if (arrivals->table[i].n_ranks != 0)
            *find_place(memory, room, arrivals->table[i].team, arrivals->table[i].sequence) = arrivals->table[i];
    tess_mem_free(arrivals->mem, arrivals->table);
    arrivals->table = memory;
    arrivals->room = room;
    return TESS_OK;
}

tess_status arrivals_add(arrivals *arrivals, uint64_t team, uint64_t sequence, int rank, uint64_t ns)
{
    if (2 * arrivals->n >= arrivals->room)
        TESS_TRY(grow(arrivals));
    arrival *place = find_place(arrivals->table, arrivals->room, team, sequence);
    arrivals->n += place->n_ranks == 0;
    place->team = team;
    place->sequence = sequence;
    if (place->n_ranks++ == 0 || ns > place->last_ns) {
        place->rank = rank;
        place->last_ns = ns;
    }
    return TESS_OK;
}

arrival *arrivals_find(const arrivals *arrivals, uint64_t team, uint64_t sequence)
{
    if (arrivals->room == 0)
        return NULL;
    arrival *place = find_place(arrivals->table, arrivals->room, team, sequence);
    return place->n_ranks != 0 ? place : NULL;
}

void arrivals_free(arrivals *arrivals)
{
    tess_mem_free(arrivals->mem, arrivals->table);
    arrivals->table = NULL;
}
