/* Memory of the host that copies read and write again and again is pinned. If the parts of a span are contiguous and
 * fill whole pages, they are one range. */
#include <stdio.h>

#include "device/home/home_impl.h"
#include "base/mem/scoped.h"

/* Blocks of at least this size are on pages of their own (tessera/memory.h). */
enum { LEAST_PINNED = 4 << 20, PAGE = 4096 };

static void count_pinned(tess_home *h, const home_range *r, int sign)
{
    size_t *bytes = r->pinned ? &h->pins.pinned_bytes : &h->pins.refused_bytes;
    *bytes += (size_t)(sign * (r->end - r->begin));
}

/* Pins a range. A refusal is no error: copies work without pinning, only more slowly. */
static void pin_range(tess_home *h, home_range *r)
{
    r->pinned = tess_device_pin(h->device, r->begin, (size_t)(r->end - r->begin)) == TESS_OK;
    if (!r->pinned && h->pins.refusal[0] == '\0')
        snprintf(h->pins.refusal, sizeof(h->pins.refusal), "%s", tess_error_message());
    if (!r->pinned)
        tess_error_clear();
    count_pinned(h, r, 1);
}

static void unpin_range(tess_home *h, const home_range *r)
{
    if (r->pinned)
        tess_device_unpin(h->device, r->begin);
    count_pinned(h, r, -1);
}

/* Pins the range from `begin` to `end` at its first use. Spans of similar size reuse one buffer, so a range may have
 * to grow: then it is pinned again. */
static tess_status meet_range(tess_home *h, char *begin, char *end)
{
    home_range *r = h->ranges;
    if ((uintptr_t)begin % PAGE != 0 || end - begin < LEAST_PINNED)
        return TESS_OK;
    while (r != NULL && r->begin != begin)
        r = r->next;
    if (r == NULL) {
        TESS_TRY(TESS_NEW(h->mem, 1, "pinned range", &r));
        *r = (home_range){.next = h->ranges, .begin = begin, .end = begin};
        h->ranges = r;
    }
    if (end <= r->end)
        return TESS_OK;
    unpin_range(h, r);
    r->end = end;
    pin_range(h, r);
    return TESS_OK;
}

tess_status home_pin_parts(tess_home *h, const tess_home_span *span)
{
    char *begin = NULL, *end = NULL;
    for (int i = 0; i < span->n_parts; i++) {
        char *at = span->parts[i].at;
        if (at == NULL)
            continue;
        if (begin == NULL)
            begin = end = at;
        if (at < end || at - end >= PAGE)
            return TESS_OK;
        end = at + span->parts[i].bytes;
    }
    return begin != NULL ? meet_range(h, begin, end) : TESS_OK;
}

void home_unpin_all(tess_home *h)
{
    while (h->ranges != NULL) {
        home_range *r = h->ranges;
        h->ranges = r->next;
        unpin_range(h, r);
        tess_mem_free(h->mem, r);
    }
}

const tess_home_pins *tess_home_pinned(const tess_home *h)
{
    return &h->pins;
}
