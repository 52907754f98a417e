/* The parameters and tensors of a layer's two parts, and the pieces of attention (transformer_layer.c). */
#ifndef TESS_NN_LAYERS_TRANSFORMER_LAYER_H
#define TESS_NN_LAYERS_TRANSFORMER_LAYER_H

#include "nn/layers/block_part.h"

/* ---- Attention ---- */
/* Keys and values that follow from a latent (latent_attention.c). */
typedef struct tess_latent_params {
    int64_t plain,
        value; /* N, V: channels of a head without positions, and of a head of v; 0: k and v are projections */
    tess_norm norm, q_norm;
    tess_linear q_a, kv_a, shared, kv_b; /* q_a.weight -1: q is a projection; kv_a and shared: views of one matrix */
} tess_latent_params;

typedef struct tess_attention_params {
    int64_t n_heads, n_kv_heads, head_size; /* this rank's part of the sizes */
    int64_t window; /* number of keys that a query sees, up to and including its own position; 0: all of them */
    float scale;    /* factor of q k^T */
    int64_t rotary; /* number of channels of a head that are rotated, the first ones */
    tess_rope_table q_rope, k_rope;
    bool interleaved; /* rotated pairs are neighbouring channels */
    float soft_cap;   /* soft cap of scores; 0: none */
    float clip;       /* bound of q and k after their norms, and of v; 0: none */
    bool beside;      /* a parallel feed-forward follows */
    bool per_head;    /* outputs of qkv are (heads, 3, head_size), and q, k and v are not maps of their own */
    bool lends_norm;  /* a parallel feed-forward reads the norm's output, too; its din is the gradient of that */
    bool wide_norms;  /* norms of q and k are over the channels of all heads, not of one */
    /* Number of LayerNorms of heads, one for each head of q and k. Their parameters begin at those of q_norm. 0: none
     */
    int64_t n_head_norms;
    int sinks; /* (H) a further score of each head; -1: none */
    tess_norm norm, q_norm, k_norm;
    tess_branch_end end;
    tess_linear q, k, v, o;
    tess_linear qkv;           /* q, k and v as one map if one matrix stores them; weight -1: separate matrices */
    tess_latent_params latent; /* replaces k and v, which are absent */
} tess_attention_params;

/* A row per token. Backward recomputes norm outputs, normed q and k, and the activation: each costs a pass over memory,
 * and saving them would take 2C + F more per token. */
typedef struct tess_attention_tensors {
    tess_norm_stats stats;   /* (R) */
    void *q_raw, *k_raw, *v; /* (T, H, D), (T, G, D), (T, G, D) before the norms of q and k */
    void *q, *k;             /* inputs of attention: the same as q_raw and k_raw, or, with norms, work space */
    float *q_rstd, *k_rstd;  /* (T, H), (T, G), or (T) for wide norms; only with norms of q and k */
    void *v_raw;             /* (T, G, D) v before it is clipped; only with a bound */
    float *q_mean, *k_mean;  /* (H, T), (G, T), as q_rstd and k_rstd then; only with a norm for each head */
    void *head, *dhead;      /* (T, D) of one head; only with a norm for each head */
    float *dnorms;           /* (H, D) of all ranks' heads: gradients of these norms, if ranks share the layer */
    void *out, *dout;        /* (T, H, D) output of attention */
    float *lse;              /* (T, H) log-sum-exp */
    void *mixed;             /* (T, H, 3, D) output of qkv, or its gradient; only with per_head */
    void *dq, *dk, *dv;      /* gradients of q, k, v, in the same layout */
    float *dsinks;           /* room for all heads; only this rank's ones are written */
    void *raw;               /* (R, C) and (R) of the norm at the branch's end, if there is one */
    tess_norm_stats raw_stats;
    /* Only with latents. wide, dwide: out and dout with heads of D channels */
    void *q_latent, *latent, *shared, *kv; /* (T, n_in of q), (T, L), (T, R), (T, H, N + V) */
    void *q_normed, *normed, *wide, *dwide;
    float *q_latent_rstd, *latent_rstd; /* (T) */
    void *dq_normed, *dq_latent, *dnormed, *dlatent, *dshared, *dkv;
} tess_attention_tensors;

/* Whether the layer has latents. */
static inline bool tess_has_latents(const tess_attention_params *p)
{
    return p->latent.plain > 0;
}

/* Whether query heads that share a key head may be on different ranks, because more ranks share the layer than it
 * has key heads. */
