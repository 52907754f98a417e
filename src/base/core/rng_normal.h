/* The common part of the two implementations of the normal fill. */
#ifndef TESS_BASE_CORE_RNG_NORMAL_H
#define TESS_BASE_CORE_RNG_NORMAL_H

#include "base/core/rng.h"

enum { TESS_NORMAL_BLOCK = 64 };

#define TESS_NORMAL_ONE 0x3f800000u  /* 1 */
#define TESS_NORMAL_EDGE 0x3f3504f3u /* sqrt(1/2): lower edge of the reduced mantissa */

#define TESS_LN2 0.69314718f
#define TESS_LOG_C0 2.0f
#define TESS_LOG_C1 0.66666669f
#define TESS_LOG_C2 0.4f
#define TESS_LOG_C3 0.28571430f
#define TESS_LOG_C4 0.22222222f

#define TESS_QUARTER_TURN (1.5707964f / 16777216.0f)
#define TESS_SIN_C1 -0.16666667f
#define TESS_SIN_C2 8.3333310e-3f
#define TESS_SIN_C3 -1.9840874e-4f
#define TESS_SIN_C4 2.7525562e-6f
#define TESS_COS_C1 -0.5f
#define TESS_COS_C2 4.1666668e-2f
#define TESS_COS_C3 -1.3888397e-3f
#define TESS_COS_C4 2.4390448e-5f

/* Fills the elements of counters [first_counter, first_counter + 16 * n_blocks). `high` is the counter's upper half. */
void tess_rng_fill_blocks_avx512(uint64_t seed, uint64_t high, uint64_t first_counter, int64_t n_blocks, float mean,
                                 float std, float *out);

#endif
