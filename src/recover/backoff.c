#include "recover/backoff.h"

#include "base/core/rng.h"

double tess_backoff_s(double first_s, double max_s, uint64_t seed, int n_in_a_row)
{
    double pause_s = first_s;
    if (n_in_a_row < 2)
        return 0;
    for (int i = 2; i < n_in_a_row && pause_s < max_s; i++)
        pause_s *= 2;
    if (pause_s > max_s)
        pause_s = max_s;
    return pause_s * (1 - 0.5 * (double)tess_rng_uniform(seed, TESS_RNG_RECOVER, (uint64_t)n_in_a_row, 0));
}
