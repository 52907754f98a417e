/* tess_runtime: this process's place in the job. Made once, passed explicitly; there is no other global state.
 *
 * A program started by mpirun, srun or `tessera launch` through `tessera run -- PROGRAM` is a rank of a job over one or
 * several hosts; torchrun's variables are understood on one host.
 *
 * A program started by `tessera run -n N -- PROGRAM` (or by `tessera train`) finds its rank and the job's shared memory
 * in the environment and joins it; started alone it is a job of one rank (backend `self`). */
#ifndef TESSERA_RUNTIME_H
#define TESSERA_RUNTIME_H

#include "tessera/memory.h"
#include "tessera/status.h"
#include "tessera/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tess_runtime tess_runtime;
typedef struct tess_team tess_team;

/* How ranks meet. */
typedef enum tess_backend {
    TESS_BACKEND_AUTO, /* shared memory on a host, MPI between hosts */
    TESS_BACKEND_SHM,  /* a job over several hosts is refused */
    TESS_BACKEND_MPI   /* MPI between any two ranks: each is a host of its own (slower on one host; for trials) */
} tess_backend;

typedef struct tess_runtime_options {
    int n_threads;         /* compute threads of this rank, the caller's included; 0: cores / local ranks, at least 1 */
    double comm_timeout_s; /* deadline of a collective; 0: 600 */
    uint64_t config_hash;  /* ranks whose hashes differ are refused; 0: not checked */
    tess_backend backend;
    const char *tuning;     /* file that `tessera bench comm --tune` wrote; NULL: TESSERA_TUNING, or none */
    bool native_reductions; /* all_reduce and reduce_scatter over several hosts are MPI's own where it knows the dtype:
                               their sums then depend on the number of ranks */
    const char *kernels;    /* "ref", "avx2", "avx512", "avx512_bf16", "amx"; NULL: TESSERA_CPU or the CPU's best */
    const char *fault; /* to inject, for drills ("rank=3 step=12 point=before:all_reduce kind=skip"; docs/debugging.md);
                          "": none; NULL: TESSERA_FAULT, or none */
    uint64_t fault_seed;       /* decides what `fault` calls random */
    const char *const *phases; /* names that the program gives to tess_runtime_phase, NULL behind the last: a fault at
                                  another phase is refused (TESS_E_INVALID). NULL: not known; such a fault never
                                  happens, and its rank says so as it ends */
} tess_runtime_options;

/* Joins the job. Collective over the job's ranks. `options` may be NULL.
 * TESS_E_MISMATCH: ranks differ in config hash or library version (names who); TESS_E_TIMEOUT: a rank never came;
 * TESS_E_INVALID: contradictory environment. Destroy with tess_runtime_destroy, after all that was made from it. */
TESS_API tess_status tess_runtime_create(const tess_runtime_options *options, tess_runtime **runtime);

/* Leaves the job in an orderly way (others see "exited", not "lost") and nulls the handle. Not collective,
 * but in a job that MPI started it waits until all ranks leave or one is lost, as MPI_Finalize would. */
TESS_API void tess_runtime_destroy(tess_runtime **runtime);

TESS_API int tess_runtime_rank(const tess_runtime *runtime);
TESS_API int tess_runtime_world(const tess_runtime *runtime);
TESS_API const char *tess_runtime_backend(const tess_runtime *runtime); /* "self", "shm"; "mpi": over several hosts */
TESS_API int tess_runtime_threads(const tess_runtime *runtime);         /* compute threads of this rank */
TESS_API const char *tess_runtime_kernels(const tess_runtime *runtime); /* as asked for in the options, or NULL */
TESS_API int tess_runtime_hosts(const tess_runtime *runtime);           /* that the job runs on */
TESS_API int tess_runtime_host(const tess_runtime *runtime);            /* number of this rank's */
TESS_API const char *tess_runtime_host_name(const tess_runtime *runtime, int host); /* "?": no such host */
TESS_API tess_mem *tess_runtime_mem(const tess_runtime *runtime);
TESS_API tess_team *tess_runtime_team(const tess_runtime *runtime); /* all ranks; owned by the runtime */

