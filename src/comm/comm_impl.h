/* Internal declarations of comm: the runtime, the team, and the function table of a backend. */
#ifndef TESS_COMM_COMM_IMPL_H
#define TESS_COMM_COMM_IMPL_H

#include "tessera/comm.h"

#include "comm/bad_addend.h"
#include "job/job_memory.h"
#include "device/stream.h"
#include "comm/pieces.h"
#include "comm/reduce.h"
#include "comm/shm/control.h"
#include "comm/volume.h"
#include "comm/work.h"

struct tess_environment; /* defined in job/environment.h */
typedef struct comm_backend comm_backend;
typedef struct comm_link comm_link;

#ifdef TESS_NO_GUARD
enum { COMM_IS_GUARDED = 0 };
#else
enum { COMM_IS_GUARDED = 1 };
#endif

enum {
    COMM_ERROR_BYTES = 1024,
    COMM_PLACES = 256,                /* number of call sites whose order a team remembers */
    COMM_LONGEST_SLEEP_NS = 50000000, /* maximum sleep of a waiting rank before it reads the board again */
    COMM_SITES = 128                  /* number of call addresses in shared objects that a team caches */
};

/* An allocation in the job's memory. */
typedef struct comm_region {
    struct comm_region *next;
    uint64_t offset; /* offset of the whole allocation */
    size_t bytes;    /* size of the whole allocation */
    size_t asked;    /* bytes that every rank of the team requested */
    uint8_t *local;  /* address that the caller uses */
    size_t counted;  /* bytes that this rank counts in `pool` */
    tess_pool pool;
    bool shared; /* one copy for all ranks; otherwise one window for each rank */
} comm_region;

/* State of a dry rank (dry/dry_runtime.h). `event` of its works is the number of the operation in `trace`, plus 1. */
typedef struct comm_dry {
    tess_mem *room;       /* addresses of windows and shared memory */
    tess_device *device;  /* device of windows; NULL: none yet */
    tess_control control; /* stands for the memory that a real team shares */
    tess_volume volume;
    struct tess_rehearsal *rehearsal; /* NULL: none (rehearsal/rehearsal.h) */
    struct tess_work_trace *trace;    /* NULL: none (device/dry/work_trace.h) */
    bool tells_moments;               /* phases are the moments of the memory's peak (base/mem/dry_mem.h) */
} comm_dry;

struct tess_runtime {
    int rank, world, n_threads;
    int n_spins;       /* number of polls before a waiting rank yields */
    int n_yields;      /* number of polls after those, each after a yield; then the rank sleeps */
    uint64_t sleep_ns; /* maximum sleep of a waiting rank */
    bool owns_fd;      /* the runtime closes the descriptor of the job's memory */
    bool launched;     /* a launcher or a warden watches this rank */
    int *processes;    /* MPI rank of each rank, if the job spans several hosts */
    int warden;        /* socket to the warden, if MPI started this rank and it has a warden */
    double timeout_s;
    tess_kernels_offer offer;   /* kernel tables that this rank offers, before all ranks have met */
    const char *kernels;        /* name of the kernel table that all ranks use */
    char kernels_vote[256];     /* why it is not the best table that some rank has; "": it is the best */
    struct tess_tuning *tuning; /* tuning table; NULL: none */
    bool native_reductions;     /* MPI computes the sums between hosts */
    tess_status (*submit)(tess_work *work,
                          tess_work **handle); /* called instead of tess_work_post; NULL: tess_work_post is called */
    comm_observer observer;                    /* all zero: no observer */
    comm_dry *dry;                             /* NULL: the rank is real */
    tess_mem *mem;
    tess_stream *stream; /* stream for the arithmetic of collectives; has one thread */
    tess_status (*place)(
        /* chooses the backend of a work that was begun but not posted; NULL: there is no device */
        tess_work *work);
    struct comm_device *device;        /* NULL: collectives accept host memory only (ondevice/) */
    struct tess_persist *persist;      /* this rank's persistent memory; NULL: none (job/persist/persist.h) */
    struct tess_persist *persist_disk; /* this rank's persistent memory on disk */
    const struct comm_transport *transport;
    tess_job job;
    tess_job_row *row;
    tess_trace_ring *ring;
    bool ring_is_file;                    /* the ring is a file; otherwise it is in the job's memory */
    uintptr_t program_begin, program_end; /* address range of the program's code */
    tess_team *team;
    char agreed[1024]; /* message of the newest failure that ranks agreed on (agree.h) */
    int agreed_rank;
    uint64_t token; /* random word that peers read to test whether they can read this process */

