#include "diagnosis/majority.h"

tess_majority tess_majority_find(tess_alike *alike, const void *context, int n)
{
    enum { MOST_TRIED = 256 }; /* limit of groups that are compared */
    tess_majority best = {.first = -1};
    for (int i = 0, n_tried = 0; i < n && n_tried < MOST_TRIED; i++) {
        int n_alike = 0;
        if (!alike(context, i, i) || (best.first >= 0 && alike(context, best.first, i)))
            continue;
        for (int other = 0; other < n; other++)
            n_alike += alike(context, i, other);
        n_tried++;
        if (n_alike > best.n)
            best = (tess_majority){.first = i, .n = n_alike};
        else if (n_alike == best.n)
            best.tie = true;
    }
    return best;
}
