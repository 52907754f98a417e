/* Finds spikes: how far a value is from the values before it, as llm.c prints it. */
#ifndef TESS_HEALTH_SPIKES_H
#define TESS_HEALTH_SPIKES_H

#include "tessera/health.h"

typedef struct tess_spikes {
    double value[TESS_SPIKE_WINDOW]; /* a ring buffer */
    int64_t n;                       /* number of values so far */
} tess_spikes;

/* Adds a value and returns its z-score, (value - mean) / deviation over the latest TESS_SPIKE_WINDOW values. The
 * value itself is one of them, so the result is at most sqrt(127) = 11.3. 0: all values are equal; NaN: there are
 * too few. The sums run from the oldest value to the newest, so a window that was saved and restored gives the same
 * bits. */
double tess_spikes_add(tess_spikes *spikes, double value);

#endif