    /* list_lock protects the regions and the objects of call sites, teams_lock the list of teams. A thread that has the
     * second progresses teams, whose works may take the first */
    atomic_flag list_lock, teams_lock;
    tess_team *teams;
    comm_region *regions;
};

/* A call site (post.site) where all members have met. */
typedef struct comm_place {
    uint32_t site; /* + 1 if ranks of this host have met ranks at another site */
    uint32_t next; /* site where all ranks meet next; 0: not known */
    bool has_many_next;
} comm_place;

/* A call address and the number of its call site (trace/call_site.h). */
typedef struct comm_site {
    const void *address;
    uint64_t number;
} comm_site;

/* Bytes that each rank contributes to a setup exchange through comm_lists.exchanged. */
enum { COMM_EXCHANGE_BYTES = 16 };

/* Returns the factor by which a rank sleeps longer between two reads of the board than in a small job. A read covers
 * a few words of all ranks. Without this factor, the total time of all reads would be quadratic in the number of
 * ranks. The sleep can end early, because a process that changes something wakes the sleepers. */
static inline uint64_t comm_patience(int world)
{
    return 1 + (uint64_t)world / 64;
}

/* Scratch memory of a team with one element for each member (unless the comment says otherwise), in one block. Only
 * the thread that holds the team's lock may use it. Nothing is kept there between two operations. */
typedef struct comm_lists {
    const void **rows;      /* addresses of the data that ranks show, to be summed */
    const void **moved;     /* scratch memory of the summation */
    void **results;         /* addresses of the results */
    tess_partial *partials; /* partial sums of a reduction over several hosts */
    uint64_t *set;          /* a set of ranks of the job, as bits */
    /* (size, COMM_EXCHANGE_BYTES) data of each rank in a setup exchange; only for the thread that sets up */
    uint8_t *exchanged;
    int *awaited; /* team ranks that a work waits for */
    int *listed;  /* scratch memory of comparisons and of setup */
    bool *named;  /* whether a list already contains the team rank */
} comm_lists;

struct tess_team {
    tess_team *next; /* next team in the runtime's list */
    tess_runtime *runtime;
    const comm_backend *backend;
    char name[JOB_TEXT_BYTES];
    int rank, size;
    int *ranks; /* (size) job rank of each member */
    comm_lists lists;
    uint64_t hash;
    uint64_t label; /* label for the next operations */
    uint64_t control_offset;
    tess_control *control;
    void *state;                        /* state of the backend; NULL: none */
    struct comm_device_team *on_device; /* state of operations on device memory; NULL: none yet */
    int n_local, local_index,
        local_first; /* number of members on this host, index of this rank among them, team rank of the first of them */
    double timeout_s;
    double bytes_per_s; /* recent speed of large operations; 0: not known */
    uint64_t sequence;  /* number of the next collective */
    uint64_t n_splits;
    int traffic; /* row of the rank's counts for teams of this name */

    /* held by the thread that works on the team: its user, or a thread that waits on another team and helps */
    atomic_flag lock;
    tess_status broken;
    char error[COMM_ERROR_BYTES];
    /* time when a rank of another host was first seen to have left while this rank waited for it; 0: never */
    double left_seen_s;
    double broken_seen_s; /* time when the team was first seen broken on a rank of another host; 0: never */

