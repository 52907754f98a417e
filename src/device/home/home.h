/* Homes of state. State is memory that the computations of one stream use from time to time: weights, sums of
 * gradients, moments, the parameters of a unit. Between two uses it is at home. There are three homes, and each pool of
 * memory has one of them:
 *
 *   host    the host's memory, and the stream computes there
 *   device  the memory of the stream's device; the host may have copies, which it reads, writes and keeps
 *   away    the host's memory, while the device computes on a copy in its own memory
 *
 * The host's memory may be on disk, and it may outlive the process (base/mem/named.h). The caller need not know which
 * home a pool has: it brings what it will use, waits for it, and lets it go.
 *
 *            bring                  wait                    let go
 *   host     pager: fetch           pager: wait             pager: release
 *   device   -                      -                       -
 *   away     fetch, begin a copy    the copy is complete    copy back what was written, release
 *
 * Copies run on two streams of their own, one in each direction. One thread may use a home. */
#ifndef TESS_DEVICE_HOME_HOME_H
#define TESS_DEVICE_HOME_HOME_H

#include "base/mem/pager.h"
#include "device/device.h"

typedef struct tess_home tess_home;

enum { TESS_HOME_ALIGN = 256 }; /* alignment of the parts of a span on the device */

/* The copies of a span or a block that are valid. If both are, they are equal. */
enum { TESS_ON_HOST = 1, TESS_ON_DEVICE = 2 };

/* A range of state, as a computation uses it. */
typedef struct tess_home_part {
    void *at; /* its address at home; NULL: there is no such range, but the place has room for it */
    size_t bytes;
    tess_pool pool;
    tess_page_use use;
    void *here; /* its address for computations, from wait until let_go */
} tess_home_part;

/* Ranges that are used together. Zeroed members mean the default. */
typedef struct tess_home_span {
    tess_home_part *parts; /* (n_parts) the caller's */
    int n_parts;
    size_t room;      /* bytes of its place on the device; 0: those of its parts */
    int n_places;     /* number of places that the spans of this size share; 0: two */
    bool constant;    /* its values at home never change, so they remain valid in its place */
    bool pins;        /* pins the host's ranges at their first use; they must not move until destroy */
    bool advances;    /* writes go to the other generation (see below) */
    bool copies_back; /* the home sets this member and the next ones: some part is written */
    unsigned valid;
    struct home_place *place; /* the place that has its values; NULL: none */
} tess_home_span;

/* Creates the home of state that `stream` computes with (borrowed). stream NULL: the host's memory `mem`. away: pools
 * whose state is away if the device is apart, as bits 1 << tess_pool. is_private: no state outlives the process. */
typedef struct tess_home_options {
    tess_mem *mem;
    tess_stream *stream;
    unsigned away;
    bool is_private;
} tess_home_options;
tess_status tess_home_create(const tess_home_options *options, tess_home **home);
/* Another user, which also destroys it. */
tess_home *tess_home_share(tess_home *home);
/* The last user's call waits for all copies, and frees all memory. NULL is fine. */
void tess_home_destroy(tess_home **home);
/* Returns the device apart from the host that computes; NULL: the host computes. */
tess_device *tess_home_device(const tess_home *home);
bool tess_home_is_private(const tess_home *home);
/* Whether there are two generations (see below). */
bool tess_home_keeps(const tess_home *home);
/* Whether the device computes on copies of the pool's state. */
bool tess_home_is_away(const tess_home *home, tess_pool pool);

/* ---- Use ---- */
/* Begins to bring the span, if there is memory for it. May be called early, several times, or not at all. */
tess_status tess_home_bring(tess_home *home, tess_home_span *span);
/* The span is here: sets `here` of its parts. Operations that the stream is given afterwards may use it. */
tess_status tess_home_wait(tess_home *home, tess_home_span *span);
/* Ends the use by operations that the stream has been given, and takes home what they have written. Does nothing if
 * the span is not here. The next wait or settle returns its error. */
void tess_home_let_go(tess_home *home, tess_home_span *span);
/* Waits until no copy of the span reads or writes the host's memory. */
tess_status tess_home_settle(tess_home *home, tess_home_span *span);
/* The span's place forgets it, so that it may end, or its parts become other ranges. */
void tess_home_forget(tess_home *home, tess_home_span *span);

/* The stream of copies to the device, or back to the host. NULL: there is none. */
tess_stream *tess_home_stream(const tess_home *home, bool back);

/* The result of pinning. */
typedef struct tess_home_pins {
    size_t pinned_bytes, refused_bytes;
    char refusal[400]; /* the reason of the first refusal; "" if none */
} tess_home_pins;
const tess_home_pins *tess_home_pinned(const tess_home *home);

/* ---- Blocks of state ---- */
/* If state outlives the process and a device computes, the host has two generations of it, one for even steps and one
 * for odd steps. State in device memory is copied to one generation during the next step's forward and backward. State
 * that is away is read from one generation, and its update is written to the other. So one complete generation exists
 * at any time. The device's next update waits for the copy; the host waits only when it reads. Otherwise there is one
 * generation, and state in device memory is copied when the host asks for it. */
typedef struct tess_home_block {
    struct tess_home_block *next;
    tess_pool pool;
    size_t bytes;
    bool copied;   /* the host has copies of it from the start, which are kept */
    void *at;      /* its address at home, for parts of spans; with two generations, that of the first */
    void *copy[2]; /* the host's memory, of each generation */
    bool pinned[2];
    unsigned valid;
    bool differs;        /* away: what an update does not write may differ in the other generation */
    tess_home_part part; /* the whole block, as a span */
    tess_home_span span;
} tess_home_block;

/* Allocates zeroed state. `copied`: the host reads and keeps it. *found: an earlier process has left its values.
 * TESS_E_NOMEM, TESS_E_NO_SPACE: the message names it. */
tess_status tess_home_alloc(tess_home *home, tess_pool pool, bool copied, size_t bytes, const char *name,
                            tess_home_block **block, bool *found);
/* NULL is fine. */
void tess_home_free(tess_home *home, tess_home_block *block);

/* Returns the block with this address, at home or here. NULL: there is none. */
tess_home_block *tess_home_find(const tess_home *home, const void *at);
/* Returns the host's memory of a block, without updating it. NULL: it has none. */
void *tess_home_copy_of(const tess_home *home, const tess_home_block *block);
/* Brings the host's copies of all `copied` blocks up to date, and waits for them. */
tess_status tess_home_refresh(tess_home *home);
/* show: begins to copy one block to the host. return: begins to copy what the host has changed there to the device.
 * tess_home_settle_all waits for these copies. */
tess_status tess_home_show(tess_home *home, tess_home_block *block);
tess_status tess_home_return(tess_home *home, tess_home_block *block);
tess_status tess_home_settle_all(tess_home *home);
/* The host has changed the copies of `copied` blocks, after it has refreshed them: copies them to the device. */
tess_status tess_home_upload(tess_home *home);

/* The state is about to be updated, and has been updated. */
tess_status tess_home_update_begin(tess_home *home);
tess_status tess_home_update_end(tess_home *home);
/* Begins to keep the state of `step`, next to that of the step before, which stays valid; nothing if there is one
 * generation. kept: waits until it is kept. The next update overwrites the step before. */
tess_status tess_home_keep(tess_home *home, int64_t step);
tess_status tess_home_kept(tess_home *home);
/* Restores the state of `step` that an earlier process has kept. */
tess_status tess_home_restore(tess_home *home, int64_t step);

#endif
