/* Inside of comm: runtime, team, work and the table of functions that a backend fills. */
#ifndef TESS_COMM_COMM_IMPL_H
#define TESS_COMM_COMM_IMPL_H

#include "tessera/comm.h"

#include "comm/bad_addend.h"
#include "job/job_memory.h"
#include "device/stream.h"
#include "comm/pieces.h"
#include "comm/shm/control.h"
#include "comm/work.h"

typedef struct comm_backend comm_backend;
typedef struct comm_link comm_link;

#ifdef TESS_NO_GUARD
enum { COMM_IS_GUARDED = 0 };
#else
enum { COMM_IS_GUARDED = 1 };
#endif

enum {
    COMM_ERROR_BYTES = 1024,
    COMM_PLACES = 256,                /* call sites whose order a team remembers */
    COMM_LONGEST_SLEEP_NS = 50000000, /* of a rank that waits: then it looks at the board again */
    COMM_SITES = 128                  /* addresses of calls from shared objects that it knows by number */
};

/* What lies in the job's memory and where it came from. */
typedef struct comm_region {
    struct comm_region *next;
    uint64_t offset; /* of the whole allocation */
    size_t bytes;    /* of the whole allocation */
    size_t asked;    /* by every rank of the team */
    uint8_t *local;  /* what the caller got */
    size_t counted;  /* bytes that this rank counts */
    tess_pool pool;
    bool shared; /* one copy for all, as opposed to a window per rank */
} comm_region;

struct tess_runtime {
    int rank, world, n_threads;
    int n_spins;    /* looks of a waiting rank that keeps its core */
    int n_yields;   /* looks after those, each of which offers it to other ranks; then it sleeps */
    bool owns_fd;   /* of the job's memory */
    bool launched;  /* somebody outside, a launcher or a guard, watches this rank */
    int *processes; /* MPI's number of each rank, when the job is on several hosts */
    int guard;      /* descriptor of the guard, when MPI started it and it has one */
    double timeout_s;
    const char *kernels;
    struct tess_tuning *tuning;                                 /* NULL: as if there were no table */
    bool native_reductions;                                     /* between hosts MPI adds */
    tess_status (*submit)(tess_work *work, tess_work **handle); /* in place of tess_work_post; NULL: nothing is */
    comm_observer observer;                                     /* of zeroes: nobody */
    struct tess_rehearsal *rehearsal;                           /* NULL: no rehearsal is under way (rehearsal.h) */
    tess_mem *mem;
    tess_stream *stream;          /* of collectives: one thread, the kernel table of this rank */
    struct tess_persist *persist; /* this rank's kept memory, NULL: none (job/persist/persist.h) */
    const struct comm_transport *transport;
    tess_job job;
    tess_job_row *row;
    tess_trace_ring *ring;
    bool ring_is_file;                    /* else it lies in the job's memory */
    uintptr_t program_begin, program_end; /* where its own code lies */
    tess_team *team;
    uint64_t token; /* peers read it to see whether they can */

    atomic_flag list_lock; /* guards teams and regions */
    tess_team *teams;
    comm_region *regions;
};

/* A call site (post.site) where all members have met. */
typedef struct comm_place {
    uint32_t site; /* + 1 where others were met that called from elsewhere */
    uint32_t next; /* where all have met after it, 0: not known */
    bool has_many_next;
} comm_place;

/* An address that collectives are called from, as trace/call_site.h has it. */
typedef struct comm_site {
    const void *address;
    uint64_t number;
} comm_site;

struct tess_team {
    tess_team *next; /* in the runtime's list */
    tess_runtime *runtime;
    const comm_backend *backend;
    char name[JOB_TEXT_BYTES];
    int rank, size;
    int *ranks; /* the job's number of each member */
    uint64_t hash;
    uint64_t label; /* of the next operations */
    uint64_t control_offset;
    tess_control *control;
    void *state; /* the backend's, NULL: it has none */
    int n_local, local_index,
        local_first; /* members on this host, this rank's place among them, team rank of the first */
    double timeout_s;
    double bytes_per_s; /* of large operations, lately, 0: not known */
    uint64_t sequence;  /* of the next collective */
    uint64_t n_splits;

    atomic_flag lock; /* held by whoever works on the team: its user, or a waiter of another team that helps */
    tess_status broken;
    char error[COMM_ERROR_BYTES];
    double left_seen_s;   /* when a rank of another host was first seen to have left while it was waited for, 0: not */
    double broken_seen_s; /* when it was first seen broken on another host's rank, 0: not */

