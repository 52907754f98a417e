/* State that is away from the device. A place is device memory that spans of equal size use in turn: the device
 * computes on one while the next is copied. */
#include "device/home/home_impl.h"
#include "base/mem/scoped.h"

static bool is_away(const tess_home *h, const tess_home_part *part)
{
    return part->at != NULL && part->bytes > 0 && home_is_away(h, part->pool);
}

static bool is_written(const tess_home *h, const tess_home_part *part)
{
    return part->use != TESS_PAGE_READ && is_away(h, part);
}

/* A range that does not exist takes room, too, so that the places of a unit are alike. */
static size_t place_bytes(const tess_home *h, const tess_home_span *span, tess_pool *pool)
{
    size_t bytes = 0;
    for (int i = span->n_parts - 1; i >= 0; i--)
        if (home_is_away(h, span->parts[i].pool)) {
            bytes += home_aligned(span->parts[i].bytes);
            *pool = span->parts[i].pool;
        }
    return bytes > span->room ? bytes : span->room;
}

/* ---- Generations (home_blocks.c) ---- */
static tess_home_block *kept_block_at(const tess_home *h, const tess_home_part *part)
{
    const char *at = part->at;
    for (tess_home_block *b = h->n_generations > 1 ? h->blocks : NULL; b != NULL; b = b->next)
        if (b->pool == part->pool && b->copied && at >= (char *)b->copy[0] && at < (char *)b->copy[0] + b->bytes)
            return b;
    return NULL;
}

static void *in_generation(const tess_home *h, const tess_home_part *part, int generation)
{
    const tess_home_block *b = kept_block_at(h, part);
    return b != NULL ? (char *)b->copy[generation] + ((char *)part->at - (char *)b->copy[0]) : part->at;
}

/* Returns the address from which a part is read. */
static void *home_from(const tess_home *h, const tess_home_part *part)
{
    return in_generation(h, part, h->now);
}

/* Returns the address to which a part is written back. */
static void *home_to(const tess_home *h, const tess_home_part *part, bool advances)
{
    return in_generation(h, part, advances ? h->now ^ 1 : h->now);
}

/* Notes that a part was written to the other generation. */
static void home_note_advance(tess_home *h, const tess_home_part *part)
{
    h->advanced = h->advanced || kept_block_at(h, part) != NULL;
}

/* ---- Places ---- */
static void free_place(tess_home *h, home_place *p)
{
    tess_device_free(h->device, p->data);
    tess_event_destroy(&p->copied);
    tess_event_destroy(&p->used);
    tess_mem_free(h->mem, p);
}

static tess_status create_place(tess_home *h, size_t bytes, tess_pool pool, home_place **out)
{
    static const char *const what[TESS_POOL_COUNT] = {
        [TESS_POOL_PARAMS] = "a unit's parameters", [TESS_POOL_GRADS] = "a unit's gradients"};
    home_place *p;
    TESS_TRY(TESS_NEW(h->mem, 1, "place", &p));
    *p = (home_place){.next = h->places, .bytes = bytes, .pool = pool};
    tess_status status = tess_event_create(h->device, &p->copied);
    if (status == TESS_OK)
        status = tess_event_create(h->device, &p->used);
    if (status == TESS_OK)
        status = tess_device_alloc(h->device, pool, bytes, what[pool] != NULL ? what[pool] : "state in use",
                                   (void **)&p->data);
    if (status != TESS_OK) {
        free_place(h, p);
        return status;
    }
    *out = h->places = p;
    return TESS_OK;
}

void home_places_free(tess_home *h)
{
    while (h->places != NULL) {
        home_place *p = h->places;
        h->places = p->next;
        free_place(h, p);
    }
}

/* Returns a place for the span: that of its values, or a new one, or, if the limit is reached, the free one that was
 * released first. If there is none, `must` takes one that was filled ahead, or creates one; otherwise returns NULL. */
static tess_status find_place(tess_home *h, const tess_home_span *span, bool must, home_place **out)
{
    tess_pool pool = TESS_POOL_MISC;
    size_t bytes = place_bytes(h, span, &pool);
    int n = 0, limit = span->n_places > 0 ? span->n_places : HOME_PLACES;
    home_place *best = NULL;
    for (home_place *p = h->places; p != NULL; p = p->next) {
        if (p->bytes != bytes || p->pool != pool)
            continue;
        n++;
        if (p->hold == HOME_HELD || (p->hold == HOME_AHEAD && !must))
            continue;
        if (best == NULL || p->hold < best->hold || (p->hold == best->hold && p->released < best->released))
            best = p;
    }
    *out = n < limit ? NULL : best;
    return *out == NULL && (n < limit || must) ? create_place(h, bytes, pool, out) : TESS_OK;
}

static void part_with(tess_home_span *span)
{
    if (span == NULL)
        return;
    span->place = NULL;
    span->valid = TESS_ON_HOST;
    for (int i = 0; i < span->n_parts; i++)
        span->parts[i].here = NULL; /* another span may be there now */
}

static tess_status take_place(tess_home *h, tess_home_span *span, bool must)
{
    home_place *p;
    if (span->place != NULL) /* it still has the span's values, or had them last */
        return TESS_OK;
    TESS_TRY(find_place(h, span, must, &p));
    if (p == NULL)
        return TESS_OK;
    TESS_TRY(p->pages ? home_place_settle(h, p) : TESS_OK);
    part_with(p->span);
    p->span = span;
    p->hold = HOME_FREE;
    span->place = p;
    span->valid = TESS_ON_HOST;
    return TESS_OK;
}

