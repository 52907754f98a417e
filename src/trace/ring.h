/* The event ring records what a rank did, newest last, in memory that outlives the rank.
 *
 * There is one ring per rank, in shared memory or in a file. Both have the same bytes: little-endian, a header of
 * 4096 bytes, then the events. The doctor reads and interprets rings. Writing takes no lock, makes no allocation,
 * and no system call but that of the clock; any thread of the rank may write. A reader, also after the rank's death,
 * accepts an event as complete if its `stamp` belongs to its slot. */
#ifndef TESS_TRACE_RING_H
#define TESS_TRACE_RING_H

#include <stdatomic.h>

#include "tessera/types.h"
#include "trace/trace_objects.h"

/* Numbers of operations are stable, because they are stored on disk. */
#define TESS_TRACE_OP_LIST(X)                                        \
    X(TESS_TRACE_NONE, 0, "none")                                    \
    X(TESS_TRACE_ALL_GATHER, 1, "all_gather")                        \
    X(TESS_TRACE_REDUCE_SCATTER, 2, "reduce_scatter")                \
    X(TESS_TRACE_ALL_REDUCE, 3, "all_reduce")                        \
    X(TESS_TRACE_BROADCAST, 4, "broadcast")                          \
    X(TESS_TRACE_ALL_TO_ALL, 5, "all_to_all")                        \
    X(TESS_TRACE_ALL_TO_ALL_V, 6, "all_to_all_v")                    \
    X(TESS_TRACE_GATHER, 7, "gather")                                \
    X(TESS_TRACE_SCATTER, 8, "scatter")                              \
    X(TESS_TRACE_SEND, 9, "send")                                    \
    X(TESS_TRACE_RECV, 10, "recv")                                   \
    X(TESS_TRACE_BARRIER, 11, "barrier")                             \
    X(TESS_TRACE_ALL_GATHER_PIECES, 12, "all_gather_pieces")         \
    X(TESS_TRACE_REDUCE_SCATTER_PIECES, 13, "reduce_scatter_pieces") \
    X(TESS_TRACE_TEAM_SPLIT, 14, "team_split")                       \
    X(TESS_TRACE_WINDOW_ALLOC, 15, "window_alloc")                   \
    X(TESS_TRACE_WINDOW_FREE, 16, "window_free")                     \
    X(TESS_TRACE_SHARED_ALLOC, 17, "shared_alloc")                   \
    X(TESS_TRACE_SHARED_FREE, 18, "shared_free")                     \
    X(TESS_TRACE_PHASE, 19, "phase")                                 \
    X(TESS_TRACE_REDUCE, 20, "reduce")                               \
    X(TESS_TRACE_OTHER, 21, "other") /* operation of another framework; the record names it */

typedef enum tess_trace_op {
#define X(name, number, text) name = number,
    TESS_TRACE_OP_LIST(X)
#undef X
        TESS_TRACE_OP_COUNT
} tess_trace_op;

typedef enum tess_trace_state {
    TESS_TRACE_ENQUEUED = 0,  /* this rank has submitted it */
    TESS_TRACE_STARTED = 1,   /* all ranks have submitted it */
    TESS_TRACE_COMPLETED = 2, /* it is over, and the caller owns the buffers again */
    TESS_TRACE_FAILED = 3
} tess_trace_state;

enum {
    TESS_TRACE_VERSION = 3,
    TESS_TRACE_HEADER_BYTES = 4096,
    TESS_TRACE_EVENT_BYTES = 128,
    TESS_TRACE_PHASE_BYTES = 23,
    TESS_TRACE_NAME_BYTES = 32,
    TESS_TRACE_HOST_BYTES = 64,
    TESS_TRACE_PROGRAM_BYTES = 512,
    TESS_TRACE_TEAMS = 48
};

/* One operation, or the beginning of a phase. An operation's event is added when it is submitted, and later states
 * update it. */
typedef struct tess_trace_event {
    _Atomic uint64_t stamp; /* 1 + the event's number; 0 while it is written */
    uint64_t time_ns;  /* monotonic clock: submission, or the phase's beginning; 0: the rank died before it set it */
    uint64_t team;     /* hash of the team */
    uint64_t sequence; /* number of the operation in its team */
    /* number of elements. Of a step's first phase: ns without a core although runnable so far; 0: not known */
    uint64_t count;
    uint64_t tag;
    uint64_t call_site; /* call site (call_site.h); 0: not known */
    uint64_t label;     /* the operation's label (label.h); 0: none */
    int64_t step, detail;
    uint64_t started_ns, completed_ns; /* 0: not yet; completed_ns is also set when it failed */
    int32_t root;                      /* root or peer; -1: none */
    uint8_t op;                        /* tess_trace_op */
    uint8_t state;
    uint8_t dtype;
    uint8_t reduce_op;
    char phase[TESS_TRACE_PHASE_BYTES];
    uint8_t in_dtype; /* input type of coalesced operations; otherwise the same as dtype */
} tess_trace_event;

