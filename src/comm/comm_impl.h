/* Internals of comm: the runtime, the team and the function table of a backend. */
#ifndef TESS_COMM_COMM_IMPL_H
#define TESS_COMM_COMM_IMPL_H

#include "tessera/comm.h"

#include "comm/bad_addend.h"
#include "job/job_memory.h"
#include "device/stream.h"
#include "comm/pieces.h"
#include "comm/reduce.h"
#include "comm/shm/control.h"
#include "comm/work.h"

struct tess_environment; /* job/environment.h */
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
    COMM_LONGEST_SLEEP_NS = 50000000, /* longest sleep of a waiting rank, before it reads the board again */
    COMM_SITES = 128                  /* addresses of calls from shared objects that it knows by number */
};

/* An allocation in the job's memory. */
typedef struct comm_region {
    struct comm_region *next;
    uint64_t offset; /* place of the whole allocation */
    size_t bytes;    /* size of the whole allocation */
    size_t asked;    /* bytes that every rank of the team asked for */
    uint8_t *local;  /* the caller's address of it */
    size_t counted;  /* bytes that this rank counts in `pool` */
    tess_pool pool;
    bool shared; /* one copy for all, as opposed to a window per rank */
} comm_region;

struct tess_runtime {
    int rank, world, n_threads;
    int n_spins;       /* polls of a waiting rank before it yields */
    int n_yields;      /* polls after those, with a yield before each; then it sleeps */
    uint64_t sleep_ns; /* longest sleep of a waiting rank */
    bool owns_fd;      /* the descriptor of the job's memory belongs to it */
    bool launched;     /* a launcher or a warden watches this rank */
    int *processes;    /* MPI's number of each rank, when the job is on several hosts */
    int warden;        /* its descriptor, when MPI started this rank and it has one */
    double timeout_s;
    tess_kernels_offer offer;   /* offer of this rank, before all have met */
    const char *kernels;        /* the table that all ranks take */
    char kernels_vote[256];     /* why it is not the best that a rank has; "": it is */
    struct tess_tuning *tuning; /* NULL: no table */
    bool native_reductions;     /* between hosts MPI adds */
    tess_status (*submit)(tess_work *work,
                          tess_work **handle); /* replaces tess_work_post; NULL: tess_work_post is called */
    comm_observer observer;                    /* zeroes: none */
    struct tess_rehearsal *rehearsal;          /* NULL: none (rehearsal.h) */
    tess_mem *mem;
    tess_stream *stream; /* stream of collectives: one thread */
    tess_status (*place)(
        tess_work *work);         /* chooses, if there is a device, how a work goes that was begun and not posted */
    struct comm_device *device;   /* NULL: collectives know memory of the host alone (ondevice/) */
    struct tess_persist *persist; /* this rank's persistent memory, NULL: none (job/persist/persist.h) */
    struct tess_persist *persist_disk; /* the same on disk */
    const struct comm_transport *transport;
    tess_job job;
    tess_job_row *row;
    tess_trace_ring *ring;
    bool ring_is_file;                    /* else it lies in the job's memory */
    uintptr_t program_begin, program_end; /* the program's own code */
    tess_team *team;
    char agreed[1024]; /* the newest failure that ranks agreed on (agree.h), and the rank that met it */
    int agreed_rank;
    uint64_t token; /* peers read it to test whether they can read this process */

    atomic_flag list_lock; /* protects teams and regions */
    tess_team *teams;
    comm_region *regions;
};

/* A call site (post.site) where all members have met. */
typedef struct comm_place {
    uint32_t site; /* + 1 when ranks here have met ranks at another site */
    uint32_t next; /* site of the next meeting of all, 0: not known */
    bool has_many_next;
} comm_place;

/* A call address and its number (trace/call_site.h). */
typedef struct comm_site {
    const void *address;
    uint64_t number;
} comm_site;

/* Bytes that each rank gives in an exchange of setup through comm_lists.exchanged. */
enum { COMM_EXCHANGE_BYTES = 16 };

/* How many times longer than in a small job a rank sleeps between two looks at the board. A look reads a few words of
 * all ranks, so without this factor the looks of all ranks would take time quadratic in their number. The sleep has an
 * early end: the process that changes something wakes the sleepers. */
