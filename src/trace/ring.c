#include "trace/ring.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"

_Static_assert(sizeof(tess_trace_event) == TESS_TRACE_EVENT_BYTES, "the event's size is on disk");
_Static_assert(sizeof(tess_trace_ring) <= TESS_TRACE_HEADER_BYTES, "the header has its place");

static const char magic[8] = {'T', 'E', 'S', 'S', 'R', 'I', 'N', 'G'};

static tess_trace_event *event_at(const tess_trace_ring *ring, uint64_t number)
{
    return (tess_trace_event *)((uintptr_t)ring + TESS_TRACE_HEADER_BYTES) + (number & (ring->capacity - 1));
}

size_t tess_trace_bytes(uint64_t capacity)
{
    return TESS_TRACE_HEADER_BYTES + capacity * TESS_TRACE_EVENT_BYTES;
}

tess_status tess_trace_init(void *memory, uint64_t capacity, int rank, int world, tess_trace_ring **ring)
{
    TESS_CHECK(capacity > 0 && (capacity & (capacity - 1)) == 0 && capacity <= 1u << 24, TESS_E_INVALID,
               "an event ring of %llu events: the number must be a power of two up to 2^24",
               (unsigned long long)capacity);
    tess_trace_ring *r = memory;
    r->version = TESS_TRACE_VERSION;
    r->event_bytes = TESS_TRACE_EVENT_BYTES;
    r->rank = (uint32_t)rank;
    r->world = (uint32_t)world;
    r->capacity = capacity;
    atomic_store_explicit(&r->n_events, 0, memory_order_relaxed);
    memcpy(r->magic, magic, sizeof(magic));
    *ring = r;
    return TESS_OK;
}

tess_status tess_trace_create(const char *path, uint64_t capacity, int rank, int world, tess_trace_ring **ring)
{
    void *memory;
    *ring = NULL;
    TESS_TRY(tess_os_map_new(path, tess_trace_bytes(capacity), &memory));
    tess_os_populate(memory, tess_trace_bytes(capacity));
    tess_status status = tess_trace_init(memory, capacity, rank, world, ring);
    if (status != TESS_OK)
        tess_os_unmap_shared(memory, tess_trace_bytes(capacity));
    return status;
}

void tess_trace_close(tess_trace_ring **ring)
{
    if (*ring != NULL)
        tess_os_unmap_shared(*ring, tess_trace_bytes((*ring)->capacity));
    *ring = NULL;
}

void tess_trace_copy(tess_trace_ring *to, const tess_trace_ring *from)
{
    uint64_t n = atomic_load_explicit(&from->n_events, memory_order_acquire);
    uint64_t least = to->capacity < from->capacity ? to->capacity : from->capacity;
    to->owner = from->owner;
    uint32_t n_teams = atomic_load_explicit(&from->n_teams, memory_order_acquire);
    memcpy(to->teams, from->teams, n_teams * sizeof(to->teams[0]));
    atomic_store_explicit(&to->n_teams, n_teams, memory_order_release);
    to->objects = from->objects;
    for (uint64_t i = n > least ? n - least : 0; i < n; i++)
        memcpy((void *)event_at(to, i), (const void *)event_at(from, i), TESS_TRACE_EVENT_BYTES);
    atomic_store_explicit(&to->n_events, n, memory_order_release);
}

void tess_trace_add_team(tess_trace_ring *ring, uint64_t hash, const char *name, int size, int position)
{
    uint32_t n = atomic_load_explicit(&ring->n_teams, memory_order_relaxed);
    if (n >= TESS_TRACE_TEAMS)
        return;
    tess_trace_team *team = &ring->teams[n];
    *team = (tess_trace_team){.hash = hash, .size = size, .position = position};
    snprintf(team->name, sizeof(team->name), "%s", name);
    atomic_store_explicit(&ring->n_teams, n + 1, memory_order_release);
}

tess_status tess_trace_open_cut(const void *memory, size_t bytes, const tess_trace_ring **ring, uint64_t *n_slots)
{
    const tess_trace_ring *r = memory;
    TESS_CHECK(bytes >= TESS_TRACE_HEADER_BYTES, TESS_E_FORMAT, "event ring: %zu bytes, its header alone has %d", bytes,
               TESS_TRACE_HEADER_BYTES);
    TESS_CHECK(memcmp(r->magic, magic, sizeof(magic)) == 0, TESS_E_FORMAT,
               "event ring: it does not begin with TESSRING");
    TESS_CHECK(r->version == TESS_TRACE_VERSION && r->event_bytes == TESS_TRACE_EVENT_BYTES, TESS_E_FORMAT,
               "event ring: version %u with events of %u bytes; this program reads version %d with %d", r->version,
               r->event_bytes, TESS_TRACE_VERSION, TESS_TRACE_EVENT_BYTES);
    TESS_CHECK(r->capacity > 0 && (r->capacity & (r->capacity - 1)) == 0 && r->capacity <= 1u << 24, TESS_E_FORMAT,
               "event ring: a capacity of %llu is not a power of two up to 2^24", (unsigned long long)r->capacity);
    uint64_t whole = (bytes - TESS_TRACE_HEADER_BYTES) / TESS_TRACE_EVENT_BYTES;
    *n_slots = whole < r->capacity ? whole : r->capacity;
    *ring = r;
    return TESS_OK;
}

