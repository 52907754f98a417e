/* A job's shared memory on one host: one sparse memfd, created by the launcher, or by the host's first rank when MPI
 * started the job. Every rank of the host maps all of it.
 *
 *     header | pasts of ranks | board (a row a rank) | sets of awaited ranks | event rings | logs of devices |
 *     heap: windows, shared memory, teams
 *
 * Only the number of ranks decides where the parts lie (tess_job_layout_of). A job over several hosts has one of these
 * on each. The board has rows for all ranks of the job. Rows of other hosts' ranks are copies, which the host's agent
 * (agent/) updates every tenth of a second.
 *
 * Addresses differ between processes, so everything in here refers to other things by their offset from the beginning.
 * Other programs (launcher, doctor) read the layout: a change raises JOB_VERSION. */
#ifndef TESS_JOB_JOB_MEMORY_H
#define TESS_JOB_JOB_MEMORY_H

#include <stdatomic.h>

#include "base/core/bits.h"
#include "job/fingerprint.h"
#include "job/traffic.h"
#include "tessera/clock.h"
#include "device/kernel_vote.h"
#include "tessera/memory.h"
#include "tessera/types.h"
#include "trace/notice.h"
#include "trace/stream_log.h"

enum {
    JOB_VERSION = 16,
    JOB_MAX_HOSTS = 128,
    JOB_OMITTED = 8, /* number of recorded steps whose evaluation is left out */
    JOB_FAULTS = 16, /* maximum number of faults in a drill */
    JOB_PAGE = 4096,
    JOB_HUGE_PAGE = 2 << 20,
    JOB_TEXT_BYTES = 32,
    JOB_NAME_BYTES = 64,
    JOB_ERROR_BYTES = 1024,
    JOB_RING_EVENTS = 16384,
    JOB_FOLDER_BYTES = 1024,
    JOB_WHY_BYTES = 256,
    JOB_HEAP_HOLES = 8192
};

#define JOB_MAGIC "TESSJOB" /* includes its NUL; written last, so a header that has it is complete */

typedef enum tess_rank_state {
    JOB_RANK_ABSENT, /* has not joined yet */
    JOB_RANK_JOINED,
    JOB_RANK_LEFT, /* has called tess_runtime_destroy */
    JOB_RANK_GONE, /* exited with code 0 without leaving: an error only for ranks that wait for it */
    JOB_RANK_LOST  /* died, or exited with another code */
} tess_rank_state;

/* One rank's row of the board. The rank writes it, and all processes of the job read it. Only the launcher writes
 * how the rank ended. */
