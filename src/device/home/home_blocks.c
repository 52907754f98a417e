/* Allocation of state at its home, the host's copies of state in device memory, and their generations. */
#include <stdio.h>
#include <string.h>

#include "base/mem/named.h"
#include "device/home/home_impl.h"
#include "base/mem/scoped.h"

/* ---- Memory of the host ---- */
static bool is_kept(const tess_home *h, const tess_home_block *b)
{
    return b->copied && h->n_generations > 1;
}

static int n_copies(const tess_home *h, const tess_home_block *b)
{
    return is_kept(h, b) ? h->n_generations : 1;
}

/* Whether the host's memory of a block is on disk, so that it is not pinned. */
static bool is_on_disk(const tess_home *h, const tess_home_block *b)
{
    return home_is_away(h, b->pool) && tess_mem_on_disk(h->mem, b->pool);
}

/* *found: an earlier process has left it. */
static tess_status alloc_copy(const tess_home *h, tess_home_block *b, int g, const char *what, bool *found)
{
    char name[144];
    *found = false;
    if (!is_kept(h, b))
        return is_on_disk(h, b) ? tess_mem_alloc_private(h->mem, b->pool, what, b->bytes, &b->copy[g])
                                : tess_device_alloc_pinned(h->device, b->pool, b->bytes, what, &b->copy[g]);
    snprintf(name, sizeof(name), "%s, copy %d", what, g);
    TESS_TRY(tess_mem_alloc_named(h->mem, b->pool, name, b->bytes, &b->copy[g], found));
    b->pinned[g] = !is_on_disk(h, b) && tess_device_pin(h->device, b->copy[g], b->bytes) == TESS_OK;
    if (!b->pinned[g])
        tess_error_clear(); /* a limit may forbid it: copies are slower, and the step waits */
    return TESS_OK;
}

static void free_copy(const tess_home *h, const tess_home_block *b, int g)
{
    if (b->pinned[g])
        tess_device_unpin(h->device, b->copy[g]);
    if (is_kept(h, b))
        tess_mem_free_named(h->mem, b->pool, b->bytes, b->copy[g]);
    else if (is_on_disk(h, b))
        tess_mem_free_private(h->mem, b->pool, b->bytes, b->copy[g]);
    else
        tess_device_free_pinned(h->device, b->copy[g]);
}

/* ---- Allocation at the three homes ---- */
static tess_status alloc_on_host(const tess_home *h, tess_home_block *b, const char *name, bool *found)
{
    TESS_TRY(h->is_private ? tess_mem_alloc_private(h->mem, b->pool, name, b->bytes, &b->at)
                           : tess_mem_alloc_named(h->mem, b->pool, name, b->bytes, &b->at, found));
    b->copy[0] = b->at;
    return TESS_OK;
}

static tess_status alloc_apart(const tess_home *h, tess_home_block *b, const char *name, bool *found)
{
    const bool away = home_is_away(h, b->pool);
    if (!away)
        TESS_TRY(tess_device_alloc(h->device, b->pool, b->bytes, name, &b->at));
    *found = b->copied;
    for (int g = 0; (away || b->copied) && g < n_copies(h, b); g++) {
        bool here;
        TESS_TRY(alloc_copy(h, b, g, name, &here));
        *found = *found && here;
    }
    b->at = away ? b->copy[0] : b->at;
    return TESS_OK;
}

static void free_memory(const tess_home *h, const tess_home_block *b)
{
    if (h->device != NULL) {
        for (int g = 0; g < HOME_GENERATIONS; g++)
            free_copy(h, b, g);
        if (!home_is_away(h, b->pool))
            tess_device_free(h->device, b->at);
    } else if (h->is_private) {
        tess_mem_free_private(h->mem, b->pool, b->bytes, b->at);
    } else {
        tess_mem_free_named(h->mem, b->pool, b->bytes, b->at);
    }
}

tess_status tess_home_alloc(tess_home *h, tess_pool pool, bool copied, size_t bytes, const char *name,
                            tess_home_block **out, bool *found)
{
    tess_home_block *b;
    *out = NULL;
    *found = false;
    TESS_TRY(TESS_NEW(h->mem, 1, "block of state", &b));
    *b = (tess_home_block){
        .pool = pool, .bytes = bytes, .copied = copied, .valid = TESS_ON_HOST | TESS_ON_DEVICE, .differs = true};
    tess_status status = h->device == NULL ? alloc_on_host(h, b, name, found) : alloc_apart(h, b, name, found);
    if (status != TESS_OK) {
        free_memory(h, b);
        tess_mem_free(h->mem, b);
        return status;
    }
    b->part = (tess_home_part){.at = b->at, .bytes = bytes, .pool = pool};
    b->span = (tess_home_span){.parts = &b->part, .n_parts = 1};
    b->next = h->blocks;
    h->blocks = b;
    *out = b;
    return TESS_OK;
}

/* An empty block may have the address of another one. */
tess_home_block *tess_home_find(const tess_home *h, const void *at)
{
    tess_home_block *empty = NULL;
    for (tess_home_block *b = h != NULL && at != NULL ? h->blocks : NULL; b != NULL; b = b->next) {
        if (b->at != at && (b->span.place == NULL || b->part.here != at))
            continue;
        if (b->bytes > 0)
            return b;
        empty = b;
    }
    return empty;
}

void tess_home_free(tess_home *h, tess_home_block *block)
{
    if (block == NULL)
        return;
    tess_home_block **link = &h->blocks;
    tess_stream *const streams[] = {h->up, h->down};
    for (int i = 0; i < 2; i++)
        if (streams[i] != NULL && tess_stream_synchronize(streams[i]) != TESS_OK)
            tess_error_clear(); /* the next wait for the stream has the error, too */
    tess_home_forget(h, &block->span);
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    free_memory(h, block);
    tess_mem_free(h->mem, block);
}

