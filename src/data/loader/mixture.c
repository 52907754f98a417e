/* Row k of source i may come at row floor(k S / w_i) of the stream or later, and must come before row ceil((k + 1) S /
 * w_i), where S is the sum of the weights. Of the rows that may come, the one with the earliest deadline is chosen.
 * These are unit jobs on one machine, for which the earliest deadline always finds a schedule if one exists (Baruah et
 * al., Proportionate Progress, 1996). */
#include "data/loader/mixture.h"

#include <stdbool.h>

typedef unsigned __int128 wide;

int tess_mixture_next(const int64_t *weights, const uint64_t *taken, int n)
{
    wide sum = 0, at = 0, first = 0;
    int best = -1;
    for (int i = 0; i < n; i++) {
        sum += (wide)weights[i];
        at += taken[i];
    }
    for (int i = 0; i < n; i++) {
        wide w = (wide)weights[i], deadline = ((taken[i] + (wide)1) * sum + w - 1) / w;
        bool may = taken[i] * sum < (at + 1) * w;
        if (may && (best < 0 || deadline < first)) {
            best = i;
            first = deadline;
        }
    }
    return best < 0 ? 0 : best;
}
