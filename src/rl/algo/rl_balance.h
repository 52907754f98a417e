/* Work of unequal sizes, shared out: sequences to micro-batches, micro-batches to their order, anything to bins. Pure:
 * functions of the sizes alone, ties going to the lower index. */
#ifndef TESS_RL_ALGO_RL_BALANCE_H
#define TESS_RL_ALGO_RL_BALANCE_H

#include "tessera/memory.h"

/* Micro-batches of whole sequences: walks the samples in order and puts each into the first bin that has room below
 * max_tokens. `together` consecutive samples (1, or 2 for a pair) share a bin. lengths (n), n a multiple of `together`;
 * bin (n, written): the sample's bin in [0, *n_bins). Within a bin the order is that of the samples.
 * TESS_E_INVALID names the sample that is longer than max_tokens, or negative. Time: bins times n. */
tess_status tess_pack_first_fit(const int64_t *lengths, int64_t n, int64_t max_tokens, int together, int32_t *bin,
                                int32_t *n_bins);

/* The cost of a sequence, in units of its model: width * length of products, length^2 of attention; width is about
 * 6 * channels for a Llama (its products take 24 C^2 T flops a layer, attention 4 C T^2). */
int64_t tess_sequence_cost(int64_t length, int64_t width);

/* Numbers bins anew, the most expensive first, so that those which ranks take side by side cost about the same whatever
 * the number of ranks. cost (n) of samples; bin (n) in [0, n_bins), changed. TESS_E_NOMEM. */
tess_status tess_pack_by_cost(tess_mem *mem, const int64_t *cost, int64_t n, int32_t *bin, int32_t n_bins);

/* A way to share items out, as below. */
typedef tess_status (*tess_balance_fn)(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                                       int64_t *total);

/* Packs into as many bins as tess_pack_first_fit, or into the fewest more in which `balance` of the samples' costs (n)
 * keeps all below max_tokens. So all bins cost about the same. Errors are those of both. */
tess_status tess_pack_balanced(tess_mem *mem, tess_balance_fn balance, const int64_t *lengths, const int64_t *cost,
                               int64_t n, int64_t max_tokens, int together, int32_t *bin, int32_t *n_bins);

/* n items to n_bins bins so that the largest bin is small; cost (n) >= 0, bin (n, written), total (n_bins, written;
 * NULL is fine). Longest processing time first: each item, largest first, to the bin with least. At most 4/3 - 1/(3
 * n_bins) times the best (Graham 1969). TESS_E_INVALID: no bins, or a negative cost; TESS_E_NOMEM. */
tess_status tess_balance_lpt(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                             int64_t *total);
/* Largest differencing (Karmarkar and Karp 1982), for n_bins ways: the two partial partitions that spread most become
 * one, largest bin with smallest. Usually far better than LPT; takes n * n_bins * 16 bytes. */
tess_status tess_balance_differencing(tess_mem *mem, const int64_t *cost, int64_t n, int32_t n_bins, int32_t *bin,
                                      int64_t *total);

#endif