typedef struct tess_job_row {
    _Alignas(64) _Atomic uint32_t doorbell; /* word that this rank sleeps on */
    _Atomic uint32_t n_sleeping;            /* number of its threads that may be sleeping */

    _Alignas(64) _Atomic uint32_t state; /* tess_rank_state */
    _Atomic int32_t pid;
    _Atomic int32_t signal, exit_code; /* valid once the process has ended; both 0 and LOST: lost with its host */
    _Atomic int32_t blames;            /* 1 + the rank that this rank's error names; 0: none */
    _Atomic uint64_t heartbeat_ns;
    int32_t host; /* index of the rank's host */
    /* state of the process as the agent sees it: 'R', 'S', 'D', 'T' of proc(5); 0: not known */
    _Atomic uint32_t run_state;
    _Atomic uint32_t ended;       /* 1: the process has ended (the state may have been LEFT long before) */
    _Atomic uint64_t broken_team; /* hash of the team that failed here (see error); 0: none */
    uint64_t config_hash, version_hash, program_hash;
    uint64_t ways_hash;  /* hash of the settings that decide how teams over hosts move data */
    uint64_t cores_hash; /* hash of the set of cores that the rank may use */
    tess_kernels_offer kernels;
    uint64_t token, token_address; /* a word of the rank's private memory, and its address */
    _Atomic uint32_t reads_peers;  /* 1: the rank can read private memory of all other ranks */
    _Atomic uint32_t awaits;       /* 1: the rank has left and waits for the recovery */
    _Atomic uint32_t heeds;        /* tess_stop_heed */

    _Alignas(64) _Atomic uint64_t phase[JOB_TEXT_BYTES / 8]; /* name of the current phase */
    _Atomic int64_t step, detail;
    _Atomic uint64_t phase_since_ns;

    _Alignas(64) _Atomic uint32_t op_version; /* odd while being written */
    _Atomic uint32_t op_state;                /* tess_trace_state of the newest operation */
    _Atomic uint64_t op[sizeof(tess_fingerprint) / 8];
    _Atomic uint64_t op_team[JOB_TEXT_BYTES / 8]; /* name of the operation's team */
    _Atomic uint64_t op_since_ns;                 /* time of the request */

    /* The operation in which the rank waits. It is set if the wait is longer than a short poll; tess_job_awaited
     * holds the ranks that have not come. */
    _Alignas(64) _Atomic uint64_t wait_since_ns; /* 0: the rank is not waiting */
    _Atomic uint32_t wait_version;               /* odd while being written */
    _Atomic uint64_t wait_op[sizeof(tess_fingerprint) / 8];
    _Atomic uint64_t wait_team[JOB_TEXT_BYTES / 8]; /* name of the operation's team */

    _Alignas(64) _Atomic uint64_t n_steps, n_tokens; /* set by tess_runtime_progress */
    /* values of the newest step; the loss is stored as the bits of a double */
    _Atomic uint64_t loss, step_ns;
    _Atomic uint64_t phase_ns[TESS_PHASE_COUNT]; /* sums over all steps */
    _Atomic uint64_t pool_bytes[TESS_POOL_COUNT];
    _Atomic uint64_t disk_bytes; /* bytes of all pools that are on disk; pool_bytes does not include them */
    _Atomic uint64_t stepped_ns; /* time of the newest step's end; 0: none yet */

    _Alignas(64) tess_traffic_row traffic[JOB_TRAFFIC];

    /* The reason why the rank does not come, as the watchdog of its host sees it from outside. */
    _Alignas(64) _Atomic uint32_t situation; /* tess_situation */
    _Atomic uint64_t situation_ns;           /* time when that was seen */
    _Atomic uint64_t why[JOB_WHY_BYTES / 8]; /* the reason as text */

    _Atomic int32_t status; /* tess_status with which the rank gives up; TESS_OK: it has not, or it reported none */
    _Alignas(64) char error[JOB_ERROR_BYTES]; /* error that comm returned to the rank; "": none */
} tess_job_row;

typedef struct tess_job_hole {
    uint64_t offset, bytes;
} tess_job_hole;

typedef enum tess_host_state {
    JOB_HOST_UNHEARD, /* its agent has not connected yet */
    JOB_HOST_UP,
    JOB_HOST_GONE,  /* one side closed the connection: its ranks are lost unless they had left */
    JOB_HOST_SILENT /* its agent was silent when MPI ended the job: its ranks are lost unless they had left */
} tess_host_state;

typedef struct tess_job_host {
    char name[JOB_NAME_BYTES];
    _Atomic uint32_t state;    /* tess_host_state */
    _Atomic uint64_t heard_ns; /* time when its agent last sent something, on this host's clock */
} tess_job_host;

typedef enum tess_agent_state {
    JOB_AGENT_NONE,  /* the job has one host, or the agent is not requested yet */
    JOB_AGENT_UP,    /* all hosts are connected */
    JOB_AGENT_FAILED /* agent_error contains the reason */
} tess_agent_state;

/* The way in which the ranks are asked to stop. */
typedef enum tess_stop_request {
    JOB_STOP_NO,
    JOB_STOP_NOW,        /* after the current step, which is then saved */
    JOB_STOP_AFTER_SAVE, /* after the next regular checkpoint */
    JOB_STOP_AT_STEP     /* after the step `stop_step`, which is then saved */
} tess_stop_request;

