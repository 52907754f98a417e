/* Defines the tokens that `tessera bench step` trains on. */
#ifndef TESS_BENCH_STEP_STEP_TOKENS_H
#define TESS_BENCH_STEP_STEP_TOKENS_H

#include <stdint.h>

/* Returns token `t` (0 .. seq_len) of row `row` of the run, which is less than `vocab`. Another program can compute
 * the same tokens. The target of a token is the next token, so a row has seq_len + 1 tokens. */
static inline int32_t step_token(int64_t row, int64_t t, int64_t vocab)
{
    uint32_t hash = (uint32_t)(row * 1000003 + t) * 2654435761u;
    return (int32_t)(((uint64_t)(hash ^ hash >> 16) * (uint64_t)vocab) >> 32);
}

#endif