/* ---- Generations of state that is away ---- */
static bool is_away_and_kept(const tess_home *h, const tess_home_block *b)
{
    return h->device != NULL && is_kept(h, b) && home_is_away(h, b->pool);
}

/* Makes the other generation equal to that which is read. */
static void equalise(const tess_home *h, tess_home_block *b)
{
    memcpy(b->copy[h->now ^ 1], b->copy[h->now], b->bytes);
    b->differs = false;
}

/* ---- Copies of state in device memory ---- */
static bool is_copied(const tess_home *h, const tess_home_block *b)
{
    return h->device != NULL && b->copied && !home_is_away(h, b->pool);
}

void *tess_home_copy_of(const tess_home *h, const tess_home_block *b)
{
    return b->copy[is_kept(h, b) ? h->now : 0];
}

/* Copies to the host run at the same time as the home's stream. */
static tess_status begin_copies(tess_home *h)
{
    TESS_TRY(tess_event_record(h->changed, h->stream));
    TESS_TRY(tess_event_wait(h->changed, h->down));
    for (tess_home_block *b = h->blocks; b != NULL; b = b->next) {
        if (!is_copied(h, b) || (b->valid & TESS_ON_HOST) != 0)
            continue;
        TESS_TRY(tess_stream_copy(h->down, tess_home_copy_of(h, b), b->at, b->bytes));
        b->valid |= TESS_ON_HOST;
        h->under_way = true;
    }
    return h->under_way ? tess_event_record(h->copied, h->down) : TESS_OK;
}

tess_status tess_home_kept(tess_home *h)
{
    if (!h->under_way)
        return TESS_OK;
    TESS_TRY_CTX(tess_event_synchronize(h->copied), "copy weights and moments to the host");
    h->under_way = false;
    return TESS_OK;
}

tess_status tess_home_refresh(tess_home *h)
{
    if (h->device == NULL)
        return TESS_OK;
    TESS_TRY(begin_copies(h));
    TESS_TRY(home_places_settle(h));
    return tess_home_kept(h);
}

tess_status tess_home_show(tess_home *h, tess_home_block *b)
{
    if (h->device == NULL || home_is_away(h, b->pool))
        return TESS_OK;
    if (b->copy[0] == NULL)
        TESS_TRY(tess_device_alloc_pinned(h->device, b->pool, b->bytes, "state for a check", &b->copy[0]));
    return tess_stream_copy(h->stream, b->copy[0], b->at, b->bytes);
}

tess_status tess_home_return(tess_home *h, tess_home_block *b)
{
    return h->device == NULL || home_is_away(h, b->pool)
               ? TESS_OK
               : tess_stream_copy(h->stream, b->at, tess_home_copy_of(h, b), b->bytes);
}

tess_status tess_home_settle_all(tess_home *h)
{
    if (h->device == NULL)
        return TESS_OK;
    TESS_TRY(home_places_settle(h));
    return tess_stream_synchronize(h->stream);
}

/* A caller that changes the copies has read them first, and reading refreshes them. So stale copies were never
 * changed. */
tess_status tess_home_upload(tess_home *h)
{
    if (h->device == NULL)
        return TESS_OK;
    TESS_TRY(home_places_settle(h));
    TESS_TRY(tess_home_kept(h));
    for (tess_home_block *b = h->blocks; b != NULL; b = b->next) {
        b->differs = true;
        if (is_copied(h, b) && (b->valid & TESS_ON_HOST) != 0)
            TESS_TRY(tess_home_return(h, b));
    }
    return tess_stream_synchronize(h->stream);
}

/* ---- Updates ---- */
tess_status tess_home_update_begin(tess_home *h)
{
    if (h->device == NULL)
        return TESS_OK;
    TESS_TRY(home_places_settle(h));
    for (tess_home_block *b = h->blocks; b != NULL; b = b->next) {
        if (is_away_and_kept(h, b) && b->differs)
            equalise(h, b);
        if (is_copied(h, b))
            b->valid = TESS_ON_DEVICE;
    }
    return tess_event_wait(h->copied, h->stream);
}

tess_status tess_home_update_end(tess_home *h)
{
    if (!h->advanced)
        return TESS_OK;
    TESS_TRY(home_places_settle(h));
    h->advanced = false;
    h->now ^= 1;
    return TESS_OK;
}

/* State that is away is already in the generation of the step, if it was updated. */
tess_status tess_home_keep(tess_home *h, int64_t step)
{
    const int generation = (int)(step % HOME_GENERATIONS);
    if (h->n_generations == 1)
        return TESS_OK;
    TESS_TRY(home_places_settle(h));
    TESS_TRY(tess_home_kept(h));
    for (tess_home_block *b = h->blocks; b != NULL; b = b->next) {
        if (is_away_and_kept(h, b) && generation != h->now)
            equalise(h, b);
        if (is_copied(h, b))
            b->valid = TESS_ON_DEVICE;
    }
    h->now = generation;
    return begin_copies(h);
}

tess_status tess_home_restore(tess_home *h, int64_t step)
{
    if (h->device == NULL)
        return TESS_OK;
    h->now = (int)(step % HOME_GENERATIONS);
    for (tess_home_block *b = h->blocks; b != NULL; b = b->next)
        b->valid |= TESS_ON_HOST;
    TESS_TRY_CTX(tess_home_upload(h), "weights and moments of step %lld", (long long)step);
    return TESS_OK;
}