/* How a rank notices a request to stop. */
typedef enum tess_stop_heed {
    JOB_HEEDS_SIGNALS,    /* it has never polled for requests, so it gets a signal */
    JOB_HEEDS_INTERRUPTS, /* it has never polled for requests, and it handles SIGINT itself */
    JOB_HEEDS_REQUESTS    /* it polls for requests (tess_runtime_stop_requested) */
} tess_stop_heed;

/* The root cause of a job that failed, as the wardens of this host know it. */
typedef enum tess_diagnosis_state {
    JOB_DIAGNOSIS_NONE,
    JOB_DIAGNOSIS_WRITING,
    JOB_DIAGNOSIS_HERE,     /* a warden of this host reports it */
    JOB_DIAGNOSIS_ELSEWHERE /* a warden of another host reports it */
} tess_diagnosis_state;

/* The history of one rank number: its processes, and the faults of a drill that have happened to them. It is kept
 * through recoveries. The present process writes `happened`; tess_ending_note writes the rest when that process has
 * ended. */
typedef struct tess_rank_past {
    uint32_t n_before;            /* number of processes that had this rank before the present one */
    uint32_t faults_before;       /* set of faults that happened to one of those processes; bit 0 is fault 1 */
    int64_t happened[JOB_FAULTS]; /* how often each fault has happened to the present process */
} tess_rank_past;

typedef struct tess_job_header {
    char magic[8]; /* JOB_MAGIC */
    uint32_t version, world;
    uint32_t n_hosts, host; /* number of hosts of the job; index of this one */
    uint64_t bytes;         /* size of the whole memory */
    uint64_t heap;          /* offset of the heap */
    uint64_t world_team;  /* offset of the world team's shared state; 0: the host's first rank has not created it yet */
    int32_t launcher_pid; /* ancestor of all ranks of the host; 0: none (a job of one) */
    _Atomic uint32_t agent_state; /* tess_agent_state */
    char agent_error[JOB_ERROR_BYTES];
    /* process of the warden that finds the diagnosis for this host and is its agent */
    _Atomic int32_t agent_pid;
    _Atomic uint32_t diagnosis_state;               /* tess_diagnosis_state */
    _Atomic int32_t diagnosis_rank, diagnosis_code; /* valid if the state is HERE or ELSEWHERE */
    /* folder with the rings of this host's ranks; "": the rings are in this memory */
    char trace_folder[JOB_FOLDER_BYTES];
    tess_job_host hosts[JOB_MAX_HOSTS];
    _Atomic int32_t first_lost; /* first rank that was lost; -1: none */
    _Atomic uint32_t stop;      /* tess_stop_request */
    _Atomic int64_t stop_step;
    /* how often the job was restarted or recovered; survivors of a lost rank sleep on this word */
    _Atomic uint32_t epoch;
    _Atomic uint32_t recovers;    /* 1: the launcher may recover the job */
    _Atomic uint32_t is_over;     /* 1: the launcher will not recover the job */
    _Atomic uint64_t silence;     /* newest decision on silent hosts: twice its time in ns, + 1 for a loss; 0: none */
    _Atomic int64_t resumed_step; /* the step at which ranks continue after a recovery; -1: not known yet */
    _Atomic int64_t omitted[JOB_OMITTED]; /* steps whose evaluation is left out; 0: none */
    tess_notices notices;                 /* notices about the job, even from before recoveries */
    uint32_t faults_of_gone; /* set of faults that happened to ranks which only earlier lives of the job had */
    _Alignas(64) _Atomic uint32_t heap_lock; /* 1 + rank of the holder; 0: free */
    uint32_t n_holes;
    uint64_t heap_used, heap_limit;
    tess_job_hole holes[JOB_HEAP_HOLES]; /* free ranges, in ascending order */
} tess_job_header;

/* Offsets of the parts of a job's memory, and the size of each rank's share of them. */
typedef struct tess_job_layout {
    uint64_t pasts, rows, awaited, rings, device_logs, heap;
    uint64_t awaited_bytes, ring_bytes, device_log_bytes;
} tess_job_layout;

