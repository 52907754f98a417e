/* How long ranks wait in a collective before they give it up: longer in phases that take long by their nature, for
 * large operations, and where links were seen to be slow. */
#ifndef TESS_JOB_DEADLINE_H
#define TESS_JOB_DEADLINE_H

#include <stdint.h>

/* Times the deadline of a small operation in training, in seconds: for n_elements. */
double watchdog_deadline_by_size(uint64_t n_elements);
/* Seconds that `bytes` give at `bytes_per_s` (0: not known), whatever the deadline is. */
double watchdog_deadline_by_bytes(uint64_t bytes, double bytes_per_s);

/* Of a collective of n_elements and `bytes` while its rank is in `phase` (NULL: none), when timeout_s is what holds for
 * a small one in training: the longest of
 *   by phase:  1 x in training and setup, 3 x in evaluation and checkpoints;
 *   by size:   3/2 x from 1e7 elements on, 3 x from 1e8 on;
 *   by bytes:  20 x what they take at 100 MB/s, or at bytes_per_s where operations of late were slower than that (0:
 * not known; below 1 MB/s it is no link but a fault). With the default of 600 s: 600, 1800; 900, 1800. Seconds. */
double watchdog_deadline(double timeout_s, const char *phase, uint64_t n_elements, uint64_t bytes, double bytes_per_s);

/* The speed to reckon with after an operation went at `seen` bytes/s: halfway to a slower one, for one may have met an
 * accident, and an eighth of the way to a faster one. known 0: none was seen. */
double watchdog_learn_speed(double known, double seen);

#endif
