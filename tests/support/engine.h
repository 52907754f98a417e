/* A small engine in a shared object, which a test loads at an address of its choice: the object makes the collective
 * calls. */
#ifndef TESS_TESTS_SUPPORT_ENGINE_H
#define TESS_TESTS_SUPPORT_ENGINE_H

#include "tessera/comm.h"

/* tess_all_reduce: the object cannot resolve symbols of the program that loads it. */
typedef tess_status (*engine_sum)(tess_team *team, const void *in, void *out, size_t n, tess_dtype dtype, tess_op op,
                                  tess_work **work);
/* engine_sum_a, engine_sum_b: sums n floats, from one place each. */
typedef tess_status (*engine_call)(engine_sum sum, tess_team *team, float *x, size_t n);

typedef struct engine {
    engine_call sum_a, sum_b;
} engine;

/* Loads the object, at another address for each shift. */
engine engine_load(int shift);

#endif