/* Returns the layout for a job of `world` ranks (at least 1). */
tess_job_layout tess_job_layout_of(int world);

typedef struct tess_job {
    tess_job_header *header; /* start of the mapping */
    tess_rank_past *past;    /* (world) */
    tess_job_row *rows;      /* (world) */
    uint8_t *base;
    size_t bytes;
    int fd;
    int world; /* number of ranks when the memory was mapped, because a broken program may change the header */
    tess_job_layout layout;
    struct tess_ending_room *room; /* scratch memory of this process for searches over all ranks (job/ending_room.h) */
} tess_job;

/* Creates the memory of a job of `world` ranks. Errors: TESS_E_INVALID: fewer than 1 rank; TESS_E_NOMEM. */
tess_status tess_job_create(int world, tess_job *job);
/* Maps the memory of `fd`. Returns TESS_E_INVALID if it is not a job of `world` ranks of this version. */
tess_status tess_job_open(int fd, int world, tess_job *job);
/* Resets the memory for a recovery, and wakes the ranks that wait for it (rejoin.c). Meanwhile, only the launcher
 * and those ranks may use the memory. */
tess_status tess_job_reset(tess_job *job);
/* Keeps the mapping out of processes that this one forks, or no longer: a helper that outlives the job would keep its
 * memory allocated. */
void tess_job_keep_from_forks(const tess_job *job, bool keep);
/* Unmaps the memory, and closes its descriptor if close_fd. */
void tess_job_close(tess_job *job, bool close_fd);

/* Completes *job for `world` ranks; header, base, bytes and fd must be set. On TESS_E_NOMEM, sets nothing. */
tess_status tess_job_attach(tess_job *job, int world);

/* Returns the set of ranks that `rank` waits for. It is valid while the rank's row shows a wait. */
_Atomic uint64_t *tess_job_awaited(const tess_job *job, int rank);

/* Returns the event ring of `rank` in this memory. It is unused if there is a trace folder. */
tess_trace_ring *tess_job_ring(const tess_job *job, int rank);

/* Returns the log of the streams of the rank's device. It consists of whole pages, written by the rank and its
 * device. */
tess_device_log *tess_job_device_log(const tess_job *job, int rank);

/* Returns the first rank of this host. Its warden finds the diagnosis for the host, and is its agent. */
int tess_job_first_rank(const tess_job *job);

/* ---- Doorbells: sleep until something that concerns this rank has changed ---- */
/* Wakes the sleeping threads of `rank`. Call it after the change. */
void tess_job_wake(const tess_job *job, int rank);
void tess_job_wake_all(const tess_job *job);
/* Sleep in this order: begin; check for the change; sleep only if it has not come; end. */
uint32_t tess_job_sleep_begin(const tess_job *job, int rank);
void tess_job_sleep(const tess_job *job, int rank, uint32_t ticket, uint64_t timeout_ns);
void tess_job_sleep_end(const tess_job *job, int rank);

/* ---- The board ---- */
void tess_board_phase(tess_job_row *row, const char *phase, int64_t step, int64_t detail, uint64_t now_ns);
/* Copies the phase of the row, shortened as in events. May be called by any thread. */
void tess_board_phase_of(const tess_job_row *row, char phase[TESS_TRACE_PHASE_BYTES]);
void tess_board_op(tess_job_row *row, const tess_fingerprint *fp, const char *team, uint64_t now_ns);
/* Updates the state of the newest operation. Does nothing if `fp` is no longer the newest. */
void tess_board_op_state(tess_job_row *row, const tess_fingerprint *fp, tess_trace_state state);
/* Stores the rank's error for the launcher's report. `blames`: rank of the job, or -1. */
void tess_board_error(tess_job_row *row, const char *message, int blames);

/* Shows that the rank waits. `missing`: the set of ranks that have not come; NULL: it is already on the board. The
 * board shows one waiting thread of the rank at a time. */
