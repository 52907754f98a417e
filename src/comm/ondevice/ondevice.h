/* Operations on memory of the device.
 *
 * Each is a work of its team like any other: numbered, recorded, in flight with those on host memory. Only start and
 * advance differ (tess_work.backend):
 *
 *   direct  meet   fingerprints are compared, as on host memory; a post says which window the rank shows, and where
 *           ready  all ranks' devices have come to what they show
 *           moved  one kernel (of each leaf step) has read the peers' windows
 *           left   all have; the windows may be written again
 *   staged  the device has copied what is shown to the host, the team's own backend does the operation there, and the
 *           device copies the result back
 *
 * Between the phases stand events of the device. The host asks for them when it progresses, so nothing is enqueued that
 * would wait for another rank, and a rank that does not come is found by the meeting's deadline. Every team has a
 * stream of its own. An operation's kernels are enqueued when it is its team's oldest, so streams hold one at a time.
 *
 *   ondevice.c          the device of a runtime; which operations are on it, and how they go
 *   device_windows.c    memory that peers read, as users ask for it
 *   window_share.c      showing it, and hiding it
 *   window_list.c       what is shown
 *   ondevice_direct.c   start and advance by windows
 *   ondevice_kernels.c  what is enqueued
 *   ondevice_staged.c   start and advance through the host
 *   ondevice_events.c   what is under way on the device */
#ifndef TESS_COMM_ONDEVICE_ONDEVICE_H
#define TESS_COMM_ONDEVICE_ONDEVICE_H

#include "comm/comm_impl.h"
#include "comm/device_windows.h"
#include "comm/shm/meeting.h"

typedef struct ondevice_window {
    struct ondevice_window *next;
    uint64_t number; /* number among the team's windows: equal on all ranks */
    uint8_t *memory;
    size_t bytes;
    bool owned;       /* allocated by tess_device_window_alloc */
    bool is_read;     /* the ranks of a host read each other's where they are */
    uint8_t *peers[]; /* (size of the team) this rank's address of what each rank shows; NULL: it has none */
} ondevice_window;

struct comm_device {
    tess_device *device;
    tess_stream *after;      /* operations come after its work */
    _Atomic int n_under_way; /* operations, of all teams */
    _Atomic int n_awaited;   /* those that wait for this rank's own device */
};

/* The state of a team for its operations on the device. */
struct comm_device_team {
    tess_stream *stream;
    tess_event *ready[CONTROL_IN_FLIGHT + 1]; /* by sequence */
    tess_event *moved;                        /* event of the oldest */
    bool *finite, *finite_seen;               /* memory of the device, and pinned */
    void *runs;                               /* descriptors of the oldest: runs, or steps */
    uint8_t *stage;                           /* pinned: what is staged of the oldest */
    size_t stage_bytes;
    uint8_t *sums_stage; /* the sums there */
    struct {
        const uint8_t *in;
        uint8_t *out;
        const tess_leaf_step *steps;
        float **sums; /* sums that the steps name */
        int n_sums;
    } given;                  /* the caller's pointers, while the work uses staged copies */
    ondevice_window *windows; /* under the team's lock */
    uint64_t n_windows;       /* windows so far */
};

static inline struct comm_device_team *ondevice_of(const tess_work *work)
{
    return work->team->on_device;
}

static inline const tess_kernels *ondevice_kernels(const tess_work *work)
{
    return tess_stream_kernels(ondevice_of(work)->stream);
}

static inline tess_event *ondevice_ready(const tess_work *work)
{
    return ondevice_of(work)->ready[work->fp.sequence % (CONTROL_IN_FLIGHT + 1)];
}

/* The window of the locked team that holds an address and that peers read; NULL: none. */
const ondevice_window *ondevice_find(const tess_team *team, const void *memory);
/* This rank's address of what `rank` shows in the work. */
const uint8_t *ondevice_peer(const tess_work *work, int rank);

/* Unmaps the peers' memory of a window; in windows that nobody hid. */
void ondevice_close_peers(const tess_team *team, ondevice_window *window);
void ondevice_forget_windows(tess_team *team);

/* Whether the work, its team's oldest, waits for this rank's own device. */
void ondevice_await(tess_work *work, bool waits);

/* True once the event has come, or the work has failed. */
bool ondevice_passed(tess_work *work, tess_event *event);

/* Collective over the team, which has begun: a block is opened by the ranks of its host. `status`: of what this rank
 * did before; `memory` may be NULL when that failed. `owned`: hiding frees it. `site`: of the user's call. */
tess_status ondevice_window_show(tess_team *team, tess_status status, void *memory, size_t bytes, bool owned,
                                 const char *what, const void *site);
/* NULL is fine, and so is memory that is not shown. */
void ondevice_window_hide(tess_team *team, void *memory, const void *site);
/* A new block, which is shown; hiding frees it. */
tess_status ondevice_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, const void *site,
                                  void **out);

/* This rank is the first of its host that cannot. can: (size of the team), the same on all ranks. */
bool ondevice_says_why(const tess_team *team, const int32_t *can);

/* Memory for n descriptors of the oldest work. */
tess_status ondevice_take_runs(const tess_work *work, size_t n, size_t size, void **runs);

/* Enqueues what the work does with windows, once all are ready. */
tess_status ondevice_enqueue(tess_work *work);
/* Looks for addends that are not finite, in a work whose data has moved. */
tess_status ondevice_look(tess_work *work);

extern const comm_backend ondevice_direct, ondevice_staged;

#endif
