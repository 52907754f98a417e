/* The private header of this folder.
 *
 * - home.c: the table of homes, and the use of spans
 * - home_places.c: memory of a device that spans use in turn
 * - home_pins.c: pinned memory of the host
 * - home_blocks.c: allocation of state, its copies and generations */
#ifndef TESS_DEVICE_HOME_HOME_IMPL_H
#define TESS_DEVICE_HOME_HOME_IMPL_H

#include "base/core/round_up.h"
#include "device/home/home.h"

enum { HOME_GENERATIONS = 2, HOME_PLACES = 2 };

/* Device memory for one span at a time. `ahead`: the span was brought, but nothing uses it yet. */
typedef enum home_hold { HOME_FREE, HOME_AHEAD, HOME_HELD } home_hold;

typedef struct home_place {
    struct home_place *next;
    char *data;
    size_t bytes;
    tess_pool pool;
    tess_home_span *span; /* the span whose values it has, or had last; NULL: none */
    home_hold hold;
    bool pages; /* the pager holds pages for the span's copies */
    uint64_t released;
    tess_event *copied, *used;
} home_place;

/* A range of host memory that copies have used, and whether it is pinned. */
typedef struct home_range {
    struct home_range *next;
    char *begin, *end;
    bool pinned; /* false: the system refused to pin it */
} home_range;

struct tess_home {
    int n_users;
    tess_status status; /* the first failure of a copy back */
    char message[256];
    tess_mem *mem;
    tess_pager *pager;
    tess_stream *stream;
    tess_device *device; /* NULL: computations use the host's memory */
    tess_stream *up, *down;
    unsigned away;
    bool is_private;
    home_place *places;
    uint64_t n_released;
    home_range *ranges;
    tess_home_pins pins;
    tess_home_block *blocks;
    int n_generations, now;
    bool advanced;       /* an update has written to the other generation */
    tess_event *changed; /* marks the moment from which blocks in device memory may be copied */
    tess_event *copied;  /* their copy to the host */
    tess_event *back;    /* copies back of spans, which may be those that the next span brings */
    bool under_way;      /* the copy of blocks to generation `now` */
};

static inline size_t home_aligned(size_t bytes)
{
    return tess_round_up(bytes, TESS_HOME_ALIGN);
}

static inline bool home_is_away(const tess_home *home, tess_pool pool)
{
    return home->device != NULL && (home->away >> pool & 1) != 0;
}

/* home_places.c: the row of homes that are away. */
tess_status home_place_bring(tess_home *home, tess_home_span *span);
tess_status home_place_wait(tess_home *home, tess_home_span *span);
tess_status home_place_let_go(tess_home *home, tess_home_span *span);
/* Waits for the place's copy, and gives its pages back to the pager. */
tess_status home_place_settle(tess_home *home, home_place *place);
/* Waits for the copies of all places. Spans that were brought but are not used are no longer here, because their values
 * at home are about to change. */
tess_status home_places_settle(tess_home *home);
void home_places_free(tess_home *home);

/* home_pins.c */
tess_status home_pin_parts(tess_home *home, const tess_home_span *span);
void home_unpin_all(tess_home *home);

#endif
