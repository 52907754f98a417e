#include "device/ptx/ptx_sample.h"

#include <stdlib.h>
#include <string.h>

#include "device/ptx/ptx_heap.h"

enum { MOST_RANGES = 64, SEEN_SLOTS = 1 << 18, MOST_SEEN = SEEN_SLOTS / 4 * 3, READ = 0, WRITTEN = 1 };

/* The memory from one of the launch's pointers to the next. */
typedef struct range {
    uint64_t pointer;
    uint64_t first[2], last[2], sectors[2]; /* sectors that were read, and written */
} range;

typedef struct seen {
    uint64_t sector; /* and whether it was written, in the lowest bit */
    unsigned block;
} seen;

struct ptx_sample {
    const ptx_launch *launch;
    range ranges[MOST_RANGES]; /* sorted; the first begins at address 0 */
    int n_ranges;
    seen *slots; /* (SEEN_SLOTS) by hash */
    unsigned block, n_seen;
};

/* Calls `each` for the 8-byte words of the parameters. */
static void each_word(const ptx_launch *l, void (*each)(void *self, uint64_t word, size_t bytes), void *self)
{
    for (int p = 0; p < l->kernel->n_parameters; p++)
        for (size_t at = 0; at < l->kernel->parameters[p].bytes; at += sizeof(uint64_t)) {
            const size_t left = l->kernel->parameters[p].bytes - at;
            const size_t bytes = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
            uint64_t word = 0;
            memcpy(&word, (const char *)l->arguments[p] + at, bytes);
            each(self, word, bytes);
        }
}

static bool is_pointer(uint64_t word, size_t bytes)
{
    return bytes == sizeof(word) && ptx_heap_find(word) != NULL;
}

/* ---- Keys ---- */
static void mix(uint64_t *hash, uint64_t word)
{
    *hash = (*hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    *hash ^= *hash >> 32;
}

static void mix_word(void *self, uint64_t word, size_t bytes)
{
    enum { ALIGN = 16 };
    mix(self, is_pointer(word, bytes) ? UINT64_MAX - word % ALIGN : word);
}

uint64_t ptx_sample_key(const ptx_launch *l)
{
    uint64_t key = 0;
    mix(&key, (uint64_t)(uintptr_t)l->kernel);
    mix(&key, l->blocks);
    mix(&key, l->threads);
    mix(&key, l->dynamic_shared);
    each_word(l, mix_word, &key);
    return key;
}

/* ---- Ranges ---- */
static void add_range(void *self, uint64_t word, size_t bytes)
{
    ptx_sample *s = self;
    int at = s->n_ranges;
    if (!is_pointer(word, bytes) || s->n_ranges == MOST_RANGES)
        return;
    while (at > 0 && s->ranges[at - 1].pointer >= word)
        at--;
    if (at < s->n_ranges && s->ranges[at].pointer == word)
        return;
    memmove(&s->ranges[at + 1], &s->ranges[at], (size_t)(s->n_ranges - at) * sizeof(s->ranges[0]));
    s->ranges[at] = (range){.pointer = word};
    s->n_ranges++;
}

ptx_sample *ptx_sample_create(const ptx_launch *launch)
{
    ptx_sample *s = ptx_heap_own(sizeof(*s));
    if (s == NULL)
        return NULL;
    s->launch = launch;
    s->n_ranges = 1;
    s->slots = ptx_heap_own(SEEN_SLOTS * sizeof(s->slots[0]));
    if (s->slots == NULL) {
        ptx_sample_free(s);
        return NULL;
    }
    each_word(launch, add_range, s);
    return s;
}

void ptx_sample_free(ptx_sample *s)
{
    if (s != NULL)
        ptx_heap_own_free(s->slots);
    ptx_heap_own_free(s);
}

void ptx_sample_block(ptx_sample *s)
{
    s->block++;
    s->n_seen = 0;
}

/* Returns false if the block has used the sector in the same way. A block that uses more than the table holds counts
 * the rest each time. */
static bool is_new(ptx_sample *s, uint64_t sector)
{
    uint64_t hash = 0;
    mix(&hash, sector);
    size_t at = hash % SEEN_SLOTS;
    for (; s->slots[at].block == s->block; at = (at + 1) % SEEN_SLOTS)
        if (s->slots[at].sector == sector)
            return false;
    if (s->n_seen < MOST_SEEN) {
        s->slots[at] = (seen){sector, s->block};
        s->n_seen++;
    }
    return true;
}

bool ptx_sample_sector(ptx_sample *s, uint64_t sector, bool writes)
{
    const int way = writes ? WRITTEN : READ;
    int at = s->n_ranges - 1;
    if (!is_new(s, sector << 1 | writes))
        return false;
    while (at > 0 && s->ranges[at].pointer / PTX_SECTOR > sector)
        at--;
    range *r = &s->ranges[at];
    if (r->sectors[way] == 0 || sector < r->first[way])
        r->first[way] = sector;
    if (r->sectors[way] == 0 || sector > r->last[way])
        r->last[way] = sector;
    r->sectors[way]++;
    return true;
}

/* ---- The whole launch ---- */
static uint64_t scaled(uint64_t count, double factor)
{
    return (uint64_t)((double)count * factor + 0.5);
}

/* Memory moves a sector once if caches keep it: not more than lies between the first sector and the last. */
static uint64_t moved(const ptx_sample *s, int way, double factor)
{
    uint64_t sectors = 0;
    for (int k = 0; k < s->n_ranges; k++) {
        const range *r = &s->ranges[k];
        const uint64_t span = r->sectors[way] > 0 ? r->last[way] - r->first[way] + 1 : 0;
        const uint64_t all = scaled(r->sectors[way], factor);
        sectors += all < span ? all : span;
    }
    return sectors * PTX_SECTOR;
}

void ptx_sample_end(ptx_sample *s, unsigned n_ran, ptx_counts *c)
{
    const double factor = (double)s->launch->blocks / n_ran;
    uint64_t *const counts[] = {&c->warp_instructions, &c->fused,          &c->read_bytes,
                                &c->written_bytes,     &c->read_sectors,   &c->written_sectors,
                                &c->shared_accesses,   &c->bank_conflicts, &c->barriers,
                                &c->cache_sectors,     &c->waits};
    for (int k = 0; k < PTX_CLASS_COUNT; k++)
        c->instructions[k] = scaled(c->instructions[k], factor);
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        *counts[k] = scaled(*counts[k], factor);
    c->memory_read = moved(s, READ, factor);
    c->memory_written = moved(s, WRITTEN, factor);
}