    tess_work *head, *tail; /* collectives in flight, oldest first */
    int n_in_flight;
    tess_work *messages; /* sends and receives in flight, oldest first */
    uint64_t n_messages; /* number of messages begun so far; it orders them in a channel */
    tess_work *spare;    /* unused handles, kept for reuse */

    comm_site sites[COMM_SITES];    /* cache indexed by address; a new entry replaces the old one */
    comm_place places[COMM_PLACES]; /* cache indexed by number; a new entry replaces the old one */
    uint32_t last_place;            /* site where all members met last; 0: none, or a site without a number */
    tess_bad_addend bad;            /* first bad addend found in the team's sums */

    /* Outcome of recent waits (wait_look.c). */
    int n_sleeps;              /* number of consecutive waits that ended in a sleep */
    int n_sleeps_to_patience;  /* number of sleeps after which the next wait polls longer; 0: the minimum */
    int n_waits_without_yield; /* number of waits that sleep at once because the last yield was slow */

    uint64_t slot_base[CONTROL_SLOTS]; /* number of arrivals in each slot before the operation that uses it now */
    uint64_t n_stages;                 /* total number of stages shown so far; equal on all ranks */
};

/* A backend implements how the ranks of a team meet and how an operation progresses. A function that may be NULL is
 * skipped if it is. */
struct comm_backend {
    const char *name;
    size_t work_bytes; /* size of tess_work_state */
    /* shared_bytes: returns the size of zeroed memory that a host needs for a team, in addition to the control area.
     * attach: receives that memory; collective over the team. detach: follows every attach, even a failed one. All
     * three may be NULL. */
    uint64_t (*shared_bytes)(int n_local);
    tess_status (*attach)(tess_team *team, uint8_t *shared);
    void (*detach)(tess_team *team);
    /* Whether the calling thread may work on the team. NULL: every thread may. */
    bool (*is_mine)(void);
    /* Posts the operation. Must not wait. */
    void (*start)(tess_work *work);
    /* Progresses the operation as far as possible without waiting. Returns true if it is complete or has failed
     * (work->status; the error is recorded). */
    bool (*advance)(tess_work *work);
    /* Lists the team ranks that an incomplete work waits for. Returns their number. */
    int (*missing)(const tess_work *work, int *ranks);
    /* Called when the team is broken: stops using the callers' buffers. May be NULL. */
    void (*give_up)(tess_team *team);
    /* Returns the link for messages to and from team rank `peer`. */
    const comm_link *(*link)(const tess_team *team, int peer);
};

/* A link implements the messages between two ranks. */
struct comm_link {
    /* Progresses a send or receive as far as possible without waiting. Returns true if it is complete or has failed. */
    bool (*advance)(tess_work *work);
    /* Cancels an incomplete send or receive when its team is broken. May be NULL. */
    void (*cancel)(tess_work *work);
};

extern const comm_backend tess_backend_self, tess_backend_shm, tess_backend_mpi;

/* The connection between the hosts of a job. */
typedef struct comm_transport {
    const char *(*name)(void); /* NULL: the backend's name is that of the job */
    /* maximum sleep of a waiting rank, because messages of other hosts do not wake it */
    uint64_t longest_sleep_ns;
    void (*poll)(void);                   /* called while a rank waits; NULL: nothing to progress */
    void (*leave)(tess_runtime *runtime); /* waits until all ranks may leave; NULL: each rank may leave at once */
} comm_transport;

/* ---- join.c ---- */
/* Fills in rank, world and the job's memory, as the launcher of this process provides them. */
tess_status tess_runtime_find_job(tess_runtime *runtime, const tess_runtime_options *options);

/* ---- recorder.c ---- */
void tess_recorder_begin(tess_runtime *runtime);
void tess_recorder_end(tess_runtime *runtime);

/* Takes this rank's seat, waits for all other ranks, and compares the values that must be equal. */
tess_status tess_runtime_join(tess_runtime *runtime, uint64_t config_hash);
/* Leaves the job in good order. */
void tess_runtime_part(tess_runtime *runtime);

