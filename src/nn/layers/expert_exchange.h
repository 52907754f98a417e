/* Expert parallelism: ranks divide a layer's experts among themselves, and send rows to the ranks that have their
 * experts. Without it a rank has all experts, and nothing is exchanged here. */
#ifndef TESS_NN_LAYERS_EXPERT_EXCHANGE_H
#define TESS_NN_LAYERS_EXPERT_EXCHANGE_H

#include "nn/layers/experts.h"
#include "nn/layers/layers.h"

/* The rows of a batch, by expert and leaf (tess_context in nn/points.h). A source is a micro-batch, or a rank's part of
 * one: each neighbour has one, which all its tensor-parallel ranks know. The arrays are in the host's memory, from
 * forward to the end of backward. */
typedef struct tess_expert_ends {
    int64_t leaves; /* each source's number of leaves */
    /* (sources * n_own * leaves + 1) where the rows of leaf l of source s for own expert e begin:
     * at[(s * n_own + e) * leaves + l]. They lie source by source, and in each by expert and token */
    int64_t *at;
    int32_t *own; /* (E, leaves) the end of each expert's sorted rows of each leaf, for this rank's source */
    int32_t *sent, *received; /* (E * leaves + E) numbers that ranks tell each other */
    bool *has;                /* (sources) whether the source has tokens; one at the end of a step may have none */
} tess_expert_ends;

/* Returns the bytes of the arrays with one leaf. With more leaves they need at most as many times that. */
static inline size_t tess_expert_ends_bytes(const tess_experts_params *p)
{
    const int64_t n_at = p->sources * p->n_own + 1, n_numbers = 5 * p->n_experts,
                  n_bytes = n_numbers * (int64_t)sizeof(int32_t) + p->sources;
    return ((size_t)n_at + (size_t)(n_bytes + 7) / 8) * sizeof(int64_t);
}

/* The arrays in that memory. */
static inline tess_expert_ends tess_expert_ends_in(const tess_experts_params *p, int64_t leaves, void *memory)
{
    const int64_t all = p->n_experts * leaves;
    int64_t *at = memory;
    int32_t *own = (int32_t *)(at + p->sources * p->n_own * leaves + 1), *sent = own + all,
            *received = sent + all + p->n_experts;
    return (tess_expert_ends){leaves, at, own, sent, received, (bool *)(received + all + p->n_experts)};
}

/* Returns the first of an expert's sorted rows, and their number. e may be the number of experts. */
static inline int32_t tess_expert_begin(const tess_expert_ends *ends, int64_t e)
{
    return e > 0 ? ends->own[e * ends->leaves - 1] : 0;
}

static inline int32_t tess_expert_rows_of(const tess_expert_ends *ends, int64_t e)
{
    return tess_expert_begin(ends, e + 1) - tess_expert_begin(ends, e);
}

static inline bool tess_experts_are_divided(const tess_experts_params *p)
{
    return p->n_own < p->n_experts;
}

/* Fetches the ends of the routing in `tensors`, and learns those of the other sources. */
tess_status tess_experts_meet(const tess_layer_call *call, const tess_experts_tensors *tensors,
                              const tess_expert_ends *ends);

/* Both move rows of C elements between the ranks of tokens, sorted (N, C), and those of experts, owned. Each rank sends
 * what its micro-batch has, and every tensor-parallel rank of a micro-batch gets all results of it back. Without expert
 * parallelism both are the same memory, and nothing happens. */
tess_status tess_experts_send(const tess_layer_call *call, const tess_expert_ends *ends, const void *sorted,
                              void *owned);
tess_status tess_experts_return(const tess_layer_call *call, const tess_expert_ends *ends, const void *owned,
                                void *sorted);

#endif