tess_status tess_trace_open(const void *memory, size_t bytes, const tess_trace_ring **ring)
{
    const tess_trace_ring *r = NULL;
    uint64_t n_slots = 0;
    TESS_TRY(tess_trace_open_cut(memory, bytes, &r, &n_slots));
    TESS_CHECK(n_slots == r->capacity, TESS_E_FORMAT,
               "event ring: %zu bytes, but %llu events need %zu; it is truncated", bytes,
               (unsigned long long)r->capacity, tess_trace_bytes(r->capacity));
    *ring = r;
    return TESS_OK;
}

uint64_t tess_trace_lost(const tess_trace_ring *ring, uint64_t n_slots, bool *newest)
{
    uint64_t n = atomic_load_explicit(&ring->n_events, memory_order_acquire);
    uint64_t used = n < ring->capacity ? n : ring->capacity;
    *newest = n > 0 && ((n - 1) & (ring->capacity - 1)) >= n_slots;
    return used > n_slots ? used - n_slots : 0;
}

enum {
    EVENT_WORDS = TESS_TRACE_EVENT_BYTES / 8,
    ENQUEUED_WORD = offsetof(tess_trace_event, time_ns) / 8,
    STARTED_WORD = offsetof(tess_trace_event, started_ns) / 8,
    COMPLETED_WORD = offsetof(tess_trace_event, completed_ns) / 8,
    STATE_WORD = offsetof(tess_trace_event, root) / 8,
    STATE_SHIFT = (offsetof(tess_trace_event, state) - offsetof(tess_trace_event, root)) * 8
};

/* An event is copied word by word; its first word is the stamp. Stores are ordered after earlier stores, and loads
 * before later loads. So a copy is complete if the stamp is equal before and after copying. */
static _Atomic uint64_t *words_of(tess_trace_event *event)
{
    return (_Atomic uint64_t *)(void *)event;
}

uint64_t tess_trace_emit(tess_trace_ring *ring, const tess_trace_event *event, uint64_t now_ns)
{
    uint64_t number = atomic_fetch_add_explicit(&ring->n_events, 1, memory_order_relaxed), words[EVENT_WORDS];
    tess_trace_event *to = event_at(ring, number);
    memcpy(words, (const void *)event, sizeof(words));
    words[ENQUEUED_WORD] = now_ns;
    atomic_store_explicit(&to->stamp, 0, memory_order_relaxed);
    for (int i = 1; i < EVENT_WORDS; i++)
        atomic_store_explicit(&words_of(to)[i], words[i], memory_order_release);
    atomic_store_explicit(&to->stamp, number + 1, memory_order_release);
    /* A ring is larger than the caches close to the core, so the next event's lines are prefetched. */
    char *next = (char *)event_at(ring, number + 1);
    __builtin_prefetch(next, 1);
    __builtin_prefetch(next + 64, 1);
    return number;
}

void tess_trace_update(tess_trace_ring *ring, uint64_t number, tess_trace_state state, uint64_t now_ns)
{
    tess_trace_event *event = event_at(ring, number);
    _Atomic uint64_t *words = words_of(event);
    int time_word = state == TESS_TRACE_ENQUEUED  ? ENQUEUED_WORD
                    : state == TESS_TRACE_STARTED ? STARTED_WORD
                                                  : COMPLETED_WORD;
    if (atomic_load_explicit(&event->stamp, memory_order_relaxed) != number + 1)
        return;
    uint64_t word = atomic_load_explicit(&words[STATE_WORD], memory_order_relaxed);
    word = (word & ~(UINT64_C(0xff) << STATE_SHIFT)) | (uint64_t)state << STATE_SHIFT;
    atomic_store_explicit(&words[time_word], now_ns, memory_order_release);
    atomic_store_explicit(&words[STATE_WORD], word, memory_order_release);
}

size_t tess_trace_read(const tess_trace_ring *ring, uint64_t n_slots, tess_trace_event *events, size_t max)
{
    uint64_t end = atomic_load_explicit(&ring->n_events, memory_order_acquire);
    uint64_t most = max < ring->capacity ? max : ring->capacity;
    size_t n = 0;
    for (uint64_t i = end > most ? end - most : 0; i < end; i++) {
        tess_trace_event *from = event_at(ring, i);
        uint64_t words[EVENT_WORDS];
        if ((i & (ring->capacity - 1)) >= n_slots)
            continue;
        words[0] = atomic_load_explicit(&from->stamp, memory_order_acquire);
        /* descending order: a state is read before the times that were written before it */
        for (int k = EVENT_WORDS - 1; k > 0; k--)
            words[k] = atomic_load_explicit(&words_of(from)[k], memory_order_acquire);
        if (words[0] != i + 1 || atomic_load_explicit(&from->stamp, memory_order_relaxed) != words[0])
            continue;
        memcpy((void *)&events[n], words, sizeof(words));
        n++;
    }
    return n;
}

const char *tess_trace_op_name(int op)
{
    static const char *const names[] = {
#define X(name, number, text) [name] = text,
        TESS_TRACE_OP_LIST(X)
#undef X
    };
    return op >= 0 && op < TESS_TRACE_OP_COUNT ? names[op] : "unknown";
}

const char *tess_trace_state_name(int state)
{
    static const char *const names[] = {"enqueued", "started", "completed", "failed"};
    return state >= 0 && state < 4 ? names[state] : "unknown";
}
