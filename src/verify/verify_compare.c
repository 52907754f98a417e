/* Compares the digests, losses and values of two runs, and finds the first tensors that differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify.h"

/* Maps floats to integers of the same order; both zeroes become 0. */
static int64_t ordered(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

void tess_verify_compare(const float *here, const float *there, int64_t n, int64_t number, int rank,
                         tess_verify_delta *d)
{
    if (n == 0 || memcmp(here, there, (size_t)n * sizeof(float)) == 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&here[i], &there[i], sizeof(float)) == 0)
            continue;
        bool finite = isfinite(here[i]) && isfinite(there[i]);
        double abs = fabs((double)here[i] - (double)there[i]);
        /* abs 0: the values are +0 and -0 */
        double rel = abs > 0 ? abs / fmax(fabs((double)here[i]), fabs((double)there[i])) : 0;
        d->max_abs = fmax(d->max_abs, finite ? abs : INFINITY);
        d->max_rel = fmax(d->max_rel, finite ? rel : INFINITY);
        if (d->n_different++ > 0 && number + i > d->first)
            continue;
        d->first = number + i;
        d->here = here[i];
        d->there = there[i];
        d->ulp = llabs(ordered(here[i]) - ordered(there[i]));
        d->rank = rank;
    }
}

void tess_verify_merge(const tess_verify_delta *more, tess_verify_delta *d)
{
    if (more->n_different == 0)
        return;
    tess_verify_delta sum = d->n_different == 0 || more->first < d->first ? *more : *d;
    sum.n_different = d->n_different + more->n_different;
    sum.max_abs = fmax(d->max_abs, more->max_abs);
    sum.max_rel = fmax(d->max_rel, more->max_rel);
    *d = sum;
}
