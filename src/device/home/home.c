/* The table of homes: what it means to bring a span, to wait for it and to let it go. */
#include "device/home/home_impl.h"

#include <stdio.h>

#include "base/mem/named.h"
#include "base/mem/scoped.h"

/* ---- The homes ---- */
static tess_status fetch(tess_home *h, tess_home_span *span)
{
    for (int i = 0; i < span->n_parts; i++)
        if (span->parts[i].bytes > 0)
            tess_pager_fetch(h->pager, span->parts[i].at, span->parts[i].bytes, span->parts[i].use);
    return TESS_OK;
}

static tess_status compute_at_home(TESS_UNUSED tess_home *h, tess_home_span *span)
{
    for (int i = 0; i < span->n_parts; i++)
        span->parts[i].here = span->parts[i].at;
    return TESS_OK;
}

static tess_status wait_for_pages(tess_home *h, tess_home_span *span)
{
    for (int i = 0; i < span->n_parts; i++)
        if (span->parts[i].bytes > 0)
            TESS_TRY(tess_pager_wait(h->pager, span->parts[i].at, span->parts[i].bytes));
    return compute_at_home(h, span);
}

static tess_status release_pages(tess_home *h, tess_home_span *span)
{
    for (int i = 0; i < span->n_parts; i++)
        if (span->parts[i].bytes > 0)
            tess_pager_release(h->pager, span->parts[i].at, span->parts[i].bytes);
    return TESS_OK;
}

static tess_status do_nothing(tess_home *h, tess_home_span *span)
{
    (void)h, (void)span;
    return TESS_OK;
}

typedef struct home_row {
    tess_status (*bring)(tess_home *, tess_home_span *);
    tess_status (*wait)(tess_home *, tess_home_span *);
    tess_status (*let_go)(tess_home *, tess_home_span *);
} home_row;

static const home_row on_host = {fetch, wait_for_pages, release_pages},
                      on_device = {do_nothing, compute_at_home, do_nothing},
                      away = {home_place_bring, home_place_wait, home_place_let_go};

tess_device *tess_home_device(const tess_home *h)
{
    return h->device;
}

bool tess_home_is_private(const tess_home *h)
{
    return h->is_private;
}

bool tess_home_keeps(const tess_home *h)
{
    return h->n_generations > 1;
}

bool tess_home_is_away(const tess_home *h, tess_pool pool)
{
    return home_is_away(h, pool);
}

/* A span is away if any part of it is. */
static const home_row *home_of(const tess_home *h, const tess_home_span *span)
{
    for (int i = 0; i < span->n_parts; i++)
        if (tess_home_is_away(h, span->parts[i].pool))
            return &away;
    return h->device != NULL ? &on_device : &on_host;
}

tess_status tess_home_bring(tess_home *h, tess_home_span *span)
{
    return home_of(h, span)->bring(h, span);
}

tess_status tess_home_wait(tess_home *h, tess_home_span *span)
{
    TESS_CHECK(h->status == TESS_OK, h->status, "%s", h->message);
    return home_of(h, span)->wait(h, span);
}

void tess_home_let_go(tess_home *h, tess_home_span *span)
{
    const tess_status status = home_of(h, span)->let_go(h, span);
    if (status == TESS_OK || h->status != TESS_OK)
        return;
    h->status = status;
    snprintf(h->message, sizeof(h->message), "%s", tess_error_message());
}

tess_status tess_home_settle(tess_home *h, tess_home_span *span)
{
    TESS_CHECK(h->status == TESS_OK, h->status, "%s", h->message);
    if (span->place == NULL)
        return TESS_OK;
    TESS_TRY(home_place_settle(h, span->place));
    return span->copies_back ? tess_stream_synchronize(h->down) : TESS_OK; /* returns the error of a failed copy */
}

/* ---- Creation ---- */
static tess_status open_copies(tess_home *h)
{
    TESS_TRY(tess_device_stream(h->device, 1, NULL, &h->up));
    TESS_TRY(tess_device_stream(h->device, 1, NULL, &h->down));
    tess_stream_set_name(h->up, "upload");
    tess_stream_set_name(h->down, "download");
    TESS_TRY(tess_event_create(h->device, &h->changed));
    TESS_TRY(tess_event_create(h->device, &h->back));
    return tess_event_create(h->device, &h->copied);
}

tess_status tess_home_create(const tess_home_options *o, tess_home **out)
{
    tess_home *h;
    *out = NULL;
    TESS_TRY(TESS_NEW(o->mem, 1, "home of state", &h));
    *h = (tess_home){.n_users = 1,
                     .mem = o->mem,
                     .pager = tess_mem_pager(o->mem),
                     .stream = o->stream,
                     .away = o->away,
                     .is_private = o->is_private,
                     .n_generations = 1};
    if (o->stream != NULL && !tess_device_get_properties(tess_stream_device(o->stream))->host_memory) {
        h->device = tess_stream_device(o->stream);
        h->n_generations = tess_mem_has_store(o->mem) && !o->is_private ? HOME_GENERATIONS : 1;
    }
    tess_status status = h->device != NULL ? open_copies(h) : TESS_OK;
    if (status != TESS_OK)
        tess_home_destroy(&h);
    *out = h;
    return status;
}

tess_home *tess_home_share(tess_home *h)
{
    h->n_users++;
    return h;
}

void tess_home_destroy(tess_home **home)
{
    tess_home *h = TESS_GIVE(*home);
    if (h == NULL || --h->n_users > 0)
        return;
    tess_stream_destroy(&h->up); /* first, because they may still copy */
    tess_stream_destroy(&h->down);
    while (h->blocks != NULL)
        tess_home_free(h, h->blocks);
    home_places_free(h);
    home_unpin_all(h);
    tess_event_destroy(&h->changed);
    tess_event_destroy(&h->back);
    tess_event_destroy(&h->copied);
    tess_mem_free(h->mem, h);
}

tess_stream *tess_home_stream(const tess_home *h, bool back)
{
    return back ? h->down : h->up;
}
