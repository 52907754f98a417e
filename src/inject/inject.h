/* Injects deliberate faults: what a drill does to a rank, and when. A job without faults pays one branch per
 * operation and one per phase.
 *
 * A spec holds one fault, or several separated by ';'. A fault is a list of words key=value:
 *
 *     rank=3 step=12 point=before:reduce_scatter_pieces kind=skip
 *     rank=random step=random point=phase:forward:2 kind=sleep ms=3000; rank=1 point=gradient kind=nan
 *
 *     rank    number, "random" or "all"; 0 for rank0_eval and slow_log, else required
 *     step    number, "random" (one of the first `steps`, 10), or absent: at the first opportunity
 *     point   before:OP, after:OP        a collective or message, "any" for OP; OP#k: the k-th of the step
 *             phase:NAME, phase:NAME:n   the rank enters a phase (of layer or micro-batch n), or reaches a moment
 *             step                       it enters the step
 *             save:NAME, save:NAME#k     the call of this name (save_points.h), the k-th of the step, that saves a
 *                                        checkpoint; kinds enospc, eio, short and all faults of a process
 *             gradient, parameter, state a tensor in use (kinds nan, inf, flip)
 *     label   "layers:12": only operations with this label
 *     times   how often it happens (1; 0: at every opportunity)
 *     life    of the rank: 1 (the default) is the first process that has this rank number, 2 the process that replaces
 *             it, ...; 0: each. A rank that survives a recovery keeps its life, and `times` counts on
 *     n, ms, percent, bytes, bit, code, tensor, path, what: parameters of the kind, below
 *
 * Random choices depend only on the seed and the fault's position in the spec, so all ranks make the same ones. A
 * wrong argument is injected into the fingerprint that the rank posts, not into the data transfer. The guard must
 * refuse it before data is touched. If the guard fails, no buffer is overrun. */
#ifndef TESS_INJECT_INJECT_H
#define TESS_INJECT_INJECT_H

#include "inject/save_points.h"
#include "job/job_memory.h"
#include "tessera/comm.h"
#include "trace/ring.h"