static inline uint64_t comm_patience(int world)
{
    return 1 + (uint64_t)world / 64;
}

/* A team's memory for questions about all of its members, in one block. An array has an element for each member unless
 * the comment says otherwise. The thread that holds the team's lock may use it, and nothing stays in it between two
 * operations. */
typedef struct comm_lists {
    const void **rows;      /* addresses that ranks show, to be summed */
    const void **moved;     /* scratch of the summation */
    void **results;         /* addresses of the sum */
    tess_partial *partials; /* parts of a sum over several hosts */
    uint64_t *set;          /* a set of ranks of the job */
    uint8_t *exchanged;     /* (size, COMM_EXCHANGE_BYTES) what ranks gave; for the thread that sets up */
    int *awaited;           /* team ranks that a work waits for */
    int *listed;            /* scratch of a comparison, and of setup */
    bool *named;            /* team ranks that a list has already */
} comm_lists;

struct tess_team {
    tess_team *next; /* next in the runtime's list */
    tess_runtime *runtime;
    const comm_backend *backend;
    char name[JOB_TEXT_BYTES];
    int rank, size;
    int *ranks; /* the job's number of each member */
    comm_lists lists;
    uint64_t hash;
    uint64_t label; /* label of the next operations */
    uint64_t control_offset;
    tess_control *control;
    void *state;                        /* the backend's, NULL: none */
    struct comm_device_team *on_device; /* state of operations on memory of the device, NULL: none yet */
    int n_local, local_index,
        local_first; /* members on this host, this rank's place among them, team rank of the first */
    double timeout_s;
    double bytes_per_s; /* recent speed of large operations, 0: not known */
    uint64_t sequence;  /* number of the next collective */
    uint64_t n_splits;

    atomic_flag lock; /* held by the thread at work on the team: its user, or a waiter of another team that helps */
    tess_status broken;
    char error[COMM_ERROR_BYTES];
    double left_seen_s;   /* when a rank of another host, while this rank waited for it, was first seen to have left; 0:
                             not */
    double broken_seen_s; /* when the team was first seen broken on a rank of another host, 0: not */

    tess_work *head, *tail; /* collectives in flight, oldest first */
    int n_in_flight;
    tess_work *messages; /* sends and receives in flight, oldest first */
    uint64_t n_messages; /* begun so far: their order in a channel */
    tess_work *spare;    /* handles to use again */

    comm_site sites[COMM_SITES];    /* cache by address, the newest stays */
    comm_place places[COMM_PLACES]; /* cache by number, the newest stays */
    uint32_t last_place;            /* site where all met last, 0: none, or one without a number */
    tess_bad_addend bad;            /* the first of its sums */

    /* Outcome of recent waits (wait_look.c). */
    int n_sleeps;              /* waits in a row that ended in a sleep */
    int n_sleeps_to_patience;  /* sleeps after which the next wait polls longer; 0: the least */
    int n_waits_without_yield; /* waits that sleep at once because the last yield was slow */

    uint64_t slot_base[CONTROL_SLOTS]; /* arrivals in the slot before the operation that uses it now */
    uint64_t n_stages;                 /* stages shown so far, ever: equal on all ranks */
};

/* A backend: how the ranks of a team meet, and how an operation progresses. A function that may be NULL has nothing to
 * do then. */
struct comm_backend {
    const char *name;
    size_t work_bytes; /* size of tess_work_state */
    /* shared_bytes: bytes of a host's zeroed memory for a team in addition to its control area. attach gets that
     * memory; it is collective over the team. detach follows attach, also after it failed. All three may be NULL. */
    uint64_t (*shared_bytes)(int n_local);
    tess_status (*attach)(tess_team *team, uint8_t *shared);
    void (*detach)(tess_team *team);
    /* Whether the calling thread may work on the team. NULL: any may. */
    bool (*is_mine)(void);
    /* Posts the operation; must not wait. */
    void (*start)(tess_work *work);
    /* Progresses as far as possible without waiting. True: complete, or failed (work->status; the error is recorded).
     */
    bool (*advance)(tess_work *work);
    /* Team ranks that an incomplete work waits for; returns how many. */
    int (*missing)(const tess_work *work, int *ranks);
    /* The team is broken: buffers go back to their owners. May be NULL. */
    void (*give_up)(tess_team *team);
    /* The link for messages to and from team rank `peer`. */
    const comm_link *(*link)(const tess_team *team, int peer);
};

