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
 *   ondevice_message.c  sends and receives
 *   ondevice_events.c   what is under way on the device */
#ifndef TESS_COMM_ONDEVICE_ONDEVICE_H
#define TESS_COMM_ONDEVICE_ONDEVICE_H

#include "comm/comm_impl.h"
#include "comm/device_windows.h"
#include "comm/shm/meeting.h"

typedef struct ondevice_window {
    struct ondevice_window *next;
    uint64_t number; /* number of the window in the team; equal on all ranks */
    uint8_t *memory;
    size_t bytes;
    bool owned;       /* the block was allocated by tess_device_window_alloc */
    bool is_read;     /* the ranks of a host can read each other's memory directly */
    uint8_t *peers[]; /* (size of the team) address in this process of each rank's memory; NULL: not accessible */
} ondevice_window;

/* A pinned buffer for data that passes through the host. */
typedef struct ondevice_stage {
    uint8_t *memory;
    size_t bytes;
} ondevice_stage;

/* Events and memory of a message in flight. */
typedef struct ondevice_message {
    struct ondevice_message *next; /* next unused one of the team */
    tess_event *ready, *moved;
    tess_stream *stream; /* stream of the event `moved` */
    ondevice_stage stage;
    uint8_t *out;                  /* the caller's memory, while the work's `out` is the stage; otherwise NULL */
    bool is_staged, is_on_host;    /* the work's memory is the stage; sent data has arrived there */
    bool pulls;                    /* the copy from the sender's window is enqueued */
    const ondevice_window *window; /* window with the sent memory, if the receiver reads it there; otherwise NULL */
} ondevice_message;

struct comm_device {
    tess_device *device;
    tess_stream *after;                    /* operations run after the work of this stream */
    _Atomic int n_under_way;               /* number of operations in progress, of all teams */
    tess_status (*begin)(tess_team *team); /* tess_ondevice_begin, for messages: their file lies below it */
    _Atomic int n_awaited;                 /* number of operations that wait for this rank's own device */
};

/* State of a team for operations on the device. */
struct comm_device_team {
    tess_stream *stream;
    tess_event *ready[CONTROL_IN_FLIGHT + 1]; /* event of each operation, indexed by sequence number */
    tess_event *moved;                        /* event of the oldest operation */
    bool *finite, *finite_seen;               /* result flag in device memory, and its copy in pinned memory */
    void *runs;                               /* descriptors of the oldest operation: runs or steps */
    ondevice_stage stage;                     /* stage of the oldest operation */
    uint8_t *sums_stage;                      /* the sums inside `stage` */
    struct {
        const uint8_t *in;
        uint8_t *out;
        const tess_leaf_step *steps;
        float **sums; /* the distinct sums that the steps name */
        int n_sums;
    } given;                  /* the caller's pointers, while the work uses staged copies */
    ondevice_window *windows; /* list of windows, protected by the team's lock */
    tess_stream *messages;    /* stream for the copies of messages; NULL: there was none yet */
    ondevice_message *unused; /* events and memory that the next messages take */
    uint64_t n_windows;       /* number of windows created so far */
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

/* Returns the window of the locked team that contains `memory`, if peers read it; NULL: none. */
const ondevice_window *ondevice_find(const tess_team *team, const void *memory);
/* Returns the address in this process of the memory that `rank` shows in the work. */
const uint8_t *ondevice_peer(const tess_work *work, int rank);
/* Returns the address in this process of `rank`'s memory of a window. */
const uint8_t *ondevice_shown(const tess_team *team, uint64_t number, int rank);

/* ondevice_close_peers unmaps the peers' memory of one window. ondevice_forget_windows does so for all windows that
 * are still open. */
void ondevice_close_peers(const tess_team *team, ondevice_window *window);
void ondevice_forget_windows(tess_team *team);

/* Records whether the work, its team's oldest, waits for this rank's own device. */
void ondevice_await(tess_work *work, bool waits);

/* Whether the event has occurred, or the work has failed. */
bool ondevice_passed(tess_work *work, tess_event *event);
/* Called when the team has broken: waits a while for the stream's work. NULL: there is none. */
void ondevice_settle(const tess_team *team, tess_stream *stream);

/* Shows a block to the ranks of this host, which map it. Collective over the team, inside a begun call. `status`:
 * the result of this rank's earlier part; if it failed, `memory` may be NULL. `owned`: hiding frees the block.
 * `site`: address of the user's call. */
tess_status ondevice_window_show(tess_team *team, tess_status status, void *memory, size_t bytes, bool owned,
                                 const char *what, const void *site);
/* Hides a window. Ignores NULL, and memory that is not shown. */
void ondevice_window_hide(tess_team *team, void *memory, const void *site);
/* Allocates a new block and shows it. Hiding frees it. */
tess_status ondevice_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, const void *site,
                                  void **out);

/* Returns whether all ranks can: the same on all of them. can (size of the team): a number for each. If not, the first
 * rank of a host that cannot warns that `what` passes through the host. The reason is the calling thread's error. */
bool ondevice_all_can(const tess_team *team, const int32_t *can, const char *what);
void ondevice_warn(const tess_team *team, const char *what);
/* Makes the stage at least as large as the work needs. */
tess_status ondevice_take_stage(const tess_work *work, ondevice_stage *stage, size_t bytes, const char *what);

/* Waits until the enqueued copies of messages are done, and frees what the team keeps for messages. */
void ondevice_message_end(tess_team *team);

/* Provides memory for n descriptors of the oldest work. */
tess_status ondevice_take_runs(const tess_work *work, size_t n, size_t size, void **runs);

/* Enqueues the kernels of the work when all ranks are ready. */
tess_status ondevice_enqueue(tess_work *work);
/* Looks for addends that are not finite, in a work whose data has been moved. */
tess_status ondevice_look(tess_work *work);

extern const comm_backend ondevice_direct, ondevice_staged;

#endif
