/* Distributes work of unequal sizes: sequences over micro-batches, micro-batches over ranks, any items over bins.
 * Pure functions of the sizes; on a tie the lower index wins. */
#ifndef TESS_RL_ALGO_RL_BALANCE_H
#define TESS_RL_ALGO_RL_BALANCE_H

#include "tessera/memory.h"

/* Makes micro-batches of whole sequences: walks the samples in order and puts each into the first bin with enough
 * room (max_tokens). `together` consecutive samples (1, or 2 for a pair) share a bin. lengths (n), n a multiple of
 * `together`; bin (n, written): the sample's bin in [0, *n_bins). Within a bin the order is that of the samples.
 * TESS_E_INVALID names the sample that is longer than max_tokens, or negative. Time: bins times n. */
tess_status tess_pack_first_fit(const int64_t *lengths, int64_t n, int64_t max_tokens, int together, int32_t *bin,
                                int32_t *n_bins);

/* The cost of a sequence, in units of its model: width * length of products, length^2 of attention; width is about
 * 6 * channels for a Llama (its products take 24 C^2 T flops a layer, attention 4 C T^2). */
int64_t tess_sequence_cost(int64_t length, int64_t width);

/* Renumbers bins by descending cost. Bins that ranks process at the same time then cost about the same, whatever the
 * number of ranks. cost (n) of samples; bin (n) in [0, n_bins), changed. TESS_E_NOMEM. */
tess_status tess_pack_by_cost(tess_mem *mem, const int64_t *cost, int64_t n, int32_t *bin, int32_t n_bins);

/* A function that distributes items over bins, as the two below do. */
typedef tess_status (*tess_balance_fn)(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                                       int64_t *total);

/* Packs so that all bins cost about the same. It begins with the number of bins of tess_pack_first_fit and adds bins
 * until `balance`, given the samples' costs (n), keeps every bin within max_tokens. Errors are those of both
 * functions. */
tess_status tess_pack_balanced(tess_mem *mem, tess_balance_fn balance, const int64_t *lengths, const int64_t *cost,
                               int64_t n, int64_t max_tokens, int together, int32_t *bin, int32_t *n_bins);

/* Distributes n items over n_bins bins so that the largest bin is small. cost (n) >= 0; bin (n, written); total
 * (n_bins, written; NULL is fine). Longest processing time first: each item, largest first, goes into the bin with
 * the smallest sum. The largest bin is at most 4/3 - 1/(3 n_bins) times the optimum (Graham 1969). TESS_E_INVALID:
 * no bins, or a negative cost; TESS_E_NOMEM. */
tess_status tess_balance_lpt(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                             int64_t *total);
/* Largest differencing (Karmarkar and Karp 1982) for n_bins bins: repeatedly merges the two partial partitions with
 * the largest spread, largest bin with smallest. Usually far better than LPT; takes n * n_bins * 16 bytes. */
tess_status tess_balance_differencing(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                                      int64_t *total);

#endif
