/* The health of a job's host: readings against limits, and a state made from them. Pure: facts.h and others gather the
 * readings (from the board and the GPUs), alert.h sends alerts.
 *
 * A round judges all checks at once. A check fails beyond its limit, and recovers only a twentieth within it, so that a
 * number near its limit does not flap. No check failing: healthy. Some failing: degraded, and unhealthy from the
 * max_failures-th such round in a row. An unknown reading changes nothing. */
#ifndef TESS_CONTROL_HEALTH_HEALTH_H
#define TESS_CONTROL_HEALTH_HEALTH_H

#include "tessera/types.h"

/* name, text, and the side of the limit on which it fails: ABOVE (or at it), or BELOW. */
#define TESS_HEALTH_CHECKS(X)                                                                              \
    X(TESS_HEALTH_MEMORY, "memory", ABOVE)            /* percent of the machine's in use */                \
    X(TESS_HEALTH_GROUP, "cgroup", ABOVE)             /* percent of the control group's in use */          \
    X(TESS_HEALTH_FILES, "open_files", ABOVE)         /* the largest share that one process has in use */  \
    X(TESS_HEALTH_DISK, "disk", BELOW)                /* bytes free on the checkpoint's disk */            \
    X(TESS_HEALTH_INODES, "inodes", BELOW)            /* files that can still be made there */             \
    X(TESS_HEALTH_HEARTBEAT, "heartbeat", ABOVE)      /* seconds since the most silent rank's heartbeat */ \
    X(TESS_HEALTH_STEPS, "steps", ABOVE)              /* seconds since the job finished a step */          \
    X(TESS_HEALTH_LOAD, "load", ABOVE)                /* runnable processes per core */                    \
    X(TESS_HEALTH_GPU_HEAT, "gpu_temperature", ABOVE) /* degrees Celsius of the hottest GPU */             \
    X(TESS_HEALTH_GPU_MEMORY, "gpu_memory", ABOVE)    /* percent in use of the fullest GPU */              \
    X(TESS_HEALTH_GPU_ERRORS, "gpu_errors", ABOVE)    /* uncorrected memory errors of the worst GPU */

typedef enum tess_health_check {
#define X(name, text, side) name,
    TESS_HEALTH_CHECKS(X)
#undef X
        TESS_HEALTH_CHECK_COUNT
} tess_health_check;

typedef enum tess_health_state {
    TESS_HEALTH_UNKNOWN, /* no round yet, or nothing could be read */
    TESS_HEALTH_HEALTHY,
    TESS_HEALTH_DEGRADED,
    TESS_HEALTH_UNHEALTHY
} tess_health_state;

/* The finding of one check. */
typedef struct tess_health_reading {
    bool known;
    double value;
    double limit;  /* the check's own limit, 0: none; the tighter of it and the configured one counts */
    int who, rank; /* the pid or GPU number concerned, and its rank; -1: none */
} tess_health_reading;

typedef struct tess_health_limits {
    double at[TESS_HEALTH_CHECK_COUNT]; /* 0: the check is off, unless the reading has a limit */
    int64_t max_failures;               /* rounds in a row that make it unhealthy */
} tess_health_limits;

/* Zero-initialise. */
typedef struct tess_health {
    tess_health_state state;
    int64_t failures; /* rounds in a row in which something failed */
    bool failing[TESS_HEALTH_CHECK_COUNT];
    tess_health_reading last[TESS_HEALTH_CHECK_COUNT]; /* newest known readings; .limit: the one that counted */
} tess_health;

/* The changes of one round. */
typedef struct tess_health_change {
    bool any;              /* there is a change to report */
    tess_health_state was; /* state before the round */
    bool began[TESS_HEALTH_CHECK_COUNT], ended[TESS_HEALTH_CHECK_COUNT];
} tess_health_change;

/* Takes a round's readings (TESS_HEALTH_CHECK_COUNT of them). */
void tess_health_update(tess_health *health, const tess_health_limits *limits, const tess_health_reading *readings,
                        tess_health_change *change);

const char *tess_health_check_name(tess_health_check check); /* "memory" */
const char *tess_health_state_name(tess_health_state state); /* "degraded" */
/* "93.1% of the machine's memory is in use (limit 90%)"; returns text. */
const char *tess_health_describe(tess_health_check check, const tess_health_reading *reading, char *text, size_t size);

#endif
