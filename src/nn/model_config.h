/* tess_model_config: an architecture as described by its HF config.json. tess_family lists the families. Its head gives
 * logits, or a few numbers (...ForSequenceClassification, ...ForTokenClassification). */
#ifndef TESS_NN_MODEL_CONFIG_H
#define TESS_NN_MODEL_CONFIG_H

#include "nn/lora.h"
#include "nn/parts.h"

typedef enum tess_family {
    TESS_FAMILY_LLAMA,
    TESS_FAMILY_MISTRAL,
    TESS_FAMILY_QWEN2,
    TESS_FAMILY_QWEN3,
    TESS_FAMILY_GPT2,
    TESS_FAMILY_MINISTRAL,
    TESS_FAMILY_MIXTRAL,
    TESS_FAMILY_QWEN3_MOE,
    TESS_FAMILY_SMOLLM3,
    TESS_FAMILY_GRANITE,
    TESS_FAMILY_MINISTRAL3,
    TESS_FAMILY_PHI3,
    TESS_FAMILY_OLMO2,
    TESS_FAMILY_OLMO3,
    TESS_FAMILY_STARCODER2,
    TESS_FAMILY_STABLELM,
    TESS_FAMILY_GEMMA,
    TESS_FAMILY_GEMMA2,
    TESS_FAMILY_GEMMA3,
    TESS_FAMILY_GLM,
    TESS_FAMILY_GLM4,
    TESS_FAMILY_EXAONE4,
    TESS_FAMILY_COHERE2,
    TESS_FAMILY_OLMOE,
    TESS_FAMILY_QWEN2_MOE,
    TESS_FAMILY_GPT_OSS,
    TESS_FAMILY_DEEPSEEK_V2,
    TESS_FAMILY_DEEPSEEK_V3,
    TESS_FAMILY_GPT_NEOX
} tess_family;

typedef enum tess_rope_kind {
    TESS_ROPE_DEFAULT,
    TESS_ROPE_LINEAR,
    TESS_ROPE_DYNAMIC,
    TESS_ROPE_LLAMA3,
    TESS_ROPE_YARN,
    TESS_ROPE_LONGROPE
} tess_rope_kind;

enum { TESS_MAX_ROPE_FACTORS = 256 };

typedef struct tess_rope_config {
    tess_rope_kind kind;
    double theta, factor;
    int64_t original_max_position;                 /* position limit before scaling; 0 with the default kind */
    double low_freq_factor, high_freq_factor;      /* only llama3 */
    double attention_factor, beta_fast, beta_slow; /* yarn and (the first) longrope; attention_factor 0: derived */
    double mscale, mscale_all_dim;                 /* only yarn; 0: absent */
    bool truncate;                                 /* only yarn */
    int n_factors;                                 /* only longrope: half of the rotated channels */
    double short_factor[TESS_MAX_ROPE_FACTORS], long_factor[TESS_MAX_ROPE_FACTORS];
    double partial;    /* the part of a head's channels that is rotated; 0: all */
    double query_beta; /* queries are scaled by position (Ministral 3); 0: they are not */
} tess_rope_config;

enum { TESS_MAX_LAYERS = 1024, TESS_MAX_SUM_LEAVES = 64 };

/* FULL: the layer ignores the window; only in a model with one. DENSE: the layer has a feed-forward; only in a model
 * with mixtures of experts. NO_ROPE: it has no positions. */
typedef enum tess_layer_kind { TESS_LAYER_FULL = 1, TESS_LAYER_DENSE = 2, TESS_LAYER_NO_ROPE = 4 } tess_layer_kind;

/* Numbers by which a family multiplies, and its soft caps; 0: there is none. */
typedef struct tess_factors {
    double embedding, attention, residual, logits_divisor;
    int64_t query_scalar; /* queries are multiplied by 1 / sqrt(query_scalar) */
    double logits, attention_cap, logit_cap;
} tess_factors;

