/* How long to wait before the next attempt. */
#ifndef TESS_RECOVER_BACKOFF_H
#define TESS_RECOVER_BACKOFF_H

#include <stdint.h>

/* Seconds to wait after `n_in_a_row` failures without a step in between: none after the first, then first_s, doubled
 * each time up to max_s. A random part of up to half is subtracted, so that jobs that failed together do not restart
 * together. The same seed and number give the same pause. */
double tess_backoff_s(double first_s, double max_s, uint64_t seed, int n_in_a_row);

#endif
