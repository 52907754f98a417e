/* Judges the health of a job's host: compares readings with limits and derives a state. Pure functions: facts.h and
 * other callers provide the readings (from the system, the board and the GPUs), and alert.h sends alerts.
 *
 * A round judges all checks at once. A check fails beyond its limit. It recovers only when its value is within the
 * limit by a twentieth, so that a value near its limit does not switch back and forth. If no check fails, the state
 * is healthy. If some fail, it is degraded, and unhealthy from the max_failures-th such round in a row on. An
 * unknown reading changes nothing. */
#ifndef TESS_CONTROL_HEALTH_HEALTH_H
#define TESS_CONTROL_HEALTH_HEALTH_H

#include "tessera/types.h"

/* Checks: name, text, and the side of the limit on which it fails. ABOVE includes the limit. */
#define TESS_HEALTH_CHECKS(X)                                                                                        \
    X(TESS_HEALTH_MEMORY, "memory", ABOVE)            /* percent of the machine's memory in use */                   \
    X(TESS_HEALTH_GROUP, "cgroup", ABOVE)             /* percent of the control group's memory in use */             \
    X(TESS_HEALTH_FILES, "open_files", ABOVE)         /* largest share of its open-file limit that a process uses */ \
    X(TESS_HEALTH_DISK, "disk", BELOW)                /* bytes free on the checkpoint's disk */                      \
    X(TESS_HEALTH_INODES, "inodes", BELOW)            /* number of files that can still be created there */          \
    X(TESS_HEALTH_HEARTBEAT, "heartbeat", ABOVE)      /* seconds since the heartbeat of the most silent rank */      \
    X(TESS_HEALTH_STEPS, "steps", ABOVE)              /* seconds since the job finished a step */                    \
    X(TESS_HEALTH_LOAD, "load", ABOVE)                /* runnable processes per core */                              \
    X(TESS_HEALTH_GPU_HEAT, "gpu_temperature", ABOVE) /* degrees Celsius of the hottest GPU */                       \
    X(TESS_HEALTH_GPU_MEMORY, "gpu_memory", ABOVE)    /* percent of memory in use on the fullest GPU */              \
    X(TESS_HEALTH_GPU_ERRORS, "gpu_errors", ABOVE)    /* uncorrected memory errors of the worst GPU */

typedef enum tess_health_check {
#define X(name, text, side) name,
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
    int who, rank; /* pid or GPU number that it is about, and its rank; -1: none */
} tess_health_reading;

typedef struct tess_health_limits {
    double at[TESS_HEALTH_CHECK_COUNT]; /* limits by check; 0: the check is off, unless the reading has a limit */
    int64_t max_failures;               /* number of failing rounds in a row that make the state unhealthy */
} tess_health_limits;

/* State of the checks. It must be zero-initialised. */
typedef struct tess_health {
    tess_health_state state;
    int64_t failures; /* number of rounds in a row in which a check failed */
    bool failing[TESS_HEALTH_CHECK_COUNT];
    tess_health_reading last[TESS_HEALTH_CHECK_COUNT]; /* newest known readings; .limit is the limit that was applied */
} tess_health;

/* The changes of one round. */
typedef struct tess_health_change {
    bool any;              /* there is a change to report */
    tess_health_state was; /* state before the round */
    bool began[TESS_HEALTH_CHECK_COUNT], ended[TESS_HEALTH_CHECK_COUNT];
} tess_health_change;

/* Judges the readings of a round (TESS_HEALTH_CHECK_COUNT of them). */
void tess_health_update(tess_health *health, const tess_health_limits *limits, const tess_health_reading *readings,
                        tess_health_change *change);

const char *tess_health_check_name(tess_health_check check); /* returns "memory" and the like */
const char *tess_health_state_name(tess_health_state state); /* returns "degraded" and the like */
/* Formats "93.1% of the machine's memory is in use (limit 90%)". Returns text. */
const char *tess_health_describe(tess_health_check check, const tess_health_reading *reading, char *text, size_t size);

#endif
