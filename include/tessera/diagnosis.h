/* Diagnosis of a job: which rank holds it up, and why. These are the answers of `tessera trace`, for your own tools.
 *
 * A job is a set of ranks that were started together: by `tessera train`, or by `tessera run` with a program that uses
 * this library. The functions run in any process of the same user on one of the job's hosts. That process is no rank,
 * needs no tess_runtime, and does not disturb the job: it writes nothing and stops no process.
 *
 *     tess_job_report *report;
 *     tess_job_report_read("out", -1, &report);
 *     const tess_verdict *verdict = tess_job_report_verdict(report);
 *     puts(verdict->headline);
 *     tess_job_report_destroy(&report);
 *
 * Thread-safe; one report must not be used by two threads at a time. */
#ifndef TESSERA_DIAGNOSIS_H
#define TESSERA_DIAGNOSIS_H

#include "tessera/status.h"
#include "tessera/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of root causes. Numbers are stable: a new kind is added at the end. */
#define TESS_DIAGNOSIS_LIST(X)                                                                                     \
    X(TESS_DIAGNOSIS_HEALTHY, "healthy")      /* no rank has waited for long */                                    \
    X(TESS_DIAGNOSIS_FINISHED, "finished")    /* all ranks ended in good order */                                  \
    X(TESS_DIAGNOSIS_LOST, "rank_lost")       /* crashed, killed, OOM-killed, exited, or lost its host */          \
    X(TESS_DIAGNOSIS_STOPPED, "rank_stopped") /* state T */                                                        \
    X(TESS_DIAGNOSIS_IO, "rank_in_io")        /* state D, or a read/write that does not end */                     \
    X(TESS_DIAGNOSIS_BUSY, "rank_busy")       /* computes, sleeps, or loads data */                                \
    X(TESS_DIAGNOSIS_LEFT, "rank_left")       /* ended in good order while others wait for it */                   \
    X(TESS_DIAGNOSIS_NOT_JOINED, "rank_not_joined")                                                                \
    X(TESS_DIAGNOSIS_MISSING, "missing_rank")    /* did not join the collective, for an unknown reason */          \
    X(TESS_DIAGNOSIS_MISMATCH_OP, "mismatch_op") /* called another operation */                                    \
    X(TESS_DIAGNOSIS_MISMATCH_COUNT, "mismatch_count")                                                             \
    X(TESS_DIAGNOSIS_MISMATCH_DTYPE, "mismatch_dtype")                                                             \
    X(TESS_DIAGNOSIS_MISMATCH_REDUCE_OP, "mismatch_reduce_op")                                                     \
    X(TESS_DIAGNOSIS_MISMATCH_ROOT, "mismatch_root")                                                               \
    X(TESS_DIAGNOSIS_MISMATCH_LABEL, "mismatch_label") /* same shape, but another purpose */                       \
    X(TESS_DIAGNOSIS_MISMATCH_TEAM, "mismatch_team")   /* other members, or an operation of another team */        \
    X(TESS_DIAGNOSIS_SKIPPED, "skipped")               /* left out operations */                                   \
    X(TESS_DIAGNOSIS_EXTRA, "extra")                   /* called operations that no other rank called */           \
    X(TESS_DIAGNOSIS_ORDER, "order")                   /* called two operations in swapped order */                \
    X(TESS_DIAGNOSIS_MESSAGE, "message")               /* send and receive differ, or one is missing */            \
    X(TESS_DIAGNOSIS_DEADLOCK, "deadlock")             /* ranks wait for each other */                             \
    X(TESS_DIAGNOSIS_NUMBERS, "numbers")               /* NaN, Inf or diverged replicas, according to its error */ \
    X(TESS_DIAGNOSIS_FAILED, "failed")                 /* a rank ended by its own error */                         \
    X(TESS_DIAGNOSIS_UNDECIDED, "undecided")

typedef enum tess_diagnosis_kind {
#define X(name, text) name,
    TESS_DIAGNOSIS_LIST(X)
#undef X
        TESS_DIAGNOSIS_COUNT
} tess_diagnosis_kind;

/* Returns "mismatch_dtype" and the like; never NULL. */
TESS_API const char *tess_diagnosis_name(tess_diagnosis_kind kind);

