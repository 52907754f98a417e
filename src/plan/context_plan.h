/* Estimates what it costs, and what it saves, to divide the tokens of a micro-batch among ranks
 * (parallelism.context_parallel_degree): volume, memory and time, for any number of ranks and each way of attention.
 * Starts nothing and holds no weights. */
#ifndef TESS_PLAN_CONTEXT_PLAN_H
#define TESS_PLAN_CONTEXT_PLAN_H

#include "base/report/form.h"
#include "config/config.h"
#include "nn/context_cost.h"

/* The speed of a rank and its link. flops 0: no times are estimated. */
typedef struct tess_context_speed {
    double flops;       /* operations per second */
    double bytes_per_s; /* bandwidth of the link in one direction */
    double latency_s;   /* time that one exchange, or one hop of a ring, takes in addition */
} tess_context_speed;

/* A micro-batch of a model. */
typedef struct tess_context_case {
    int64_t n_heads, n_kv_heads, head_size;
    int64_t n_full, n_windowed, window; /* number of layers without and with a window, and keys of a window */
    int64_t rows, length;               /* number of sequences, and tokens of each */
    tess_dtype dtype;                   /* dtype of activations */
    bool recomputes;                    /* backward computes each layer again */
    double other_flops; /* operations for a token outside attention's products, of forward and backward */
    tess_context_speed speed;
} tess_context_case;

/* A number of ranks and a way of attention. */
typedef struct tess_context_choice {
    int degree, n_leaves;
    tess_context_way way;
    bool folded; /* zigzag */
} tess_context_choice;

/* The busiest rank's share of a micro-batch, in all layers. Forward and backward may have different busiest ranks. */
typedef struct tess_context_estimate {
    int64_t tokens;      /* tokens of each rank, with those that fill up leaves */
    int64_t piece_pairs; /* largest number of tess_context_piece_pairs, with two pieces for each rank */
    double load;         /* largest number of pairs of a query and a key that it sees, by the mean over ranks */
    double forward_bytes, backward_bytes; /* received */
    /* All are 0 if no speed is given. A ring's hops take no time as long as attention takes longer */
    double compute_s, exchange_s, step_s;
} tess_context_estimate;

/* Pure function. n_leaves is a multiple of the degree, and of twice the degree if folded. */
tess_context_estimate tess_context_estimate_of(const tess_context_case *of, const tess_context_choice *choice);

/* A rule of thumb for a Transformer whose keys and values are as wide as its stream. Of a layer, q, k, v and the output
 * of attention are kept. Keys and values travel around a ring, each rank also gathers the outputs of all, and backward
 * receives as much as forward. In bytes of one rank; `ring` and `gather` are forward's, `total` is forward and
 * backward of both. Activations are those of the whole length, divided by the ranks. */
typedef struct tess_context_rule {
    double activations, ring, gather, total;
} tess_context_rule;

tess_context_rule tess_context_rule_of(int64_t hidden_size, int64_t n_layers, int64_t rows, int64_t length,
                                       tess_dtype dtype, int degree);

/* Describes 1, 2, 4 and 8 ranks, and the configuration's own number of ranks, as a new reference, for
 * tess_context_form. Ranks along other axes are left out. `speed` NULL: no times.
 * TESS_E_INVALID: the configuration names no model, or errors of reading it */
tess_status tess_context_describe(tess_mem *mem, const tess_config *config, const tess_context_speed *speed,
                                  json_t **report);
extern const tess_form_part tess_context_form[];

#endif
