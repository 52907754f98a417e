/* The parts that blocks are made of, and what config.json says of them. A new part is a line in both lists, and a file
 * of its own (nn/layers/block_part.h). */
#ifndef TESS_NN_PARTS_H
#define TESS_NN_PARTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tess_part tess_part;

/* Choices of a family, or of its config.json, about the parts of layers. */
typedef struct tess_parts_config {
    bool qkv_bias, o_bias, qk_norm; /* attention: biases, and norms of q and k */
    double clip_qkv;                /* attention: a bound of q, k and v; 0: none */
    /* attention with latents: sizes of those of q (0: none) and of k and v (0: no latents), and of a head's channels
     * without positions, with them, and of v; rotated pairs are neighbouring channels */
    struct {
        int64_t q, kv, plain, rotary, value;
        bool interleaved;
    } latent;
    bool mlp_bias;      /* feed-forward */
    uint8_t activation; /* feed-forward: row of the table of names in config_keys.c */
    bool parallel;      /* attention and feed-forward read the same stream */
    struct {
        int64_t n, top_k, size; /* experts of a layer (0: there are none), experts of a token, channels of an expert */
        int64_t shared;         /* channels of an expert that all tokens share; 0: there is none */
        int64_t n_shared;       /* the same as a number of experts, if config.json has that */
        int64_t groups, kept;   /* groups of experts, and those that a token chooses from; kept 0: from all experts */
        double scale;           /* factor of the weights of a token's experts; 0: 1 */
        bool normalize;         /* the weights of a token's experts add up to `scale` */
        double alpha, limit;    /* constants of a clamped activation (tess_clamped_glu_args); 0: it is not clamped */
        bool balances;          /* training adds the auxiliary losses */
        double balance, z;      /* their factors */
        double noise;           /* noise of routers: 0, there is none */
    } experts;
} tess_parts_config;

extern const tess_part tess_embedding_part, tess_attention_part, tess_feed_forward_part, tess_experts_part,
    tess_head_part;

#endif