    tess_work *head, *tail; /* collectives in flight, oldest first */
    int n_in_flight;
    tess_work *messages; /* sends and receives in flight, oldest first */
    uint64_t n_messages; /* sent, ever: keeps the order of a channel */
    tess_work *spare;    /* handles to use again */

    comm_site sites[COMM_SITES];    /* by their addresses, the newest stays */
    comm_place places[COMM_PLACES]; /* by their numbers, the newest stays */
    uint32_t last_place;            /* where all have met last, 0: nowhere, or at one without a number */
    tess_bad_addend bad;            /* the first of its sums */

    /* How its waits went lately (wait_look.c). */
    int n_sleeps;              /* in a row that came to a sleep */
    int n_sleeps_to_patience;  /* so many, and the next one looks for longer; 0: the least */
    int n_waits_without_yield; /* the last yield was slow: go to sleep at once so many times */

    uint64_t slot_base[CONTROL_SLOTS]; /* arrivals in the slot before the operation that uses it now */
    uint64_t n_stages;                 /* stages shown so far, ever: equal on all ranks */
};

/* A backend: how the ranks of one team meet, and what an operation does from one look at it to the next. A function
 * that may be NULL has nothing to do then. */
struct comm_backend {
    const char *name;
    size_t work_bytes; /* of tess_work_state */
    /* Bytes of a host's part of a team beside its control area, and what a team has beside it, in zeroed memory.
     * Collective over the team. After a failure, too, detach follows. May be NULL, as the next. */
    uint64_t (*shared_bytes)(int n_local);
    tess_status (*attach)(tess_team *team, uint8_t *shared);
    void (*detach)(tess_team *team);
    /* Whether the calling thread may work on the team. NULL: any may. */
    bool (*is_mine)(void);
    /* Shows what was asked; must not wait. */
    void (*start)(tess_work *work);
    /* Goes on as far as possible without waiting. True: complete, or failed (work->status; the error is recorded). */
    bool (*advance)(tess_work *work);
    /* Team ranks that an incomplete work waits for; returns how many. */
    int (*missing)(const tess_work *work, int *ranks);
    /* The team is broken: buffers go back to their owners. May be NULL. */
    void (*give_up)(tess_team *team);
    /* How messages go to or come from team rank `peer`. */
    const comm_link *(*link)(const tess_team *team, int peer);
};

/* How a message goes from rank to rank. */
struct comm_link {
    /* Goes on with a send or receive as far as possible without waiting; true: complete or failed. */
    bool (*advance)(tess_work *work);
    /* Lets go of one that is not complete: its team is broken. May be NULL. */
    void (*cancel)(tess_work *work);
};

extern const comm_backend tess_backend_self, tess_backend_shm, tess_backend_mpi;
/* The backend of a team of which `n_local` members are on this host (backends.c). */
const comm_backend *tess_backend_choose(int size, int n_local);

/* What the ranks of a job have between their hosts. */
typedef struct comm_transport {
    uint64_t longest_sleep_ns;            /* of a rank that waits: messages of other hosts ring no bell */
    void (*poll)(void);                   /* while it waits. NULL: nothing is to be moved on */
    void (*leave)(tess_runtime *runtime); /* waits until all ranks may go. NULL: each may at once */
} comm_transport;

/* ---- join.c ---- */
/* Fills in rank, world and the job's memory, from whoever started this process. */
tess_status tess_runtime_find_job(tess_runtime *runtime, const tess_runtime_options *options);

/* ---- recorder.c ---- */
void tess_recorder_begin(tess_runtime *runtime);
void tess_recorder_end(tess_runtime *runtime);
/* Notes a shared object that call sites lie in. */
struct tess_object;
void tess_recorder_add_object(tess_runtime *runtime, const struct tess_object *object);

/* Takes this rank's seat, waits for all others and compares what must be common. */
tess_status tess_runtime_join(tess_runtime *runtime, uint64_t config_hash);
/* Leaves it in good order. */
void tess_runtime_part(tess_runtime *runtime);

/* ---- runtime.c ---- */
/* Guards the runtime's lists of teams and regions. */
void tess_runtime_lock(tess_runtime *runtime);
void tess_runtime_unlock(tess_runtime *runtime);
/* True when `memory` lies in an allocation of tess_shared_alloc. */
bool tess_memory_is_shared(tess_runtime *runtime, const void *memory, size_t bytes);
/* Of what must be equal for ranks to choose alike how data moves between hosts. */
uint64_t tess_runtime_ways_hash(const tess_runtime *runtime);

