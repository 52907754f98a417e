#include "rl/algo/rl_passk.h"

#include <math.h>

double tess_pass_at_k(int64_t n, int64_t correct, int64_t k)
{
    if (k < 1 || k > n || correct < 0 || correct > n)
        return NAN;
    if (n - correct < k)
        return 1;
    double all_wrong = 1; /* the binomials themselves would overflow */
    for (int64_t i = n - correct + 1; i <= n; i++)
        all_wrong *= 1 - (double)k / (double)i;
    return 1 - all_wrong;
}