static inline bool tess_shares_key_heads(const tess_attention_params *p)
{
    return !tess_has_latents(p) && p->q.out.unit == p->head_size && p->q.out.size > p->k.out.size;
}

/* Elements of a row of keys in a cache: those of the heads that this rank attends with. */
static inline int64_t tess_cached_row(const tess_attention_params *p)
{
    return tess_shares_key_heads(p) ? p->k.out.size : p->n_kv_heads * p->head_size;
}

/* Whether the layer has norms of q and k. */
static inline bool tess_norms_heads(const tess_attention_params *p)
{
    return p->q_norm.weight >= 0;
}

/* Elements between tokens of this rank's q, and of its k and v. Without latents and norms of q and k, all three are
 * parts of one row. */
typedef struct tess_head_strides {
    int64_t q, kv;
} tess_head_strides;

static inline tess_head_strides tess_head_strides_of(const tess_attention_params *p)
{
    int64_t Q = p->n_heads * p->head_size, K = p->n_kv_heads * p->head_size;
    return tess_norms_heads(p) || tess_has_latents(p) ? (tess_head_strides){Q, K}
                                                      : (tess_head_strides){Q + 2 * K, Q + 2 * K};
}

/* Projects y (T, C) to q_raw, k_raw and v. */
tess_status tess_qkv_forward(const tess_layer_call *call, const void *y, const tess_attention_tensors *tensors);
/* Computes the parameters' gradients and dy (T, C); dy NULL: not needed. */
tess_status tess_qkv_backward(const tess_layer_call *call, const void *y, const tess_attention_tensors *tensors,
                              bool inputs, void *dy);
bool tess_qkv_trains(const tess_layer_call *call);
/* Writes the gradient of the sinks, if there are any that train. */
tess_status tess_sinks_backward(const tess_layer_call *call, const tess_attention_tensors *tensors);
/* Whether the parameters' gradients need y. */
bool tess_qkv_reads_input(const tess_layer_call *call);

/* The same with latents. q, k and v are complete afterwards; heads_backward turns their gradients into those of maps.
 */
tess_status tess_latent_forward(const tess_layer_call *call, const void *y, const tess_attention_tensors *tensors);
tess_status tess_latent_heads_backward(const tess_layer_call *call, const tess_attention_tensors *tensors);
tess_status tess_latent_backward(const tess_layer_call *call, const void *y, const tess_attention_tensors *tensors,
                                 bool inputs, void *dy);
/* Copy (T, H, V) to (T, H, D) with zeros after V channels, and back. */
tess_status tess_latent_widen(const tess_layer_call *call, const void *from, void *to);
tess_status tess_latent_narrow(const tess_layer_call *call, const void *from, void *to);

/* q_raw, k_raw -> q, k: norms over each head's channels, then rotary positions, if the family has them. */
tess_status tess_heads_forward(const tess_layer_call *call, const tess_attention_tensors *tensors);
/* Turns the gradients of attention's q and k into those of the projections. They stay in dq and dk; with norms they
 * are written to q and k, which are no longer needed. rotated: whether dq and dk are still those of rotated heads. */
tess_status tess_heads_backward(const tess_layer_call *call, const tess_attention_tensors *tensors, bool rotated);

/* Appends the rows of k and v, `stride` elements apart, to the sequences' pages, if the batch has a cache. */
tess_status tess_cache_append(const tess_layer_call *call, const void *k, const void *v, int64_t stride);
/* Fills in the batch's sequences. Their keys and values are those rows, from element `column` on; with a cache, the
 * rows of their pages. */
void tess_attention_sequences(const tess_layer_call *call, const void *k, const void *v, int64_t stride, int64_t column,
                              tess_attention_seq *seqs);
/* Computes attention: q, k, v -> out. */
tess_status tess_attention_forward(const tess_layer_call *call, const tess_attention_tensors *tensors);
/* Computes attention's gradients: dout -> dq, dk, dv. */
tess_status tess_attention_backward(const tess_layer_call *call, const tess_attention_tensors *tensors);
/* tess_attention_forward and _backward with shared key heads (tess_shares_key_heads). Collective. */
tess_status tess_shared_attention_forward(const tess_layer_call *call, const tess_attention_tensors *tensors);
tess_status tess_shared_attention_backward(const tess_layer_call *call, const tess_attention_tensors *tensors);
/* Compute attention over the tokens of all ranks (context_attention.c): a and g describe this rank's tokens, and the
 * rows of k and v lie as they say. Collective.
 * tess_context_attention_bytes: call->context_work for n_tokens of this rank
 * tess_context_exchange_bytes: the most bytes that a rank contributes to an exchange */