typedef struct tess_model_config {
    tess_family family;
    int64_t vocab_size, hidden_size, intermediate_size, n_layers, n_heads, n_kv_heads, head_size, max_position;
    int64_t max_length; /* the position limit that the user or config.json sets; 0: none */
    /* Number of leaves in the tree of sums over the feed-forward channels (tess_leaf_of); 1: each sum is one chain */
    int64_t sum_leaves;
    double norm_eps, initializer_range;
    tess_rope_config rope;
    double local_theta; /* the base of rotary positions in layers with a window; 0: that of all layers */
    tess_factors factors;
    int64_t sliding_window;          /* number of keys that a query sees; 0: no window */
    uint8_t layers[TESS_MAX_LAYERS]; /* (n_layers) what differs between layers, tess_layer_kind; 0: nothing */
    tess_parts_config parts;
    bool tied;
    /* Rows of "score.weight" (n_outputs, C), which replaces lm_head: HF's number of labels; 0: the head gives logits */
    int64_t n_outputs;
    bool output_bias; /* true: the head has a bias, as in ...ForTokenClassification */
    /* The model has trl's "v_head.summary" (1, C) with a bias, next to lm_head, or in place of the score if
     * n_outputs is 1; no key of config.json */
    bool value_head;
    int64_t bos_token_id, pad_token_id; /* -1: no such token */
    int64_t eos_token_id[8];
    int n_eos;
    bool eos_stated; /* config.json names the end tokens: they are not the family's default */
    bool text_part;  /* config.json describes a model of images and text; this is its text model */
    double dropout;  /* the largest one that config.json states; it is never applied */
    tess_lora lora;  /* the run's adapters, not in config.json; unless its rank is 0, all other parameters are frozen */
} tess_model_config;

/* Says which factors longrope takes, and why. Returns text; "": the model has another kind of positions. */
const char *tess_model_config_longrope(const tess_model_config *config, char *text, size_t size);

/* Read config.json (keys of transformers v4 and v5). `what` names it in messages. Sizes are bounded, so later
 * products of them do not overflow. `path`: a config.json, or the name of one in named_models.h.
 * TESS_E_NOT_FOUND: there is neither such a file nor such a name; the message lists the names
 * TESS_E_FORMAT, TESS_E_UNSUPPORTED: the message names the key and the choices */
tess_status tess_model_config_parse(const json_t *json, const char *what, tess_model_config *config);
tess_status tess_model_config_load(const char *path, tess_model_config *config);

/* Creates a config.json object that transformers reads (architectures, model_type, torch_dtype, ...). */
tess_status tess_model_config_to_json(const tess_model_config *config, tess_dtype dtype, json_t **json);

/* Number of rows of the head. */
static inline int64_t tess_model_config_outputs(const tess_model_config *config)
{
    return config->n_outputs > 0 ? config->n_outputs : config->vocab_size;
}

/* Number of keys that a query of `layer` sees, up to and including its own position; 0: all of them. */
static inline int64_t tess_model_config_window(const tess_model_config *config, int64_t layer)
{
    return config->layers[layer] & TESS_LAYER_FULL ? 0 : config->sliding_window;
}

/* Whether the layer has a mixture of experts in place of a feed-forward. */
static inline bool tess_model_config_mixes(const tess_model_config *config, int64_t layer)
{
    return config->parts.experts.n > 0 && (config->layers[layer] & TESS_LAYER_DENSE) == 0;
}

/* The number of channels of a head that are rotated. */
static inline int64_t tess_model_config_rotary(const tess_model_config *config)
{
    if (config->parts.latent.kv > 0)
        return config->parts.latent.rotary;
    return config->rope.partial > 0 ? (int64_t)((double)config->head_size * config->rope.partial) : config->head_size;
}

/* Checks that the sizes are positive and bounded, that heads divide evenly, and all other conditions.
 * TESS_E_INVALID: the message names the keys */
tess_status tess_model_config_check(const tess_model_config *config, const char *what);

/* Returns the position limit: the longest sequence. Dynamic scaling takes its frequencies from it, so that they
 * depend on the model and not on a request. It is max_length if that is set. Otherwise it is max_position, or the
 * length to which rope scaling stretches the original positions, if that is more. (Dynamic scaling stretches nothing
 * unless max_length is set.) */
int64_t tess_model_config_max_length(const tess_model_config *config);
/* Sets the position limit; 0 leaves it as it is.
 * TESS_E_INVALID: more than the model allows (dynamic scaling allows any); the message names `key` */
tess_status tess_model_config_set_max_length(tess_model_config *config, int64_t max_length, const char *key);
/* Sets the number of leaves. TESS_E_INVALID: not a power of two up to TESS_MAX_SUM_LEAVES; the message names `key` */
tess_status tess_model_config_set_sum_leaves(tess_model_config *config, int64_t sum_leaves, const char *key);
/* Reads eos_token_id of a JSON object: a token, a list of at most 8, or null for none. If the key is absent, nothing
 * changes. */
tess_status tess_model_eos_parse(const json_t *json, const char *what, int64_t ids[8], int *n);

const char *tess_family_name(tess_family family); /* "llama", as in model_type */

#endif
