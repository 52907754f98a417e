/* The parts that blocks are made of, and what config.json says of them. A new part is a line in both lists, and a file
 * of its own (nn/layers/block_part.h). */
#ifndef TESS_NN_PARTS_H
#define TESS_NN_PARTS_H

#include <stdbool.h>

typedef struct tess_part tess_part;

/* Choices of a family, or of its config.json, about the parts of layers. */
typedef struct tess_parts_config {
    bool qkv_bias, o_bias, qk_norm; /* attention: biases, and norms of q and k */
    bool mlp_bias;                  /* feed-forward */
} tess_parts_config;

extern const tess_part tess_embedding_part, tess_attention_part, tess_feed_forward_part, tess_head_part;

#endif
