/* Judges readings against limits, and derives a state: the rules behind tessera/health.h. Pure functions: facts.h and
 * other callers provide the readings (from the system, the board and the GPUs). */
#ifndef TESS_HEALTH_HEALTH_RULES_H
#define TESS_HEALTH_HEALTH_RULES_H

#include "tessera/health.h"

enum { TESS_HEALTH_TEXT_BYTES = 160 }; /* bytes of the text about one check */

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

/* Formats "93.1% of the machine's memory is in use (limit 90%)". Returns text. */
const char *tess_health_describe(tess_health_check check, const tess_health_reading *reading, char *text, size_t size);
/* Formats the change of a round: "degraded: 2.1 GiB are free where checkpoints go (limit 3 GiB)". Returns text. */
const char *tess_health_report(const tess_health *health, const tess_health_change *change, char *text, size_t size);

#endif
