/* Where one rank's time of one training step went. */
#ifndef TESS_TRAIN_STEP_TIMES_H
#define TESS_TRAIN_STEP_TIMES_H

#include "base/os/phase_clock.h"

/* The phases add up to the step. All that `gather`, `reduce` and `wait` hold was spent on the critical path; hidden_s
 * comes on top of it. */
typedef struct tess_step_times {
    double phase_s[TESS_PHASE_COUNT];
    double total_s;
    double hidden_s; /* waits for peers that passed while this rank computed: what ranks in lockstep would have had */
    double gathered_bytes, reduced_bytes; /* read and written by this rank in the two phases */
} tess_step_times;

#endif
