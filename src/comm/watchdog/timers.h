/* Every timer of a job in one place: what it is for, how long it is, where that comes from, and which must be shorter
 * than which. Two timers that do not know of each other end jobs that would have gone on. */
#ifndef TESS_COMM_WATCHDOG_TIMERS_H
#define TESS_COMM_WATCHDOG_TIMERS_H

#include "base/text/text.h"
#include "comm/watchdog/patience.h"

typedef struct tess_timer_settings {
    double soft_s;    /* comm.soft_timeout_s; 0: never */
    double timeout_s; /* comm.timeout_s */
    double grace_s;   /* of the launcher */
} tess_timer_settings;

typedef struct tess_timer {
    const char *name, *from, *does;
    double seconds;
} tess_timer;

enum { TESS_TIMERS = 16 };

typedef struct tess_timers {
    int n;
    tess_timer rows[TESS_TIMERS];
} tess_timers;

void tess_timers_make(const tess_timer_settings *settings, tess_timers *timers);

/* TESS_E_INVALID: two of them are in the wrong order; the message names both. */
tess_status tess_timers_check(const tess_timers *timers);

/* A table for people. */
tess_status tess_timers_print(const tess_timers *timers, tess_buffer *out);

/* How long ranks wait in a collective of n_elements and `bytes` while they are in `phase` (NULL: none), when timeout_s
 * is what holds for a small one in training: the longest of
 *   by phase:  1 x in training and setup, 3 x in evaluation and checkpoints;
 *   by size:   3/2 x from 1e7 elements on, 3 x from 1e8 on;
 *   by bytes:  20 x what they take at 100 MB/s, or at bytes_per_s where operations of late were slower than that (0:
 * not known; below 1 MB/s it is no link but a fault). With the default of 600 s: 600, 1800; 900, 1800. */
double tess_timers_deadline(double timeout_s, const char *phase, uint64_t n_elements, uint64_t bytes,
                            double bytes_per_s);
/* The speed to reckon with after an operation went at `seen` bytes/s: halfway to a slower one, for one may have met an
 * accident, and an eighth of the way to a faster one. known 0: none was seen. */
double tess_timers_learn_speed(double known, double seen);

#endif