/* How a message goes from rank to rank. */
struct comm_link {
    /* Progresses a send or receive as far as possible without waiting; true: complete or failed. */
    bool (*advance)(tess_work *work);
    /* Abandons an incomplete send or receive: its team is broken. May be NULL. */
    void (*cancel)(tess_work *work);
};

extern const comm_backend tess_backend_self, tess_backend_shm, tess_backend_mpi;

/* How the hosts of a job are connected. */
typedef struct comm_transport {
    uint64_t longest_sleep_ns;            /* longest sleep of a waiting rank: messages of other hosts do not wake it */
    void (*poll)(void);                   /* called while a rank waits. NULL: nothing to progress */
    void (*leave)(tess_runtime *runtime); /* waits until all ranks may leave. NULL: each may at once */
} comm_transport;

/* ---- join.c ---- */
/* Fills in rank, world and the job's memory, as the process's starter gives them. */
tess_status tess_runtime_find_job(tess_runtime *runtime, const tess_runtime_options *options);

/* ---- recorder.c ---- */
void tess_recorder_begin(tess_runtime *runtime);
void tess_recorder_end(tess_runtime *runtime);

/* Takes this rank's seat, waits for all others and compares what must be common. */
tess_status tess_runtime_join(tess_runtime *runtime, uint64_t config_hash);
/* Leaves it in good order. */
void tess_runtime_part(tess_runtime *runtime);

/* ---- runtime.c ---- */
/* Protects the runtime's lists of teams and regions. */
void tess_runtime_lock(tess_runtime *runtime);
void tess_runtime_unlock(tess_runtime *runtime);
/* True when `memory` lies in an allocation of tess_shared_alloc. */
bool tess_memory_is_shared(tess_runtime *runtime, const void *memory, size_t bytes);
/* Hash of the settings that choose how data moves between hosts; all ranks need the same. */
uint64_t tess_runtime_ways_hash(const tess_runtime *runtime);

/* ---- team.c ---- */
void tess_team_lock(tess_team *team);
bool tess_team_try_lock(tess_team *team);
void tess_team_unlock(tess_team *team);

/* ---- team_create.c ---- */
/* Makes the handle for a control area that all members on this host know. Takes ownership of `ranks` (MISC pool).
 * Collective over the team when it spans hosts. */
tess_status tess_team_attach(tess_runtime *runtime, const char *name, int *ranks, int size, int rank, uint64_t hash,
                             uint64_t control_offset, tess_team **team);
/* Allocates the control area of the job's team. The host's first rank does so before it joins: once all have joined,
 * all find it. */
tess_status tess_team_reserve_world(tess_runtime *runtime);

/* ---- team.c: call sites ---- */
/* The number of the call site of a collective of the locked team; NULL: 0. */
uint64_t tess_team_call_site(tess_team *team, const void *address);

/* ---- work_progress.c ---- */
/* Puts an event into the ring and the board. */
void tess_work_record(tess_work *work, tess_trace_state state);
/* Progress of everything in flight, on the locked team. */
void tess_team_progress(tess_team *team);
/* Records the calling thread's error as the team's; returns the status. */
tess_status tess_team_break(tess_team *team, tess_status status, int blames);
/* Fails a send or receive whose two sides do not match. Returns true. */
bool tess_message_fail_mismatch(tess_work *work, const tess_fingerprint *sent, const tess_fingerprint *wanted);

/* Returns an unused handle to the team. */
static inline void tess_work_release(tess_work *work)
{
    work->next = work->team->spare;
    work->team->spare = work;
}

/* Bytes of one rank's data, by the fingerprint. */
static inline uint64_t tess_work_bytes(const tess_work *work)
{
    return work->fp.count * tess_dtype_size((tess_dtype)work->fp.dtype);
}

