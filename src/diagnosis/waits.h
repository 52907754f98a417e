/* Computes how long ranks waited for each other, and their time in each phase, from the records and spans of a
 * history. */
#ifndef TESS_DIAGNOSIS_WAITS_H
#define TESS_DIAGNOSIS_WAITS_H

#include "diagnosis/history.h"
#include "diagnosis/straggler.h"

enum { TESS_WAITS_MAX_RANKS = 1024 };

/* The waits for late members. In a collective that all members joined, each of them waits for the last one. */
typedef struct tess_waits {
    int world;
    uint64_t *ns;           /* (world, world): time that the rank of the row waited for the rank of the column */
    uint64_t n_collectives; /* number of collectives counted */
} tess_waits;

/* Computes the waits. Free waits->ns with tess_mem_drop. TESS_E_UNSUPPORTED: more than TESS_WAITS_MAX_RANKS ranks. */
tess_status tess_waits_find(const tess_history *history, tess_waits *waits);
/* Returns the nanoseconds that all ranks waited for `rank`, or for any rank (-1). */
uint64_t tess_waits_for(const tess_waits *waits, int rank);

#define TESS_STRAGGLER_PHASE_LIST(X) \
    X("data") X("forward") X("backward") X("optimizer") X("checkpoint") X("validation") X("evaluation")

/* Returns the names of the phases that are searched for stragglers; the list ends with NULL. */
const char *const *tess_phase_names(void);

/* Writes the seconds that each rank spent in the phase, without waits for others: seconds (world,
 * TESS_STRAGGLER_STEPS). Covers the last TESS_STRAGGLER_STEPS steps in which all ranks completed the phase. Returns
 * false if there are fewer such steps. */
bool tess_phase_seconds(const tess_history *history, const char *phase, double *seconds);

#endif
