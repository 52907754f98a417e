/* Says which tokens of a micro-batch each rank has that divides it, in the order of its leaves (tess_context in
 * nn/points.h). Pure functions, except for the first. */
#ifndef TESS_ENGINE_BATCH_CONTEXT_ORDER_H
#define TESS_ENGINE_BATCH_CONTEXT_ORDER_H

#include "config/config.h"
#include "nn/points.h"

/* Returns the context of a configuration, without exchanges. The environment may name its device. */
tess_context tess_context_of(const tess_config *config);
/* Returns the tokens of all ranks for a micro-batch of n_tokens, with those that fill up leaves. */
int64_t tess_context_filled(const tess_context *context, int64_t n_tokens);
/* Returns how many of n_tokens of a micro-batch one rank has, with those that fill up leaves. */
int64_t tess_context_tokens(const tess_context *context, int64_t n_tokens);
/* Returns the step between lengths of `rows` rows with which no tokens fill up leaves. */
int64_t tess_context_length_unit(const tess_context *context, int64_t rows);

/* Returns which token of a micro-batch of n_tokens this rank's row is; n_tokens or more: one that fills up a leaf. */
int64_t tess_context_token(const tess_context *context, int64_t n_tokens, int64_t row);

/* Sorts the values of a micro-batch of n_tokens by token. `by_leaf` has those of all ranks, one after the other; values
 * of tokens that fill up leaves are dropped. */
void tess_context_sort(const tess_context *context, int64_t n_tokens, const float *by_leaf, float *by_token);

#endif
