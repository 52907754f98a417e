/* The event ring: what a rank did, newest last, in memory that outlives it.
 *
 * There is one ring per rank, in shared memory or a file: the same bytes in both (little-endian, header of 4096 bytes,
 * then the events). The ring only records; the doctor reads and interprets it. Writing takes no lock, no system call
 * but the clock's and no allocation; any thread of the rank may write. A reader in another process, or after the rank's
 * death, takes an event for whole when its `stamp` is the one that belongs to its slot. */
#ifndef TESS_TRACE_RING_H
#define TESS_TRACE_RING_H

#include <stdatomic.h>

#include "tessera/types.h"
#include "trace/trace_objects.h"

/* Numbers are stable: they are stored on disk. */
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
    X(TESS_TRACE_OTHER, 21, "other") /* an operation of another framework, named in the record */

typedef enum tess_trace_op {
#define X(name, number, text) name = number,
    TESS_TRACE_OP_LIST(X)
#undef X
        TESS_TRACE_OP_COUNT
} tess_trace_op;

typedef enum tess_trace_state {
    TESS_TRACE_ENQUEUED = 0,  /* this rank submitted it */
    TESS_TRACE_STARTED = 1,   /* all ranks had submitted it */
    TESS_TRACE_COMPLETED = 2, /* the caller owns the buffers again */
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

/* One operation, from its submission; later states are added to the same event. Or the beginning of a phase. */
typedef struct tess_trace_event {
    _Atomic uint64_t stamp; /* 1 + the event's number, 0 while it is written */
    uint64_t time_ns;       /* monotonic: submission, or the phase's beginning; 0: the rank died before it knew */
    uint64_t team;          /* hash */
    uint64_t sequence;      /* number of the operation inside its team */
    uint64_t count;         /* elements; in a step's first phase: ns runnable without a core so far, 0: unknown */
    uint64_t tag;
    uint64_t call_site; /* call_site.h; 0: not known */
    uint64_t label;     /* the operation's label (label.h), 0: none */
    int64_t step, detail;
    uint64_t started_ns, completed_ns; /* 0: not yet; completed or failed */
    int32_t root;                      /* or peer; -1: none */
    uint8_t op;                        /* tess_trace_op */
    uint8_t state;
    uint8_t dtype;
    uint8_t reduce_op;
    char phase[TESS_TRACE_PHASE_BYTES];
    uint8_t in_dtype; /* input type of coalesced operations; otherwise equal to dtype */
} tess_trace_event;

/* The process that writes the ring. */
typedef struct tess_trace_owner {
    int32_t pid, spare;
    uint64_t wall_ns, monotonic_ns; /* the same moment on both clocks */
    char host[TESS_TRACE_HOST_BYTES];
    char program[TESS_TRACE_PROGRAM_BYTES]; /* path */
} tess_trace_owner;

/* A team that the rank is a member of. */
typedef struct tess_trace_team {
    uint64_t hash;
    int32_t size, position; /* members; the rank's place among them */
    char name[TESS_TRACE_NAME_BYTES];
} tess_trace_team;

typedef struct tess_trace_ring {
    char magic[8]; /* "TESSRING" */
    uint32_t version, event_bytes;
    uint32_t rank, world;
    uint64_t capacity; /* events, a power of two */
    tess_trace_owner owner;
    _Alignas(64) _Atomic uint64_t n_events; /* ever emitted; event i lies at i % capacity */
    _Alignas(64) _Atomic uint32_t n_teams;  /* the first TESS_TRACE_TEAMS that the rank joined are stored */
    tess_trace_team teams[TESS_TRACE_TEAMS];
    _Alignas(64) _Atomic uint64_t alive_ns; /* monotonic: the rank's last poll while it waited; 0: none yet */
    tess_trace_objects objects;
} tess_trace_ring;

/* Bytes of a ring of `capacity` events. */
size_t tess_trace_bytes(uint64_t capacity);

/* Makes an empty ring in zeroed memory of tess_trace_bytes(capacity), aligned to 64. TESS_E_INVALID: capacity is not a
 * power of two. */
tess_status tess_trace_init(void *memory, uint64_t capacity, int rank, int world, tess_trace_ring **ring);

/* The same in a new file at `path` that outlives its writer. Its bytes are reserved, so that a full disk shows here
 * (TESS_E_NO_SPACE) and not at a store. Close with tess_trace_close. */
tess_status tess_trace_create(const char *path, uint64_t capacity, int rank, int world, tess_trace_ring **ring);
void tess_trace_close(tess_trace_ring **ring);

/* Makes an empty ring of as many ranks continue `from`: copies its owner, teams and events, as far as they fit. */
void tess_trace_copy(tess_trace_ring *to, const tess_trace_ring *from);

/* Adds a team. One writer per ring. */
void tess_trace_add_team(tess_trace_ring *ring, uint64_t hash, const char *name, int size, int position);

/* Checks memory or a mapped file that should hold a ring. TESS_E_FORMAT says what is wrong with it. */
tess_status tess_trace_open(const void *memory, size_t bytes, const tess_trace_ring **ring);

/* The same for a file that may have been cut off: its first *n_slots event slots are whole; `capacity`: all are.
 * TESS_E_FORMAT also when its header is not whole. */
tess_status tess_trace_open_cut(const void *memory, size_t bytes, const tess_trace_ring **ring, uint64_t *n_slots);
/* Number of events in the lost slots of a ring with `n_slots` whole ones; *newest: the newest event is among them. */
uint64_t tess_trace_lost(const tess_trace_ring *ring, uint64_t n_slots, bool *newest);

/* Adds one event with its stamp and time_ns set here. Returns its number. */
uint64_t tess_trace_emit(tess_trace_ring *ring, const tess_trace_event *event, uint64_t now_ns);
/* Adds a later state to an operation's event, unless a newer event has taken its slot; ENQUEUED: sets the time of its
 * submission. For the thread that works on the operation. */
void tess_trace_update(tess_trace_ring *ring, uint64_t number, tess_trace_state state, uint64_t now_ns);

/* Copies the newest events of the first `n_slots` slots (all: ring->capacity), at most `max`, oldest first, without
 * torn ones. Returns their number. */
size_t tess_trace_read(const tess_trace_ring *ring, uint64_t n_slots, tess_trace_event *events, size_t max);

/* "all_gather"; "enqueued". Never NULL. */
const char *tess_trace_op_name(int op);
const char *tess_trace_state_name(int state);

#endif