/* Kinds of faults: name, text, places where it may happen (FAULT_AT_...), and what it does. */
#define TESS_FAULT_LIST(X)                                                                                      \
    X(TESS_FAULT_SKIP, "skip", OPERATION, "n operations (1) are left out")                                      \
    X(TESS_FAULT_EXTRA, "extra", OPERATION, "the operation is made twice")                                      \
    X(TESS_FAULT_OP, "op", OPERATION, "another operation is asked for")                                         \
    X(TESS_FAULT_DTYPE, "dtype", OPERATION, "another dtype")                                                    \
    X(TESS_FAULT_COUNT, "count", OPERATION, "n elements more (1)")                                              \
    X(TESS_FAULT_REDUCE_OP, "reduce_op", OPERATION, "another reduction")                                        \
    X(TESS_FAULT_ROOT, "root", OPERATION, "another root; of a message: another peer")                           \
    X(TESS_FAULT_TAG, "tag", OPERATION, "another tag; of coalesced forms: other pieces")                        \
    X(TESS_FAULT_LABEL, "label", OPERATION, "made for something else")                                          \
    X(TESS_FAULT_TEAM, "team", OPERATION, "made on another team of as many ranks, where there is one")          \
    X(TESS_FAULT_ORDER, "order", OPERATION, "held back until the team's next one has been made")                \
    X(TESS_FAULT_SWALLOW, "swallow", OPERATION, "an exception is swallowed: no operation until the next step")  \
    X(TESS_FAULT_CRASH, "crash", MOMENT, "SIGSEGV")                                                             \
    X(TESS_FAULT_ABORT, "abort", MOMENT, "SIGABRT")                                                             \
    X(TESS_FAULT_EXIT, "exit", MOMENT, "exits with `code` (3)")                                                 \
    X(TESS_FAULT_SIGKILL, "sigkill", MOMENT, "SIGKILL, as from the OOM killer")                                 \
    X(TESS_FAULT_SIGSTOP, "sigstop", MOMENT, "SIGSTOP")                                                         \
    X(TESS_FAULT_SLEEP, "sleep", MOMENT, "sleeps for `ms` (0: forever)")                                        \
    X(TESS_FAULT_SPIN, "spin", MOMENT, "computes for `ms` (0: forever)")                                        \
    X(TESS_FAULT_IO, "io", MOMENT, "reads `path` to its end; no path: a pipe to which nobody writes, for `ms`") \
    X(TESS_FAULT_FAIL, "fail", MOMENT, "what the rank tries next and may fail does, n times (1)")               \
    X(TESS_FAULT_HOG, "hog", MOMENT, "allocates and touches `bytes` (256 MiB) and keeps them")                  \
    X(TESS_FAULT_LEAK, "leak", MOMENT, "forgets `bytes` (64 KiB) of its pool of comm; times=0: each time")      \
    X(TESS_FAULT_SLOW, "slow", PHASE, "the phase takes `percent` longer (10) from `step` on")                   \
    X(TESS_FAULT_RANK0_EVAL, "rank0_eval", MOMENT, "evaluates alone for `ms`, then broadcasts what came of it") \
    X(TESS_FAULT_SLOW_LOG, "slow_log", PHASE, "writes its log line for `ms` (2000)")                            \
    X(TESS_FAULT_UNEVEN, "uneven", BATCH, "has n micro-batches less (1); what=step: stops a step early")        \
    X(TESS_FAULT_NO_SPACE, "enospc", DISK, "the call that saves fails: no space is left")                       \
    X(TESS_FAULT_DISK_ERROR, "eio", DISK, "the call that saves fails: the disk reports an error")               \
    X(TESS_FAULT_SHORT_WRITE, "short", DISK, "the write that saves writes half")                                \
    X(TESS_FAULT_NAN, "nan", TENSOR, "an element of `tensor` becomes NaN")                                      \
    X(TESS_FAULT_INF, "inf", TENSOR, "an element becomes infinite")                                             \
    X(TESS_FAULT_FLIP, "flip", TENSOR, "`bit` of an element is turned over")

typedef enum tess_fault_kind {
#define X(name, text, where, help) name,
    TESS_FAULT_LIST(X)
#undef X
        TESS_FAULT_KINDS
} tess_fault_kind;

typedef enum tess_fault_point {
    TESS_FAULT_BEFORE, /* the operation has not begun: no peer has seen it */
    TESS_FAULT_AFTER,  /* the call was made; an asynchronous operation may still be running */
    TESS_FAULT_ENTER_PHASE,
    TESS_FAULT_ENTER_STEP,
    TESS_FAULT_SAVE,      /* a call that saves a checkpoint */
    TESS_FAULT_GRADIENT,  /* this rank's gradient of a micro-batch, before the ranks' gradients are added */
    TESS_FAULT_PARAMETER, /* this rank's shard of the weights */
    TESS_FAULT_STATE      /* state that must be equal on all replicas */
} tess_fault_point;

enum { TESS_FAULTS_MAX = JOB_FAULTS, TESS_FAULT_TEXT = 256 };

typedef struct tess_fault {
    tess_fault_kind kind;
    tess_fault_point point;
    int rank;     /* -1: all ranks */
    int64_t step; /* -1: any step */
    int op;       /* tess_trace_op; NONE: any operation */
    int64_t nth;  /* number among the matching operations of the step, from 1; 0: any */
    char phase[TESS_TRACE_PHASE_BYTES];
    int64_t detail; /* -1: any layer or micro-batch */
    int save_point; /* tess_save_point */
    uint64_t label; /* 0: any label */
    int64_t times;  /* 0: at every opportunity */
    int64_t life;   /* life of the rank, from 1; 0: any */

    int64_t n, bytes, bit, code;
    double ms, percent;
    char tensor[TESS_FAULT_TEXT]; /* name of the tensor; "": the first one */
    char path[TESS_FAULT_TEXT];
    int whole_step; /* kind uneven: 1 for what=step */

    int number;                 /* position in the spec, from 1 */
    char text[TESS_FAULT_TEXT]; /* text of this fault in the spec */

    uint64_t seed;     /* seed for the random choices of this fault */
    double debt_s;     /* kind slow: delay in seconds that is still to be added */
    int64_t *happened; /* how often it has happened; NULL until the fault belongs to a rank */
    int64_t seen_step; /* step in which `seen` operations have matched */
    int64_t seen;
} tess_fault;