/* ---- team.c ---- */
void tess_team_lock(tess_team *team);
bool tess_team_try_lock(tess_team *team);
void tess_team_unlock(tess_team *team);

/* ---- team_create.c ---- */
/* Makes the handle for a control area that all members on this host know. Takes `ranks` over (from the MISC pool).
 * Collective over the team when it spans hosts. */
tess_status tess_team_attach(tess_runtime *runtime, const char *name, int *ranks, int size, int rank, uint64_t hash,
                             uint64_t control_offset, tess_team **team);
/* What the job's team meets in: the host's first rank gets it before it joins, so that all find it once all have. */
tess_status tess_team_reserve_world(tess_runtime *runtime);

/* team_sites.c: the number of the place that a collective of the locked team is called from; NULL: 0. */
uint64_t tess_team_call_site(tess_team *team, const void *address);

/* ---- work_progress.c ---- */
/* Puts an event into the ring and the board. */
void tess_work_record(tess_work *work, tess_trace_state state);
/* Progress of everything in flight, on the locked team. */
void tess_team_progress(tess_team *team);
/* Records the calling thread's error as the team's; returns the status. */
tess_status tess_team_break(tess_team *team, tess_status status, int blames);
/* Fails a message, which is one of the two: what was sent is not what was wanted. Returns true. */
bool tess_message_fail_mismatch(tess_work *work, const tess_fingerprint *sent, const tess_fingerprint *wanted);

/* Nobody uses the handle any more: the team may give it to another work. */
static inline void tess_work_release(tess_work *work)
{
    work->next = work->team->spare;
    work->team->spare = work;
}

/* Bytes of one rank's data, as the fingerprint has it. */
static inline uint64_t tess_work_bytes(const tess_work *work)
{
    return work->fp.count * tess_dtype_size((tess_dtype)work->fp.dtype);
}

/* ---- work_wait.c ---- */
/* The team is locked. Afterwards the work is done, well or not. timeout_s 0: the team's deadline. */
void tess_work_wait_for(tess_work *work, double timeout_s);

/* Where the work's arithmetic runs. Its rows take neither threads nor scratch memory, so threads may share it. */
static inline tess_stream *tess_work_stream(const tess_work *work)
{
    return work->team->runtime->stream;
}

/* The first failure of a part of the work fails it. */
static inline void tess_work_note(tess_work *work, tess_status status)
{
    if (work->status == TESS_OK)
        work->status = status;
}

/* Called when nothing moves (trouble.c). Breaks the team when something is wrong. */
void tess_work_look_for_trouble(tess_work *work, double waited_s, double timeout_s);

/* Looks for as long as the work is likely to be done soon (wait_look.c); true: it is. `has_slept`: this wait already
 * has. */
bool tess_work_look(tess_work *work, bool has_slept);

/* ---- bad_addend.c ---- */
/* For who has added run->count elements of piece `piece`, rows[r] from team rank r, and found no number among the
 * sums: keeps who gave the first, unless the team has one already. */
void tess_bad_addend_look(tess_work *work, const void *const *rows, const tess_byte_run *run, size_t piece);

/* ---- collective.c: exchange of a few bytes (setup): all[r] = what rank r gave; at most CONTROL_INLINE / size bytes
 * each ---- */
tess_status tess_team_exchange(tess_team *team, tess_trace_op kind, uint64_t count, uint64_t tag, const void *call_site,
                               const void *mine, void *all, size_t bytes);

/* ---- team_memory.c ---- */
/* Memory that those of a team who are on one host are to share. */
typedef struct comm_wanted {
    tess_trace_op kind; /* the fingerprint of the call that wants it */
    uint64_t count, tag;
    const void *call_site;
    int maker; /* team rank that allocates it for this host; -1: this rank needs none */
    size_t bytes, align;
} comm_wanted;

/* Collective over the team: makers allocate and all learn where. When one cannot (its status) all fail, and nothing
 * stays allocated. */
tess_status tess_memory_agree(tess_team *team, const comm_wanted *wanted, uint64_t *offset);
/* Offset of memory that all ranks can read, or CONTROL_PRIVATE. */
static inline uint64_t tess_offset_of(const tess_runtime *runtime, const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory, base = (uintptr_t)runtime->job.base;
    if (memory == NULL || at < base || bytes > runtime->job.bytes || at - base > runtime->job.bytes - bytes)
        return CONTROL_PRIVATE;
    return at - base;
}

#endif
