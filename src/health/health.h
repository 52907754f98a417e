/* How well a job's host does: a few numbers against limits, and a state made from them. Pure: who gathers the numbers
 * (facts.h, and whoever sees the board and the GPUs) and who is told (alert.h) is not known here.
 *
 * A round looks at all checks at once. One that goes beyond its limit fails, and is well again only a twentieth within
 * it, so that a number near its limit does not make noise. All well: healthy. Some failing: degraded, and unhealthy
 * from the max_failures-th such round in a row on. What is not known neither fails nor makes well. */
#ifndef TESS_HEALTH_HEALTH_H
#define TESS_HEALTH_HEALTH_H

#include "tessera/types.h"

/* name, text, on which side of the limit it fails: ABOVE and at it, or BELOW it. */
#define TESS_HEALTH_CHECKS(X)                                                                            \
    X(TESS_HEALTH_MEMORY, "memory", ABOVE)            /* percent in use of the machine's */              \
    X(TESS_HEALTH_GROUP, "cgroup", ABOVE)             /* percent in use of the control group's */        \
    X(TESS_HEALTH_FILES, "open_files", ABOVE)         /* of the process that has most */                 \
    X(TESS_HEALTH_DISK, "disk", BELOW)                /* bytes free where checkpoints go */              \
    X(TESS_HEALTH_INODES, "inodes", BELOW)            /* files that can still be made there */           \
    X(TESS_HEALTH_HEARTBEAT, "heartbeat", ABOVE)      /* seconds since the most silent rank was heard */ \
    X(TESS_HEALTH_STEPS, "steps", ABOVE)              /* seconds since the job finished a step */        \
    X(TESS_HEALTH_LOAD, "load", ABOVE)                /* processes that want a core, for each core */    \
    X(TESS_HEALTH_GPU_HEAT, "gpu_temperature", ABOVE) /* degrees Celsius of the hottest */               \
    X(TESS_HEALTH_GPU_MEMORY, "gpu_memory", ABOVE)    /* percent in use of the fullest's */              \
    X(TESS_HEALTH_GPU_ERRORS, "gpu_errors", ABOVE)    /* uncorrected errors of memory of the worst */

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

/* What a check found. */
typedef struct tess_health_reading {
    bool known;
    double value;
    double limit;  /* of its own, the tighter of it and the configured one counts; 0: none */
    int who, rank; /* pid, or number of the GPU, that it is about; and its rank; -1: none */
} tess_health_reading;

typedef struct tess_health_limits {
    double at[TESS_HEALTH_CHECK_COUNT]; /* 0: the check is off, but for a limit of the reading's own */
    int64_t max_failures;               /* rounds in a row that make it unhealthy */
} tess_health_limits;

/* Zero-initialise. */
typedef struct tess_health {
    tess_health_state state;
    int64_t failures; /* rounds in a row in which something failed */
    bool failing[TESS_HEALTH_CHECK_COUNT];
    tess_health_reading last[TESS_HEALTH_CHECK_COUNT]; /* known readings, the newest; .limit: the one that counted */
} tess_health;

/* What a round changed. */
typedef struct tess_health_change {
    bool any;              /* there is something to tell */
    tess_health_state was; /* before it */
    bool began[TESS_HEALTH_CHECK_COUNT], ended[TESS_HEALTH_CHECK_COUNT];
} tess_health_change;

/* Takes a round's readings (TESS_HEALTH_CHECK_COUNT of them). */
void tess_health_judge(tess_health *health, const tess_health_limits *limits, const tess_health_reading *readings,
                       tess_health_change *change);

const char *tess_health_check_name(tess_health_check check); /* "memory" */
const char *tess_health_state_name(tess_health_state state); /* "degraded" */
/* "93.1% of the machine's memory is in use (limit 90%)"; returns text. */
const char *tess_health_describe(tess_health_check check, const tess_health_reading *reading, char *text, size_t size);

#endif
