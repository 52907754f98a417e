/* tess_runtime: this process's place in the job. Made once, passed explicitly; there is no other global state.
 *
 * - Started by mpirun, srun or `tessera launch` through `tessera run -- PROGRAM`, it is a rank of a job over one or
 *   several hosts. torchrun's variables are understood on one host.
 * - Started by `tessera run -n N -- PROGRAM` or `tessera train`, it finds its rank and the job's shared memory in the
 *   environment and joins.
 * - Started alone, it is a job of one rank (backend `self`). */
#ifndef TESSERA_RUNTIME_H
#define TESSERA_RUNTIME_H

#include "tessera/devices.h"
#include "tessera/memory.h"
#include "tessera/status.h"
#include "tessera/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_runtime tess_runtime;
typedef struct tess_team tess_team;

/* The means of communication between ranks. */
typedef enum tess_backend {
    TESS_BACKEND_AUTO, /* shared memory on a host, MPI between hosts */
    TESS_BACKEND_SHM,  /* shared memory only; a job over several hosts is refused */
    TESS_BACKEND_MPI   /* MPI between any two ranks, as if each were on its own host (slower on one host; for tests) */
} tess_backend;

typedef struct tess_runtime_options {
    /* Number of threads with which the library computes on this rank, including the caller's (conversions and norms
     * of a tess_fsdp, its AdamW, loading); 0: cores / local ranks, at least 1 */
    int n_threads;
    double comm_timeout_s; /* deadline of a collective, in seconds; 0: 600 */
    uint64_t config_hash;  /* ranks with different hashes are refused; 0: not checked */
    tess_backend backend;
    const char *tuning; /* file that `tessera bench comm --tune` has written; NULL: TESSERA_TUNING, or none */
    /* Over several hosts, MPI computes all_reduce and reduce_scatter for dtypes that it knows; the sums then depend
     * on the number of ranks */
    bool native_reductions;
    /* "ref", "avx2", "avx512", "avx512_bf16", "amx"; NULL: TESSERA_CPU, or the best table that all ranks' CPUs
     * support */
    const char *kernels;
    /* Fault to inject in a drill ("rank=3 step=12 point=before:all_reduce kind=skip"; docs/debugging.md); "": none;
     * NULL: TESSERA_FAULT, or none. */
    const char *fault;
    uint64_t fault_seed; /* seed for the random parts of `fault` */
    /* Names that the program passes to tess_runtime_phase, NULL-terminated: a fault at another phase is refused
     * (TESS_E_INVALID). NULL: unknown; a fault at a phase that never comes does not happen, and its rank reports
     * that at its end */
    const char *const *phases;
    size_t size; /* 0, or sizeof this struct: tessera/version.h */
    /* Encrypts connections between hosts, with a key that follows from the job's secret (TLS 1.3). For hosts without an
     * MPI; TESS_E_UNSUPPORTED with one. Set the same on all ranks. Read only if `size` is set; otherwise connections
     * are plain */
    bool tls;
} tess_runtime_options;

/* Joins the job. Collective over the job's ranks. `options` may be NULL. Destroy the runtime with
 * tess_runtime_destroy, after everything that was created from it.
 *   TESS_E_MISMATCH: ranks differ in config hash or library version, or one names a kernel table that another does
 *     not have; the message names the ranks
 *   TESS_E_TIMEOUT: a rank never joined
 *   TESS_E_INVALID: the environment is contradictory */
TESS_API tess_status tess_runtime_create(const tess_runtime_options *options, tess_runtime **runtime);

/* Leaves the job in an orderly way (other ranks see "exited", not "lost") and nulls the handle. Not collective. In a
 * job that MPI started, it waits until all ranks leave or one is lost, as MPI_Finalize would. */
TESS_API void tess_runtime_destroy(tess_runtime **runtime);

TESS_API int tess_runtime_rank(const tess_runtime *runtime);
TESS_API int tess_runtime_world(const tess_runtime *runtime);
TESS_API const char *
tess_runtime_backend(const tess_runtime *runtime);              /* "self" or "shm"; "mpi" or "tcp" over several hosts */
TESS_API int tess_runtime_threads(const tess_runtime *runtime); /* compute threads of this rank */
TESS_API const char *tess_runtime_kernels(const tess_runtime *runtime); /* the table that all ranks compute with */
TESS_API int tess_runtime_hosts(const tess_runtime *runtime);           /* number of hosts of the job */
TESS_API int tess_runtime_host(const tess_runtime *runtime);            /* number of this rank's host */
/* Name of a host; "?": no such host */
TESS_API const char *tess_runtime_host_name(const tess_runtime *runtime, int host);
TESS_API tess_mem *tess_runtime_mem(const tess_runtime *runtime);
TESS_API tess_team *tess_runtime_team(const tess_runtime *runtime); /* all ranks; owned by the runtime */

