/* Health of a training job: checks figures of a host and of steps against limits, and says what changed. These are the
 * rules and limits of `tessera train`, for your own loop or tool. No trainer and no tess_runtime is needed.
 *
 * A monitor judges in rounds. Between two rounds it is given readings; a round judges all checks at once. A check fails
 * beyond its limit. It recovers only when its value is within the limit by a twentieth, so that a value near its limit
 * does not switch back and forth. If no check fails, the state is healthy. If some fail, it is degraded, and unhealthy
 * from the max_failures-th such round in a row on. Without a reading a check keeps its result.
 *
 *     tess_health_monitor_create(NULL, &monitor);
 *     for (;;) {
 *         tess_health_monitor_step(monitor, &(tess_health_step){.step = step, .loss = loss, .grad_norm = norm});
 *         if (10 seconds have passed) {
 *             tess_health_monitor_host(monitor, "out/checkpoint", NULL, 0);
 *             const tess_health_alert *alert = tess_health_monitor_round(monitor);
 *             if (alert != NULL)
 *                 page(alert->text);
 *         }
 *     }
 *     tess_health_monitor_destroy(&monitor);
 *
 * One monitor must not be used by two threads at a time; distinct monitors are independent. */
#ifndef TESSERA_HEALTH_H
#define TESSERA_HEALTH_H

#include "tessera/status.h"
#include "tessera/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TESS_SPIKE_WINDOW = 128 }; /* number of steps that a loss or gradient norm is compared with */

/* Checks: name, text, the side of the limit on which it fails (ABOVE includes the limit), and the default limit (0: the
 * check is off). Numbers are stable: a new check is added at the end. */
#define TESS_HEALTH_CHECKS(X)                                                                                          \
    X(TESS_HEALTH_MEMORY, "memory", ABOVE, 90)            /* percent of the machine's memory in use */                 \
    X(TESS_HEALTH_GROUP, "cgroup", ABOVE, 90)             /* percent of the control group's memory in use */           \
    X(TESS_HEALTH_FILES, "open_files", ABOVE, 10000)      /* open files of the process that is nearest to its limit */ \
    X(TESS_HEALTH_DISK, "disk", BELOW, 0)                 /* bytes free on the checkpoint's disk */                    \
    X(TESS_HEALTH_INODES, "inodes", BELOW, 1000)          /* number of files that can still be created there */        \
    X(TESS_HEALTH_HEARTBEAT, "heartbeat", ABOVE, 300)     /* seconds since the heartbeat of the most silent rank */    \
    X(TESS_HEALTH_STEPS, "steps", ABOVE, 2400)            /* seconds since the job finished a step */                  \
    X(TESS_HEALTH_LOAD, "load", ABOVE, 0)                 /* runnable processes per core */                            \
    X(TESS_HEALTH_GPU_HEAT, "gpu_temperature", ABOVE, 85) /* degrees Celsius of the hottest GPU */                     \
    X(TESS_HEALTH_GPU_MEMORY, "gpu_memory", ABOVE, 95)    /* percent of memory in use on the fullest GPU */            \
    X(TESS_HEALTH_GPU_ERRORS, "gpu_errors", ABOVE, 1)     /* uncorrected memory errors of the worst GPU */             \
    X(TESS_HEALTH_NOT_FINITE, "not_finite", ABOVE, 1)     /* number of NaN or infinite numbers of a step */            \
    X(TESS_HEALTH_LOSS, "loss", ABOVE, 6)                 /* standard deviations of the loss above the newest 128 */   \
    X(TESS_HEALTH_GRAD_NORM, "grad_norm", ABOVE, 6)       /* the same for the gradient norm */                         \
    X(TESS_HEALTH_SPEED, "tokens_per_s", BELOW, 0)        /* tokens per second of all ranks */

typedef enum tess_health_check {
#define X(name, text, side, limit) name,
    TESS_HEALTH_CHECKS(X)
#undef X
        TESS_HEALTH_CHECK_COUNT
} tess_health_check;

typedef enum tess_health_state {
    TESS_HEALTH_UNKNOWN, /* there was no round yet, or nothing could be read */
    TESS_HEALTH_HEALTHY,
    TESS_HEALTH_DEGRADED,
    TESS_HEALTH_UNHEALTHY
} tess_health_state;