/* ---- work_wait.c ---- */
/* Waits until the work is complete or failed. The team is locked. timeout_s 0: the team's deadline. */
void tess_work_wait_for(tess_work *work, double timeout_s);

/* The stream for the work's arithmetic. Its kernels use neither threads nor scratch memory, so threads may share it. */
static inline tess_stream *tess_work_stream(const tess_work *work)
{
    return work->team->runtime->stream;
}

/* Records the status of a part of the work; the first failure stays. */
static inline void tess_work_note(tess_work *work, tess_status status)
{
    if (work->status == TESS_OK)
        work->status = status;
}

/* Called when nothing progresses (trouble.c). Breaks the team when something is wrong. */
void tess_work_look_for_trouble(tess_work *work, double waited_s, double timeout_s);

/* Polls while the work is likely to be done soon (wait_look.c); true: it is done. `has_slept`: this wait has slept
 * before. */
bool tess_work_look(tess_work *work, bool has_slept);

/* Team ranks that an incomplete work waits for; returns how many. This rank itself, when its device is late. */
int tess_work_missing(const tess_work *work, int *ranks);

/* ---- ondevice/ondevice.c ---- */
/* Makes what the team needs for operations on the device; takes it away. */
tess_status tess_ondevice_begin(tess_team *team);
void tess_ondevice_end(tess_team *team);

/* ---- ondevice/ondevice_events.c ---- */
/* One of its operations is complete or failed. */
void tess_ondevice_over(tess_work *work);
/* An operation of some team waits for this rank's own device. */
bool tess_ondevice_is_late(const tess_runtime *runtime);
/* A team that breaks waits until nothing enqueued uses its operations' buffers. */
void tess_ondevice_settle(const tess_team *team);
/* The longest sleep of a waiting rank: no event of a device wakes it. */
uint64_t tess_ondevice_sleep_ns(const tess_runtime *runtime, uint64_t most_ns);

/* ---- hosts/linked.c: teams over several hosts ---- */
/* Connects the ranks' GPUs through NCCL, where all have it; the first call tries. Collective. */
tess_status tess_hosts_link(tess_team *team);
/* Collective when `orderly`. A team without a link: nothing. */
void tess_hosts_unlink(tess_team *team, bool orderly);
bool tess_hosts_is_linked(const tess_team *team);
extern const comm_backend tess_backend_linked;

/* ---- bad_addend.c ---- */
/* Called when a sum of run->count elements of piece `piece` (rows[r] from team rank r) is not finite. Records the first
 * rank whose addend was not, unless the team has a record. */
void tess_bad_addend_look(tess_work *work, const void *const *rows, const tess_byte_run *run, size_t piece);

/* ---- collective.c: exchange of a few bytes (setup): all[r] = what rank r gave; at most CONTROL_INLINE bytes each
 * ---- */
tess_status tess_team_exchange(tess_team *team, tess_trace_op kind, uint64_t count, uint64_t tag, const void *call_site,
                               const void *mine, void *all, size_t bytes);

/* ---- team_memory.c ---- */
/* Memory for the team's ranks on one host to share. */
typedef struct comm_wanted {
    tess_trace_op kind; /* the fingerprint of the call that wants it */
    uint64_t count, tag;
    const void *call_site;
    int maker; /* team rank that allocates it for this host; -1: this rank needs none */
    size_t bytes, align;
} comm_wanted;

/* Collective over the team: makers allocate, and all get the offset. When one fails, all return its status and nothing
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

/* ---- shm/reach.c: private memory of peers ---- */
/* True when team rank `rank` may read private memory of the others, and `bytes` are enough for it to pay. */
bool tess_can_reach(const tess_team *team, int rank, size_t bytes);
/* Copies private memory of `rank`. False: unreadable, so the rank has ended or is about to. */
bool tess_reach(const tess_team *team, void *to, int rank, uint64_t address, size_t bytes);

/* ---- hosts/hosts_join.c ---- */
/* Makes this process a rank of the job that MPI started: fills in rank, world, job and transport. Collective over all
 * processes. */
tess_status tess_hosts_join(tess_runtime *runtime, const struct tess_environment *environment,
                            const tess_runtime_options *options);

#endif