/* ---- Copies ---- */
/* Enqueues the copy to the device, after the last use of the place and all copies back. */
static tess_status upload(tess_home *h, tess_home_span *span)
{
    home_place *p = span->place;
    char *at = p->data;
    bool whole = true;
    if (span->pins)
        TESS_TRY(home_pin_parts(h, span));
    TESS_TRY(tess_event_record(h->back, h->down));
    TESS_TRY(tess_event_wait(h->back, h->up));
    TESS_TRY(tess_event_wait(p->used, h->up));
    for (int i = 0; i < span->n_parts; i++) {
        const tess_home_part *part = &span->parts[i];
        if (is_away(h, part) && part->use != TESS_PAGE_OVERWRITE) {
            void *from = home_from(h, part);
            tess_pager_fetch(h->pager, from, part->bytes, part->use);
            TESS_TRY(tess_pager_wait(h->pager, from, part->bytes));
            TESS_TRY(tess_stream_copy(h->up, at, from, part->bytes));
            p->pages = h->pager != NULL;
        }
        whole = whole && part->use != TESS_PAGE_OVERWRITE;
        at += home_is_away(h, part->pool) ? home_aligned(part->bytes) : 0;
    }
    span->valid |= whole ? TESS_ON_DEVICE : 0;
    return tess_event_record(p->copied, h->up);
}

/* Enqueues the copy back, after the operations that wrote the values. */
static tess_status download(tess_home *h, tess_home_span *span)
{
    home_place *p = span->place;
    TESS_TRY(tess_event_wait(p->used, h->down));
    for (int i = 0; i < span->n_parts; i++) {
        const tess_home_part *part = &span->parts[i];
        if (!is_written(h, part))
            continue;
        void *to = home_to(h, part, span->advances);
        if (part->use == TESS_PAGE_OVERWRITE || to != home_from(h, part)) {
            tess_pager_fetch(h->pager, to, part->bytes, TESS_PAGE_OVERWRITE);
            TESS_TRY(tess_pager_wait(h->pager, to, part->bytes));
        }
        TESS_TRY(tess_stream_copy(h->down, to, part->here, part->bytes));
        if (span->advances)
            home_note_advance(h, part);
        p->pages = h->pager != NULL;
    }
    return tess_event_record(p->copied, h->down);
}

tess_status home_place_settle(tess_home *h, home_place *p)
{
    TESS_TRY_CTX(tess_event_synchronize(p->copied), "copy state between host and device");
    for (int i = 0; p->pages && i < p->span->n_parts; i++) {
        const tess_home_part *part = &p->span->parts[i];
        if (is_away(h, part))
            tess_pager_release(h->pager, home_from(h, part), part->bytes);
        if (is_written(h, part))
            tess_pager_release(h->pager, home_to(h, part, p->span->advances), part->bytes);
    }
    p->pages = false;
    return TESS_OK;
}

tess_status home_places_settle(tess_home *h)
{
    for (home_place *p = h->places; p != NULL; p = p->next) {
        TESS_TRY(home_place_settle(h, p));
        if (p->hold != HOME_AHEAD)
            continue;
        part_with(p->span);
        p->span = NULL;
        p->hold = HOME_FREE;
    }
    return TESS_OK;
}

/* ---- The use of spans ---- */
/* A copy from pages that are still on disk would wait for them, so these are only fetched. */
tess_status home_place_bring(tess_home *h, tess_home_span *span)
{
    bool reads = false;
    for (int i = 0; i < span->n_parts; i++) {
        const tess_home_part *part = &span->parts[i];
        if (!is_away(h, part) || part->use == TESS_PAGE_OVERWRITE)
            continue;
        reads = true;
        if ((span->valid & TESS_ON_DEVICE) == 0)
            tess_pager_fetch(h->pager, home_from(h, part), part->bytes, part->use);
    }
    if (!reads || h->pager != NULL || (span->valid & TESS_ON_DEVICE) != 0)
        return TESS_OK;
    TESS_TRY(take_place(h, span, false));
    if (span->place == NULL)
        return TESS_OK;
    if (span->place->hold == HOME_FREE)
        span->place->hold = HOME_AHEAD;
    return upload(h, span);
}

tess_status home_place_wait(tess_home *h, tess_home_span *span)
{
    bool written = false;
    TESS_TRY(take_place(h, span, true));
    home_place *p = span->place;
    char *at = p->data;
    if ((span->valid & TESS_ON_DEVICE) == 0)
        TESS_TRY(upload(h, span));
    p->hold = HOME_HELD;
    for (int i = 0; i < span->n_parts; i++) {
        tess_home_part *part = &span->parts[i];
        const bool apart = home_is_away(h, part->pool);
        part->here = apart && part->at != NULL ? at : part->at;
        written = written || is_written(h, part);
        at += apart ? home_aligned(part->bytes) : 0;
    }
    span->copies_back = written;
    if (written)
        span->valid = TESS_ON_DEVICE;
    return tess_event_wait(p->copied, h->stream);
}

tess_status home_place_let_go(tess_home *h, tess_home_span *span)
{
    home_place *p = span->place;
    if (p == NULL || p->hold != HOME_HELD)
        return TESS_OK;
    TESS_TRY(tess_event_record(p->used, h->stream));
    if ((span->valid & TESS_ON_HOST) == 0)
        TESS_TRY(download(h, span));
    p->hold = HOME_FREE;
    p->released = ++h->n_released;
    span->valid = TESS_ON_HOST | (span->constant ? TESS_ON_DEVICE : 0);
    return TESS_OK;
}

void tess_home_forget(tess_home *h, tess_home_span *span)
{
    home_place *p = span->place;
    if (p == NULL)
        return;
    if (p->pages && home_place_settle(h, p) != TESS_OK)
        tess_error_clear(); /* the stream keeps the error, and the next wait returns it */
    p->span = NULL;
    p->hold = HOME_FREE;
    part_with(span);
}