/* The result of one check. */
typedef struct tess_health_reading {
    bool known;
    double value;
    double limit; /* limit that the reading itself gives; 0: none. The stricter of this and the configured one counts */
    /* `who`: the process id, GPU or step that it is about; `rank`: the rank that it is about. -1: none */
    int who, rank;
} tess_health_reading;

typedef struct tess_health_limits {
    double at[TESS_HEALTH_CHECK_COUNT]; /* limits by check; 0: the check is off, unless the reading has a limit */
    int64_t max_failures;               /* number of failing rounds in a row that make the state unhealthy */
} tess_health_limits;

/* Sets the defaults of `tessera train` for a run without validation: those of the list, and max_failures 3. The runs
 * check every 10 seconds. */
TESS_API void tess_health_limits_default(tess_health_limits *limits);

TESS_API const char *tess_health_check_name(tess_health_check check); /* returns "memory" and the like */
TESS_API const char *tess_health_state_name(tess_health_state state); /* returns "degraded" and the like */

typedef struct tess_health_monitor tess_health_monitor;

/* Creates a monitor. `limits` is copied; NULL: the defaults. Destroy it with tess_health_monitor_destroy.
 * TESS_E_INVALID: a limit is negative or not a number, or max_failures is below 1 */
TESS_API tess_status tess_health_monitor_create(const tess_health_limits *limits, tess_health_monitor **monitor);
TESS_API void tess_health_monitor_destroy(tess_health_monitor **monitor); /* nulls the handle; NULL is allowed */

/* The figures of a finished step. */
typedef struct tess_health_step {
    int64_t step;
    double loss, grad_norm; /* NaN and infinite values are what TESS_HEALTH_NOT_FINITE looks for */
    double tokens_per_s;    /* 0: not known */
} tess_health_step;

/* Records a finished step: sets the checks NOT_FINITE, LOSS, GRAD_NORM and SPEED, and restarts the time of STEPS. Call
 * it once per step; STEPS is known from the first call on. If several steps come between two rounds, the worst of them
 * counts. LOSS and GRAD_NORM are known from the TESS_SPIKE_WINDOW-th step on whose loss and norm are both finite. */
TESS_API void tess_health_monitor_step(tess_health_monitor *monitor, const tess_health_step *step);

/* Sets the reading of any check for the next round: of a GPU, or of a figure that you measure yourself. It replaces
 * earlier readings of this round. TESS_E_INVALID: no such check, or a known value that is not a number */
TESS_API tess_status tess_health_monitor_read(tess_health_monitor *monitor, tess_health_check check,
                                              const tess_health_reading *reading);

/* Reads memory, control group, load, open files and disk of this host for the next round. What cannot be read stays
 * unknown. A network file system that does not answer may block the call.
 * folder  where checkpoints go; it may not exist yet. NULL: DISK and INODES stay unknown
 * pids    (n) processes of the ranks, whose open files are counted, in rank order; NULL: this process */
TESS_API void tess_health_monitor_host(tess_health_monitor *monitor, const char *folder, const int *pids, int n);

/* A check that fails or has just recovered. */
typedef struct tess_health_finding {
    tess_health_check check;
    bool failing;                /* false: it has just recovered */
    tess_health_reading reading; /* the newest; .limit is the limit that was applied */
    const char *text;            /* "93.1% of the machine's memory is in use (limit 90%)" */
} tess_health_finding;

/* The changes of a round. */
typedef struct tess_health_alert {
    tess_health_state was, state; /* before and after the round */
    int64_t failures;             /* number of rounds in a row in which a check failed */
    const char *text;             /* "degraded: 93.1% of the machine's memory is in use (limit 90%)" */
    const tess_health_finding *findings;
    int n_findings;
} tess_health_alert;

/* Judges the readings since the last round. Returns what to report: a check that began to fail or recovered, or another
 * state. NULL: nothing changed. The alert belongs to the monitor until its next round. */
TESS_API const tess_health_alert *tess_health_monitor_round(tess_health_monitor *monitor);
TESS_API tess_health_state tess_health_monitor_state(const tess_health_monitor *monitor);

#ifdef __cplusplus
}
#endif

#endif
