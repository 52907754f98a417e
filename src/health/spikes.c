#include "health/spikes.h"

#include <math.h>

double tess_spikes_add(tess_spikes *spikes, double value)
{
    double mean = 0, square = 0;
    spikes->value[spikes->n++ % TESS_SPIKE_WINDOW] = value;
    if (spikes->n < TESS_SPIKE_WINDOW)
        return NAN;
    for (int64_t i = spikes->n - TESS_SPIKE_WINDOW; i < spikes->n; i++)
        mean += spikes->value[i % TESS_SPIKE_WINDOW];
    mean /= TESS_SPIKE_WINDOW;
    for (int64_t i = spikes->n - TESS_SPIKE_WINDOW; i < spikes->n; i++) {
        double above = spikes->value[i % TESS_SPIKE_WINDOW] - mean;
        square += above * above;
    }
    return square > 0 ? (value - mean) / sqrt(square / TESS_SPIKE_WINDOW) : 0;
}
