/* The object has exactly two call sites: its functions are neither inlined nor called in tail position. */
#include "support/engine.h"

#define FOR_ALL __attribute__((visibility("default"), noinline))

FOR_ALL tess_status engine_sum_a(engine_sum sum, tess_team *team, float *x, size_t n);
FOR_ALL tess_status engine_sum_b(engine_sum sum, tess_team *team, float *x, size_t n);

static volatile int n_calls;

tess_status engine_sum_a(engine_sum sum, tess_team *team, float *x, size_t n)
{
    tess_status status = sum(team, x, x, n, TESS_F32, TESS_SUM, NULL);
    n_calls++;
    return status;
}

tess_status engine_sum_b(engine_sum sum, tess_team *team, float *x, size_t n)
{
    tess_status status = sum(team, x, x, n, TESS_F32, TESS_SUM, NULL);
    n_calls--;
    return status;
}
