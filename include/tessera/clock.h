/* A clock of phases: measures where the time of a step goes. The thread that runs the step switches it from phase to
 * phase, and every nanosecond between start and stop belongs to exactly one phase. A switch reads the clock once (tens
 * of nanoseconds). The times are those of tess_progress.phase_s.
 *
 * A clock is plain memory of the caller. Only one thread at a time may use it. */
#ifndef TESSERA_CLOCK_H
#define TESSERA_CLOCK_H

#include <stdint.h>

#include "tessera/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TESS_PHASE_LIST(X)                                                                \
    X(TESS_PHASE_OTHER, "other")                                                          \
    X(TESS_PHASE_DATA, "data")           /* the next micro-batch */                       \
    X(TESS_PHASE_GATHER, "gather")       /* parameters in flight to the ranks */          \
    X(TESS_PHASE_FORWARD, "forward")     /* the products of the head count as backward */ \
    X(TESS_PHASE_BACKWARD, "backward")   /* including what is recomputed */               \
    X(TESS_PHASE_REDUCE, "reduce")       /* gradients in flight to their owners */        \
    X(TESS_PHASE_OPTIMIZER, "optimizer") /* norm, clipping, update */                     \
    X(TESS_PHASE_WAIT, "wait")           /* waiting for peers that have not arrived */

typedef enum tess_phase {
#define X(name, text) name,
    TESS_PHASE_LIST(X)
#undef X
        TESS_PHASE_COUNT
} tess_phase;

typedef struct tess_phase_clock {
    uint64_t ns[TESS_PHASE_COUNT]; /* times of completed phases */
    uint64_t since_ns;             /* when the current phase began */
    tess_phase phase;              /* the current phase */
} tess_phase_clock;

/* Starts with all counters zero, in TESS_PHASE_OTHER. */
TESS_API void tess_phase_start(tess_phase_clock *clock);
/* Ends the current phase and begins `next`. Returns the phase that ended, so that the caller can go back to it. */
TESS_API tess_phase tess_phase_switch(tess_phase_clock *clock, tess_phase next);
/* Moves `ns` (at most all) of the current phase's time so far to `phase`. */
TESS_API void tess_phase_credit(tess_phase_clock *clock, tess_phase phase, uint64_t ns);
/* Returns "gather" and the like; never NULL. */
TESS_API const char *tess_phase_name(tess_phase phase);

#ifdef __cplusplus
}
#endif

#endif