/* Publishes on the job's board what this rank is doing, for readers in other processes. `phase` is a short static
 * string such as "forward"; `detail` is the micro-batch or layer (-1: none). Costs a few stores, no lock. */
TESS_API void tess_runtime_phase(tess_runtime *runtime, const char *phase, int64_t step, int64_t detail);

/* Writes each rank's latest 16384 events (operations, phases) to FOLDER/rank-00003.ring, including those recorded so
 * far. The file outlives the rank; without this call the events are lost when the job ends. Files of an earlier job
 * are moved to "FOLDER.previous". `tessera trace FOLDER` reads the files.
 *
 * Collective over the job's ranks. tess_runtime_create calls it if TESSERA_TRACE names a folder. Only the first call
 * has an effect.
 * TESS_E_NO_SPACE, TESS_E_IO: no room, or not writable; the run may continue without a trace */
TESS_API tess_status tess_runtime_keep_trace(tess_runtime *runtime, const char *folder);

/* Publishes the rank's progress to the same readers. Call it once per step; it is short. */
enum { TESS_PROGRESS_PHASES = 8 };
typedef struct tess_progress {
    int64_t n_steps, n_tokens; /* steps and tokens so far; tokens of all ranks together */
    double loss, step_s;       /* values of the latest step */
    /* Times of the latest step: other, data, gather, forward, backward, reduce, optimizer, wait */
    double phase_s[TESS_PROGRESS_PHASES];
} tess_progress;
TESS_API void tess_runtime_progress(tess_runtime *runtime, const tess_progress *progress);

/* Records why this rank is about to fail, for the launcher's report of the root cause. Only the first message is
 * kept; collectives record their errors themselves. Afterwards all collectives of this rank, including those that
 * free memory, fail at once with the current error. */
TESS_API void tess_runtime_report(tess_runtime *runtime, const char *message);
/* tess_runtime_report, with the rank that caused the failure (this one or another; -1: none). */
TESS_API void tess_runtime_report_of(tess_runtime *runtime, int rank, const char *message);

/* Records a warning of this rank with its step. `tessera trace` shows the latest warnings, also after the job has
 * ended. Thread-safe. */
TESS_API void tess_runtime_warn(tess_runtime *runtime, const char *message);

/* Records the status with which this rank is about to fail. It decides whether the job is restarted. Only the first
 * status is kept. */
TESS_API void tess_runtime_report_status(tess_runtime *runtime, tess_status status);

/* Whether any rank was asked to stop (SIGINT, SIGTERM, SIGHUP, tess_runtime_request_stop). Ranks see it at different
 * times: agree on it (an all_reduce with max) before acting on it. A rank that has never called this receives a
 * signal instead: SIGTERM, or SIGINT if it had a handler for that when it joined. */
TESS_API bool tess_runtime_stop_requested(const tess_runtime *runtime);
TESS_API void tess_runtime_request_stop(tess_runtime *runtime);
/* Whether the launcher asks the ranks to leave after their next regular checkpoint, so that it can restart the job
 * with another number of ranks. Agree on it in the same way. */
TESS_API bool tess_runtime_leave_requested(const tess_runtime *runtime);
/* Whether the launcher asks the ranks to save and leave after this step, so that the next one has another
 * configuration. Agree on it in the same way. */
TESS_API bool tess_runtime_stops_after(const tess_runtime *runtime, int64_t step);

/* Lets collectives and messages take memory of `device`, in addition to memory of the host. They run after the work
 * that `stream` already has, and their results are in the device's memory when tess_work_wait returns. Both are
 * borrowed until the runtime ends or forgets them. A device whose memory is host memory changes nothing. Collective
 * over the job. TESS_E_MISMATCH: ranks have devices of different kinds; the message names the ranks */
TESS_API tess_status tess_runtime_use_device(tess_runtime *runtime, tess_device *device, tess_stream *stream);
/* Forgets the device. Call it before the device is closed, when no operation is in flight and no tess_fsdp uses the
 * device. Not collective, except that the ranks of a team over several hosts with windows wait for each other. */
TESS_API void tess_runtime_forget_device(tess_runtime *runtime);

/* Allocates memory that peers on this host can read: `bytes` in every rank's own window, zeroed, aligned to 4096.
 * Collectives read it directly from the peers' windows, without a staging copy. Counted in `pool` (`bytes` on every
 * rank). Collective over `team` with equal `bytes`. Free it with tess_window_free (collective, too). */
TESS_API tess_status tess_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out);
TESS_API void tess_window_free(tess_team *team, void *window);

/* Allocates memory that the team's ranks on one host share as a single copy, zeroed, aligned to 4096. Counted in
 * `pool` once per host (on the team's first rank there). Collective over `team` with equal `bytes`. Free it with
 * tess_shared_free (collective). */
TESS_API tess_status tess_shared_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out);
TESS_API void tess_shared_free(tess_team *team, void *shared);

#ifdef __cplusplus
}
#endif

#endif
