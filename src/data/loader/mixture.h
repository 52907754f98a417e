/* Chooses the source of a mixture's next row: a pure function. Private to this folder. */
#ifndef TESS_DATA_LOADER_MIXTURE_H
#define TESS_DATA_LOADER_MIXTURE_H

#include <stdint.h>

/* Chooses among n sources with weights >= 1 that have given taken[i] rows so far. After any number of rows r, source i
 * has given r * w_i / sum(w) rows, always rounded down or up to a neighbouring integer. */
int tess_mixture_next(const int64_t *weights, const uint64_t *taken, int n);

#endif
