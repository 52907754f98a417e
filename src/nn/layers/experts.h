/* The parameters and tensors of a mixture of experts, the part that replaces feed-forward in a layer (experts.c). */
#ifndef TESS_NN_LAYERS_EXPERTS_H
#define TESS_NN_LAYERS_EXPERTS_H

#include "nn/layers/block_part.h"
#include "nn/layers/transformer_layer.h"

/* One expert is a gated feed-forward: down(act(gate) * up). If gate and up are one map, `gate` has pairs of both, there
 * is no `up`, and the activation is clamped (tess_clamped_glu_args). */
typedef struct tess_expert {
    tess_linear gate, up, down;
} tess_expert;

typedef struct tess_experts_params {
    int64_t size; /* F, this rank's part of the channels of an expert */
    int64_t n_experts, top_k;
    int64_t n_own;         /* experts of this rank, of as many on each rank */
    int sources;           /* ranks whose tokens this rank's experts read; 1 without expert parallelism */
    tess_route_rule rule;  /* how a token chooses its experts */
    int bias;              /* parameter (E), which is added to p for the choice alone; -1: none */
    double balance, z;     /* factors of the auxiliary losses; 0: none */
    bool joined;           /* gate and up are one map */
    float alpha, limit;    /* constants of the clamped activation */
    bool lends_norm;       /* a shared expert reads the norm's output, too; its din is the gradient of that */
    tess_norm norm;        /* the norm before router and experts */
    tess_linear router;    /* (E, C), whole on every rank */
    tess_expert experts[]; /* (n_own) */
} tess_experts_params;

/* Letters as in layers.h. E experts, of which each token chooses K. N = T K sorted rows: first those of expert 0, with
 * tokens ascending. */
typedef struct tess_experts_tensors {
    tess_norm_stats stats; /* (R) */
    float *probs;          /* (T, E) logits, then their softmax */
    float *lse;            /* (T) log-sum-exp of the logits, only with a z-loss */
    int32_t *chosen;       /* (T, K) the experts of a token */
    float *weights;        /* (T, K) their weights */
    int32_t *place;        /* (T, K) the sorted row of each */
    int32_t *token;        /* (N) the token of each sorted row */
    float *gates;          /* (N) the weight of each sorted row; in backward its gradient */
    int32_t *ends;         /* (E, leaves) the end of each expert's rows in each leaf */
    void *x;               /* (N, C) inputs of experts; in backward also their gradients */
    void *out;             /* (N, C) outputs of experts; backward replaces them by their gradients */
    void *dlogits;         /* (T, E) */
    /* Rows of all sources for this rank's experts, at most M = N times the sources (expert_exchange.h) */
    void *own_x, *own_out; /* (M, C) as x and out; NULL without expert parallelism: x and out are these rows */
    void *gate, *up;       /* (M, F); joined: gate is (M, 2F), and up NULL */
    void *dact;            /* (M, F), only if joined */
    void *act;             /* (M, F) */
    float *partial;        /* gradients of one expert, for each level of the tree over sources and leaves; NULL: one */
    void *sums; /* the sum of lse^2 as a double, then (E) floats: sums of probs; only with an auxiliary loss */
    /* (ranks that divide the tokens, E + 1) each rank's rows of each expert, and targets; then the ends of all rows
     * (E). NULL: no auxiliary loss, or no leaves */
    int32_t *met;
} tess_experts_tensors;

/* The cost of computing an expert's outputs again (tess_layer_group_cost). */
tess_group_cost tess_experts_cost(const tess_experts_params *experts, double channels, double element);

#endif