/* ---- runtime.c ---- */
/* Lock and unlock lists of the runtime. */
void tess_list_lock(atomic_flag *lock);
void tess_list_unlock(atomic_flag *lock);
/* Whether `memory` lies in an allocation of tess_shared_alloc. */
bool tess_memory_is_shared(tess_runtime *runtime, const void *memory, size_t bytes);
/* Hashes the settings that choose how data moves between hosts. They must be equal on all ranks. */
uint64_t tess_runtime_ways_hash(const tess_runtime *runtime);

/* ---- team.c ---- */
void tess_team_lock(tess_team *team);
bool tess_team_try_lock(tess_team *team);
void tess_team_unlock(tess_team *team);

/* ---- team_create.c ---- */
/* Creates the handle for a control area that all members on this host know. Takes ownership of `ranks` (MISC pool).
 * Collective over the team if it spans hosts. */
tess_status tess_team_attach(tess_runtime *runtime, const char *name, int *ranks, int size, int rank, uint64_t hash,
                             uint64_t control_offset, tess_team **team);
/* Allocates the control area of the job's team. The host's first rank does so before it joins, so that every rank
 * finds the area once all have joined. */
tess_status tess_team_reserve_world(tess_runtime *runtime);

/* ---- team.c: call sites ---- */
/* Returns the number of the call site of a collective of the locked team; 0 for NULL. */
uint64_t tess_team_call_site(tess_team *team, const void *address);

/* ---- work_progress.c ---- */
/* Records an event in the ring and on the board. */
void tess_work_record(tess_work *work, tess_trace_state state);
/* Progresses everything in flight on the locked team. */
void tess_team_progress(tess_team *team);
/* Records the calling thread's error as the team's error, and returns the status. */
tess_status tess_team_break(tess_team *team, tess_status status, int blames);
/* Fails a send or receive whose two sides do not match. Always returns true. */
bool tess_message_fail_mismatch(tess_work *work, const tess_fingerprint *sent, const tess_fingerprint *wanted);

/* Puts an unused handle back into the team's list. */
static inline void tess_work_release(tess_work *work)
{
    work->next = work->team->spare;
    work->team->spare = work;
}

/* Returns the size of one rank's data according to the fingerprint. */
static inline uint64_t tess_work_bytes(const tess_work *work)
{
    return work->fp.count * tess_dtype_size((tess_dtype)work->fp.dtype);
}

/* ---- work_wait.c ---- */
/* Waits until the work is complete or has failed. The team must be locked. timeout_s 0: the team's deadline applies. */
void tess_work_wait_for(tess_work *work, double timeout_s);

/* Returns the stream for the work's arithmetic. Its kernels use neither threads nor scratch memory, so several
 * threads may share it. */
static inline tess_stream *tess_work_stream(const tess_work *work)
{
    return work->team->runtime->stream;
}

/* Records the status of a part of the work. The first failure is kept. */
static inline void tess_work_note(tess_work *work, tess_status status)
{
    if (work->status == TESS_OK)
        work->status = status;
}

/* Called when nothing progresses (trouble.c). Breaks the team if something is wrong. */
void tess_work_look_for_trouble(tess_work *work, double waited_s, double timeout_s);

/* Polls while the work is likely to complete soon (wait_look.c). Returns true if it is complete. `has_slept`: this
 * wait has slept before. */
bool tess_work_look(tess_work *work, bool has_slept);

/* Lists the team ranks that an incomplete work waits for, and returns their number. If this rank's own device is
 * late, the list is this rank. */
int tess_work_missing(const tess_work *work, int *ranks);

/* ---- ondevice/ondevice.c ---- */
/* Create and free the team's state for operations on the device. */
tess_status tess_ondevice_begin(tess_team *team);
void tess_ondevice_end(tess_team *team);