typedef struct tess_faults tess_faults; /* holds the faults of one rank */

/* A spec, and the properties of its job. */
typedef struct tess_fault_spec {
    const char *text; /* NULL or "": no faults */
    uint64_t seed;
    int world;
    bool any_rank; /* true: ranks beyond `world` are allowed, because the job has become smaller and has lost them */
    const char *const *phases; /* names of phases and moments in the job, NULL-terminated; NULL: any name is valid */
} tess_fault_spec;

/* Parses the spec into at most `max` faults; *n is their number. TESS_E_INVALID: the message names the wrong word,
 * and the most similar valid one. */
tess_status tess_faults_parse(const tess_fault_spec *spec, tess_fault *faults, int max, int *n);
const char *tess_fault_name(tess_fault_kind kind); /* returns "skip" and the like */

/* Creates the faults of `spec` for the present process of `rank`; *faults is NULL if there are none. `past` belongs
 * to that rank and is borrowed: it gives the rank's life, and stores how often faults have happened. */
tess_status tess_faults_create(tess_mem *mem, const tess_fault_spec *spec, int rank, tess_rank_past *past,
                               tess_faults **faults);
void tess_faults_destroy(tess_mem *mem, tess_faults **faults);
/* Gives the faults to the runtime, which must have none yet. The runtime destroys them with itself. When the rank
 * ends in good order, it warns on stderr about each of its faults that happened in none of its lives. Rank 0 also
 * warns for ranks that a smaller job has lost. */
tess_status tess_inject_begin(tess_runtime *runtime, const tess_fault_spec *spec);

/* ---- Functions that a trainer calls; they are cheap, and accept any runtime ---- */
tess_faults *tess_inject_faults(const tess_runtime *runtime); /* returns this rank's faults; NULL: none */
/* Corrupts one of `n` elements if a fault is due in the current step (that of the newest phase). `what` is GRADIENT,
 * PARAMETER or STATE; `name` is the tensor's name for users. Returns whether it corrupted one. nan and inf skip
 * dtypes that cannot represent them. */
bool tess_inject_tensor(tess_runtime *runtime, tess_fault_point what, const char *name, void *data, size_t n,
                        tess_dtype dtype);
/* Reports a moment within the current phase that a drill may name, such as "shard" 3. The point of a fault names it
 * like a phase. */
void tess_inject_moment(tess_runtime *runtime, const char *name, int64_t detail);
/* Returns the number of micro-batches of all ranks that this rank must assume in `step` instead of `n`. With a
 * fault, it runs fewer than the others. */
int64_t tess_inject_micro_batches(tess_runtime *runtime, int64_t step, int64_t n);
/* Returns TESS_E_IO if the rank's next action must fail. `what` names the action ("read the held-out text"). */
tess_status tess_inject_failure(tess_runtime *runtime, const char *what);
/* Whether the rank must stop before `step`. */
bool tess_inject_stops(tess_runtime *runtime, int64_t step);

/* ---- Functions that are called when a checkpoint is saved, by a rank or by a process with faults of its own ---- */
/* Returns how a call must end. 0: normally; an errno: it fails with this error; TESS_INJECT_SHORT: a write writes
 * half of its data. May not return at all. `faults` may be NULL. */
enum { TESS_INJECT_SHORT = -1 };
int tess_inject_save(tess_faults *faults, int64_t step, tess_save_point point);

#endif
