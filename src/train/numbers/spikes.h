/* How unusual a value is among the newest ones: its z-score over a window, as llm.c prints it. */
#ifndef TESS_TRAIN_NUMBERS_SPIKES_H
#define TESS_TRAIN_NUMBERS_SPIKES_H

#include <stdint.h>

enum { TESS_SPIKE_WINDOW = 128 };

typedef struct tess_spikes {
    double value[TESS_SPIKE_WINDOW]; /* a ring */
    int64_t n;                       /* values so far */
} tess_spikes;

/* Adds a value. Returns (value - mean) / deviation over the newest TESS_SPIKE_WINDOW values, itself among them, so at
 * most sqrt(127) = 11.3; 0 when they are all alike, NaN as long as there are fewer. The sums run
 * from the oldest to the newest: a window that was saved and restored gives the same bits. */
double tess_spikes_add(tess_spikes *spikes, double value);

#endif