/* The root cause. All texts are in English, valid UTF-8 and without control characters. */
typedef struct tess_verdict {
    tess_diagnosis_kind kind; /* HEALTHY and FINISHED: the job needs no attention */
    /* no rank is blamed. If two groups are equally large, `ranks` holds the group of the lowest rank */
    bool tie;
    int n_ranks, n_waiting, n_evidence;
    const int *ranks;     /* culprits, in ascending order */
    const int *waiting;   /* ranks that wait for them */
    double waited_s;      /* longest wait in seconds */
    const char *headline; /* one sentence: "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ..." */
    const char *const *evidence; /* sentences, strongest first */
    const char *fix;             /* advice; "": none */
    const char *launcher_said;   /* the launcher's report when the job ended; "": none */
    const char *source; /* "live": a running job; "rings": a folder of traces; "pytorch": Flight Recorder dumps */
    const char *folder; /* folder of the job's traces; "": they are in its memory alone */
    int world;          /* number of ranks */
} tess_verdict;

/* The state of one rank. The texts are as clean as those of tess_verdict. */
typedef struct tess_rank_report {
    bool present;      /* its traces were found */
    int pid;           /* 0: not known */
    const char *host;  /* "": not known */
    const char *why;   /* its situation: "state T since 2.1 s"; "": nothing is known */
    const char *error; /* error that it reported; "": none */
    const char *phase; /* "forward" and the like; "": not known */
    int64_t step;      /* -1: not known */
    double waited_s;   /* seconds that its newest operation has waited, or waited before it ended, for other ranks */
    char state[32];    /* "runs", "waits", "stopped", "exited 3", "SIGKILL", ...; "-": not known */
} tess_rank_report;

typedef struct tess_job_report tess_job_report;

/* Reads a job as it is now, and finds the root cause.
 *
 * job         a folder: the job's dump folder, its folder of traces, or a folder of PyTorch Flight Recorder dumps. A
 *             running job is read from its memory, which holds more. Or the process id of a running job's launcher or
 *             of one of its ranks, as text
 * patience_s  waits that are shorter have no culprit; negative: as `tessera trace`, which is 0.75 for Tessera's jobs
 *             and 0 for PyTorch's dumps
 * report      the caller destroys it; NULL after a failure
 *   TESS_E_NOT_FOUND    no such folder or process, or it holds no job; the message says what was looked for
 *   TESS_E_FORMAT       nothing in the folder can be read; the message names the first file. If a part can be read, the
 *                       report tells of the damage
 *   TESS_E_INVALID      `job` is a file
 *   TESS_E_UNSUPPORTED  the job runs with another version of the library */
TESS_API tess_status tess_job_report_read(const char *job, double patience_s, tess_job_report **report);
TESS_API void tess_job_report_destroy(tess_job_report **report); /* nulls the handle; NULL is allowed */

/* Returns the root cause, which belongs to the report. */
TESS_API const tess_verdict *tess_job_report_verdict(const tess_job_report *report);

/* Describes a rank. The texts belong to the report. TESS_E_INVALID: there is no such rank */
TESS_API tess_status tess_job_report_rank(const tess_job_report *report, int rank, tess_rank_report *described);

/* These set *text to the whole report, as `tessera trace --json` and `tessera trace` print it. The JSON object has
 * "version": 1; members may be added to it later. Free the text with free(). */
TESS_API tess_status tess_job_report_json(const tess_job_report *report, char **text);
TESS_API tess_status tess_job_report_text(const tess_job_report *report, char **text);

/* A running job. */
typedef struct tess_running_job {
    int pid;           /* its launcher, for tess_job_report_read */
    int world;         /* number of ranks */
    int n_hosts;       /* number of hosts */
    char folder[1024]; /* folder of its traces; "": they are in its memory alone */
    char command[256]; /* command line of the launcher, which may be cut at the end */
} tess_running_job;

/* Lists this user's running jobs on this host, at most 64, in *jobs (*n entries, for free()), by pid.
 * TESS_E_NOT_FOUND: no job runs
 * TESS_E_UNSUPPORTED: all jobs run with another version of the library */
TESS_API tess_status tess_jobs_list(tess_running_job **jobs, int *n);

#ifdef __cplusplus
}
#endif

#endif