tess_status tess_context_attention_forward(const tess_layer_call *call, const tess_attention *a, const void *k,
                                           const void *v);
tess_status tess_context_attention_backward(const tess_layer_call *call, const tess_attention_grad *g, const void *k,
                                            const void *v);
size_t tess_context_attention_bytes(const tess_attention_params *params, const tess_context *context, int64_t n_tokens,
                                    tess_dtype dtype);
size_t tess_context_exchange_bytes(const tess_attention_params *params, const tess_context *context, int64_t n_tokens,
                                   tess_dtype dtype);

/* The same as a ring (context_ring.c).
 * tess_ring_work_bytes: call->context_work for n_tokens of this rank
 * tess_ring_buffer_bytes: bytes of each of the ring's buffers */
tess_status tess_ring_attention_forward(const tess_layer_call *call, const tess_attention *a, const void *k,
                                        const void *v);
tess_status tess_ring_attention_backward(const tess_layer_call *call, const tess_attention_grad *g, const void *k,
                                         const void *v);
size_t tess_ring_work_bytes(const tess_attention_params *params, const tess_context *context, int64_t n_tokens);
size_t tess_ring_buffer_bytes(const tess_attention_params *params, const tess_context *context, int64_t n_tokens,
                              tess_dtype dtype);

/* RMSNorm over the D channels of each of a token's heads, or over those of all heads (wide_norms).
 * heads: how the ranks that share the layer cut the heads. */
tess_status tess_head_norm_forward(const tess_layer_call *call, const tess_norm *norm, tess_cut heads, const void *x,
                                   float *rstd, void *y);
tess_status tess_head_norm_backward(const tess_layer_call *call, const tess_norm *norm, tess_cut heads, const void *x,
                                    const float *rstd, const void *dy, void *dx);

/* The two functions above for n rows of `width` channels that this rank has whole. */
tess_status tess_head_norm_own_forward(const tess_layer_call *call, const tess_norm *norm, int64_t n, int64_t width,
                                       const void *x, float *rstd, void *y);
tess_status tess_head_norm_own_backward(const tess_layer_call *call, const tess_norm *norm, int64_t n, int64_t width,
                                        const void *x, const float *rstd, const void *dy, void *dx);
/* The same for heads that ranks share. y and dx are this rank's part. The weight's gradient is whole on every rank. */
tess_status tess_split_head_norm_forward(const tess_layer_call *call, const tess_norm *norm, tess_cut heads,
                                         const void *x, float *rstd, void *y);
tess_status tess_split_head_norm_backward(const tess_layer_call *call, const tess_norm *norm, tess_cut heads,
                                          const void *x, const float *rstd, const void *dy, void *dx);

/* ---- Feed-forward ---- */
typedef struct tess_feed_forward_params {
    int64_t size; /* F, this rank's part of the channels */
    tess_norm norm;
    bool shares_norm;           /* the norm is that of the part before it, which computes the norm's gradients */
    tess_linear gate, up, down; /* gate.weight -1: down(act(up)); else down(act(gate) * up) */
    tess_branch_end end;
    tess_linear
        scale; /* (1, C), whole on every rank: a parallel part is multiplied by sigmoid(y scale); weight -1: no */
} tess_feed_forward_params;

typedef struct tess_feed_forward_tensors {
    tess_norm_stats stats; /* (R) */
    void *gate, *up;       /* (T, F); gate only if the family has one */
    void *act;             /* (T, F) */
    void *raw;             /* (R, C) and (R) of the norm at the branch's end, if there is one */
    tess_norm_stats raw_stats;
    void *out;    /* (T, C) the product that a gate scales; in backward its gradient */
    float *logit; /* (T) of that gate; in backward its gradient */
    void *dlogit; /* (T) */
} tess_feed_forward_tensors;

/* ---- Groups ---- */
/* Saving and cost of dropping a group of a layer, for one token and all ranks that share the layer: bytes of tensors,
 * and operations of computing them again. */
typedef struct tess_group_cost {
    double bytes, flops;
} tess_group_cost;

/* element: bytes of an element
 * context: number of tokens of a sequence
 * copies: number of ranks that hold the same stream */
tess_group_cost tess_layer_group_cost(const tess_block *block, tess_layer_group group, double element, double context,
                                      int copies);

#endif