/* ---- ondevice/ondevice_message.c: sends and receives of device memory ---- */
extern const comm_link tess_link_on_device;
/* Whether the receiver can read the sent memory where it is: number of the window (from 1) and offset in it. */
bool tess_message_is_shown(const tess_work *work, uint64_t *window, uint64_t *offset);
/* Copies what a sender shows to work->out, of either kind. Returns true when that is done or has failed. */
bool tess_message_pull(tess_work *work, uint64_t window, uint64_t offset);
/* Makes the work's memory that of the host, because the link carries no other. Returns true when sent data is there, or
 * the work has failed. */
bool tess_message_to_host(tess_work *work);

/* ---- ondevice/ondevice_events.c ---- */
/* Called when an operation on the device is complete or has failed. */
void tess_ondevice_over(tess_work *work);
/* Whether an operation of any team waits for this rank's own device. */
bool tess_ondevice_is_late(const tess_runtime *runtime);
/* Called when a team breaks: waits until no enqueued work uses the buffers of its operations. */
void tess_ondevice_settle(const tess_team *team);
/* Returns the maximum sleep of a waiting rank: device events do not wake it. */
uint64_t tess_ondevice_sleep_ns(const tess_runtime *runtime, uint64_t most_ns);

/* ---- hosts/linked.c: teams over several hosts ---- */
/* Connects the ranks' GPUs through NCCL if all have it. Only the first call tries. Collective. */
tess_status tess_hosts_link(tess_team *team);
/* Closes the link, and those of messages. Collective if `orderly`. Does nothing for a team without links. */
void tess_hosts_unlink(tess_team *team, bool orderly);
bool tess_hosts_is_linked(const tess_team *team);
extern const comm_backend tess_backend_linked;

/* ---- bad_addend.c ---- */
/* Called if a sum of run->count elements of piece `piece` is not finite (rows[r] from team rank r). Records the
 * first rank whose addend is not finite, unless the team already has a record. */
void tess_bad_addend_look(tess_work *work, const void *const *rows, const tess_byte_run *run, size_t piece);

/* ---- collective.c: exchanges a few bytes during setup: all[r] = data of rank r, at most CONTROL_INLINE bytes ---- */
tess_status tess_team_exchange(tess_team *team, tess_trace_op kind, uint64_t count, uint64_t tag, const void *call_site,
                               const void *mine, void *all, size_t bytes);

/* ---- team_memory.c ---- */
/* A request for memory that the team's ranks on one host share. */
typedef struct comm_wanted {
    tess_trace_op kind; /* fingerprint of the call that requests it */
    uint64_t count, tag;
    const void *call_site;
    int maker; /* team rank that allocates the memory for this host; -1: this rank needs none */
    size_t bytes, align;
} comm_wanted;

/* Allocates on the maker ranks and gives the offset to all. If one rank fails, all return its status, and nothing
 * stays allocated. Collective over the team. */
tess_status tess_memory_agree(tess_team *team, const comm_wanted *wanted, uint64_t *offset);
/* Returns the offset of memory that all ranks can read, or CONTROL_PRIVATE. */
static inline uint64_t tess_offset_of(const tess_runtime *runtime, const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory, base = (uintptr_t)runtime->job.base;
    if (memory == NULL || at < base || bytes > runtime->job.bytes || at - base > runtime->job.bytes - bytes)
        return CONTROL_PRIVATE;
    return at - base;
}

/* ---- shm/reach.c: private memory of peers ---- */
/* Whether team rank `rank` may read private memory of the others, and `bytes` are enough to make that worthwhile. */
bool tess_can_reach(const tess_team *team, int rank, size_t bytes);
/* Copies private memory of `rank`. Returns false if it is unreadable: the rank has ended or is about to. */
bool tess_reach(const tess_team *team, void *to, int rank, uint64_t address, size_t bytes);

/* ---- hosts/hosts_join.c ---- */
/* Makes this process a rank of the job that MPI started: fills in rank, world, job and transport. Collective over
 * all processes. */
tess_status tess_hosts_join(tess_runtime *runtime, const struct tess_environment *environment,
                            const tess_runtime_options *options);

#endif