/* What the rank is doing, for whoever looks from outside (the board): a short static string such as "forward", with the
 * step and the micro-batch or layer (-1: none). A few stores, no lock. */
TESS_API void tess_runtime_phase(tess_runtime *runtime, const char *phase, int64_t step, int64_t detail);

/* From here on each rank's newest 16384 events (operations, phases) are kept in FOLDER/rank-00003.ring, a file that
 * outlives the rank, with those that it remembers so far; without this call they are gone when the job is. What an
 * earlier job left in the folder is moved to "FOLDER.previous". Collective over the job's ranks; happens at
 * tess_runtime_create when TESSERA_TRACE names a folder, and only once. TESS_E_NO_SPACE, TESS_E_IO: no room, or not
 * writable; the run may go on without. `tessera trace FOLDER` reads it. */
TESS_API tess_status tess_runtime_keep_trace(tess_runtime *runtime, const char *folder);

/* How far it is, for the same readers: a short call once a step. */
enum { TESS_PROGRESS_PHASES = 8 };
typedef struct tess_progress {
    int64_t n_steps, n_tokens;            /* done so far; tokens of all ranks together */
    double loss, step_s;                  /* of the newest step */
    double phase_s[TESS_PROGRESS_PHASES]; /* of the newest step: other, data, gather, forward, backward, reduce,
                                             optimizer, wait */
} tess_progress;
TESS_API void tess_runtime_progress(tess_runtime *runtime, const tess_progress *progress);

/* Leaves word of why this rank is about to end with a failure: the launcher tells it when it names the root cause. The
 * first word stays; errors of collectives leave theirs by themselves. The rank takes part in no collective after it:
 * they fail at once with the current error, those that give memory back too. */
TESS_API void tess_runtime_report(tess_runtime *runtime, const char *message);
/* The same when the fault is that of `rank` (this one's or another's; -1: nobody's). */
TESS_API void tess_runtime_report_of(tess_runtime *runtime, int rank, const char *message);

/* Keeps a line of this rank, with its step, among what is told of the job: `tessera trace` shows the newest of those
 * lines, also once the job is dead. Any thread. */
TESS_API void tess_runtime_warn(tess_runtime *runtime, const char *message);

/* With which status this rank is about to give up, for who decides whether the job is started again; the first stays.
 */
TESS_API void tess_runtime_report_status(tess_runtime *runtime, tess_status status);

/* True once any rank was asked to stop (SIGINT, SIGTERM, tess_runtime_request_stop). Ranks see it at different times:
 * agree on it (an all_reduce with max) before acting on it. */
TESS_API bool tess_runtime_stop_requested(const tess_runtime *runtime);
TESS_API void tess_runtime_request_stop(tess_runtime *runtime);
/* True once whoever started the ranks wants them to leave after the next checkpoint that they save anyway, to start
 * them again in another number. To be agreed on, too. */
TESS_API bool tess_runtime_leave_requested(const tess_runtime *runtime);

/* Memory that peers on this host can read: `bytes` in every rank's own window, zeroed, aligned to 4096. Collectives on
 * such memory go straight from the peers' windows, without a staging copy. Collective over `team` with equal `bytes`.
 * Counted in `pool` (bytes on every rank). Free (collective too) with tess_window_free. */
TESS_API tess_status tess_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out);
TESS_API void tess_window_free(tess_team *team, void *window);

/* Memory of which the team's ranks on one host share a single copy, zeroed, aligned to 4096. Collective over `team`
 * with equal `bytes`. Counted in `pool` once per host (on the team's first rank there). Free (collective) with
 * tess_shared_free. */
TESS_API tess_status tess_shared_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out);
TESS_API void tess_shared_free(tess_team *team, void *shared);

#ifdef __cplusplus
}
#endif

#endif
