/* How long ranks wait in a collective before they give up. The deadline is longer in phases that take long by nature,
 * for large operations, and on links seen to be slow. */
#ifndef TESS_JOB_DEADLINE_H
#define TESS_JOB_DEADLINE_H

#include <stdint.h>

/* Factor on the deadline of a small operation in training, for an operation of n_elements. */
double watchdog_deadline_by_size(uint64_t n_elements);
/* Seconds allowed for `bytes` at `bytes_per_s` (0: not known), by that rule alone. */
double watchdog_deadline_by_bytes(uint64_t bytes, double bytes_per_s);

/* Deadline in seconds of a collective of n_elements and `bytes` while its rank is in `phase` (NULL: none). timeout_s is
 * the deadline of a small collective in training. The result is the longest of
 *   by phase:  1 x in training and setup, 3 x in evaluation and checkpoints;
 *   by size:   3/2 x from 1e7 elements on, 3 x from 1e8 on;
 *   by bytes:  20 x the time at 100 MB/s, or at bytes_per_s where recent operations were slower than that
 *              (0: not known; below 1 MB/s it is a fault and no link).
 * With the default of 600 s: by phase 600 and 1800, by size 900 and 1800. */
double watchdog_deadline(double timeout_s, const char *phase, uint64_t n_elements, uint64_t bytes, double bytes_per_s);

/* Updates the known link speed after an operation ran at `seen` bytes/s: halfway towards a slower speed, since one
 * operation may have met an accident, and an eighth of the way towards a faster one. known 0: none was measured. */
double watchdog_learn_speed(double known, double seen);

#endif