/* The process that writes to the ring. */
typedef struct tess_trace_owner {
    int32_t pid, spare;
    uint64_t wall_ns, monotonic_ns; /* the same moment on both clocks: wall and monotonic */
    char host[TESS_TRACE_HOST_BYTES];
    char program[TESS_TRACE_PROGRAM_BYTES]; /* path of the program */
} tess_trace_owner;

/* A team that the rank belongs to. */
typedef struct tess_trace_team {
    uint64_t hash;
    int32_t size, position; /* number of members; the rank's index among them */
    char name[TESS_TRACE_NAME_BYTES];
} tess_trace_team;

typedef struct tess_trace_ring {
    char magic[8]; /* "TESSRING" */
    uint32_t version, event_bytes;
    uint32_t rank, world;
    uint64_t capacity; /* number of events, a power of two */
    tess_trace_owner owner;
    _Alignas(64) _Atomic uint64_t n_events; /* number of events ever added; event i is in slot i % capacity */
    /* number of teams that the rank joined; the first TESS_TRACE_TEAMS are stored */
    _Alignas(64) _Atomic uint32_t n_teams;
    tess_trace_team teams[TESS_TRACE_TEAMS];
    /* monotonic clock: the last time that the rank polled while it waited; 0: none yet */
    _Alignas(64) _Atomic uint64_t alive_ns;
    tess_trace_objects objects;
} tess_trace_ring;

/* Returns the bytes of a ring of `capacity` events. */
size_t tess_trace_bytes(uint64_t capacity);

/* Creates an empty ring in zeroed memory of tess_trace_bytes(capacity), aligned to 64. TESS_E_INVALID: capacity is
 * not a power of two. */
tess_status tess_trace_init(void *memory, uint64_t capacity, int rank, int world, tess_trace_ring **ring);

/* Creates an empty ring in a new file at `path`, which outlives its writer. Its bytes are reserved, so a full disk
 * is reported here (TESS_E_NO_SPACE) and does not crash a later store. Close with tess_trace_close. */
tess_status tess_trace_create(const char *path, uint64_t capacity, int rank, int world, tess_trace_ring **ring);
void tess_trace_close(tess_trace_ring **ring);

/* Makes the empty ring `to` continue the ring `from` of as many ranks: copies its owner, its teams and as many
 * events as fit. */
void tess_trace_copy(tess_trace_ring *to, const tess_trace_ring *from);

/* Adds a team. Only one thread may add teams to a ring. */
void tess_trace_add_team(tess_trace_ring *ring, uint64_t hash, const char *name, int size, int position);

/* Checks that memory or a mapped file holds a ring. TESS_E_FORMAT: the message says what is wrong. */
tess_status tess_trace_open(const void *memory, size_t bytes, const tess_trace_ring **ring);

/* Does the same for a file that may be truncated. *n_slots: number of complete event slots at its beginning;
 * `capacity`: all are complete. TESS_E_FORMAT also if the header is not complete. */
tess_status tess_trace_open_cut(const void *memory, size_t bytes, const tess_trace_ring **ring, uint64_t *n_slots);
/* Returns the number of events in the lost slots of a ring with `n_slots` complete slots. *newest: whether the
 * newest event is among them. */
uint64_t tess_trace_lost(const tess_trace_ring *ring, uint64_t n_slots, bool *newest);

/* Adds an event, and sets its stamp and time_ns. Returns its number. */
uint64_t tess_trace_emit(tess_trace_ring *ring, const tess_trace_event *event, uint64_t now_ns);
/* Adds a later state to an operation's event, unless a newer event has taken its slot. ENQUEUED sets the time of
 * submission. Only the thread that performs the operation may call it. */
void tess_trace_update(tess_trace_ring *ring, uint64_t number, tess_trace_state state, uint64_t now_ns);

/* Copies the newest events of the first `n_slots` slots (ring->capacity: all), at most `max`, oldest first. Leaves
 * out incomplete ones. Returns their number. */
size_t tess_trace_read(const tess_trace_ring *ring, uint64_t n_slots, tess_trace_event *events, size_t max);

/* These return names such as "all_gather" and "enqueued", never NULL. */
const char *tess_trace_op_name(int op);
const char *tess_trace_state_name(int state);

#endif