void tess_board_wait(const tess_job *job, int rank, const tess_fingerprint *fp, const char *team, uint64_t since_ns,
                     const uint64_t *missing);
void tess_board_wait_over(tess_job_row *row, const tess_fingerprint *fp);
/* Stores what the watchdog found. */
void tess_board_situation(tess_job_row *row, uint32_t situation, const char *why);

/* A copy of a row at one moment, with ages instead of times. Agents send it, and texts are made from it. */
typedef struct tess_board_copy {
    uint32_t state, ended, run_state, op_state;
    int32_t pid, signal, exit_code, blames;
    uint64_t age_ns;                               /* time since the rank's last heartbeat */
    uint64_t phase_age_ns, op_age_ns, wait_age_ns; /* time since each began; wait_age_ns 0: the rank is not waiting */
    uint32_t situation;
    int32_t status; /* tess_status */
    uint64_t broken_team;
    int64_t step, detail;
    uint64_t n_steps, n_tokens, loss, step_ns;
    uint64_t phase_ns[TESS_PHASE_COUNT], pool_bytes[TESS_POOL_COUNT], disk_bytes;
    char phase[JOB_TEXT_BYTES], op_team[JOB_TEXT_BYTES], wait_team[JOB_TEXT_BYTES];
    char why[JOB_WHY_BYTES];
    tess_fingerprint op, wait_op;
    char error[JOB_ERROR_BYTES];
} tess_board_copy;

void tess_board_export(const tess_job_row *row, tess_board_copy *copy);
/* Copies the set of ranks that `rank` waits for, if it waits. */
void tess_board_export_awaited(const tess_job *job, int rank, uint64_t *set);
/* Updates the row of a rank of another host from the copy. The caller updates tess_job_awaited before. A rank that
 * has left or ended never becomes active again. Returns true if sleepers must be woken: the state has changed, or
 * there is a new error or broken team. Each row has one writer. */
bool tess_board_import(const tess_job *job, int rank, const tess_board_copy *copy);

/* Formats "is in all_gather #6 of team 'world': ..., in phase 'backward' of step 12 (3), last seen 0.3 s ago"; in a
 * job of several hosts "on host h2 is ...". The caller puts "rank 3 " before it. Returns text. */
const char *tess_board_describe(const tess_job *job, int rank, char *text, size_t size);
/* Formats "in phase 'data' of step 812 (3)", with step and detail if known; "" if there is no phase. Returns its
 * length. */
size_t tess_board_describe_phase(const tess_board_copy *copy, char *text, size_t size);
/* Formats "after all_gather #6 of team 'world': ..., in phase 'backward' of step 12 (3)". The caller puts "is "
 * before it. Returns its length. */
size_t tess_board_describe_last(const tess_board_copy *copy, char *text, size_t size);
/* Formats "stream compute: attention of layer 3, enqueued 12.3 s ago, has not finished; behind it 41 operations".
 * The text is "" if the rank belongs to another host, or if its device has finished everything older than a second.
 * Returns its length. *since_ns: time of enqueueing; 0 if the text is "". */
size_t tess_board_describe_device(const tess_job *job, int rank, char *text, size_t size, uint64_t *since_ns);
/* Formats "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 of team ...", or "rank 3 on host h2 ...". */
const char *tess_board_describe_end(const tess_job *job, int rank, char *text, size_t size);

/* ---- The heap: one allocator for all ranks; its lock is in the memory itself ---- */
/* Allocates zeroed bytes at *offset, aligned to `align` (a power of two, at least JOB_PAGE). Errors: TESS_E_NOMEM:
 * the machine has less memory, or the address space is used up; TESS_E_PEER_LOST: a rank died while it held the
 * lock. */
tess_status tess_job_alloc(const tess_job *job, int rank, size_t bytes, size_t align, uint64_t *offset);
/* Frees the range and its pages. `bytes`: as passed to tess_job_alloc. */
void tess_job_free(const tess_job *job, int rank, uint64_t offset, size_t bytes);

#endif
