/* The tokens that `tessera bench step` trains on. */
#ifndef TESS_BENCH_STEP_TOKENS_H
#define TESS_BENCH_STEP_TOKENS_H

#include <stdint.h>

/* Token `t` (0 .. seq_len) of the run's row number `row`, below `vocab`: what any other program can compute, too.
 * Targets are the tokens one further on, so a row has seq_len + 1. */
static inline int32_t step_token(int64_t row, int64_t t, int64_t vocab)
{
    uint32_t hash = (uint32_t)(row * 1000003 + t) * 2654435761u;
    return (int32_t)(((uint64_t)(hash ^ hash >> 16) * (uint64_t)vocab) >> 32);
}

#endif
