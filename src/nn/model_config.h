/* tess_model_config: an architecture as its HF config.json says it (Llama 2/3, Mistral, Ministral, Qwen2, Qwen3
 * dense, GPT-2), with a language model's head, or one of a few numbers (...ForSequenceClassification,
 * ...ForTokenClassification). */
#ifndef TESS_NN_MODEL_CONFIG_H
#define TESS_NN_MODEL_CONFIG_H

#include "nn/lora.h"

typedef enum tess_family {
    TESS_FAMILY_LLAMA,
    TESS_FAMILY_MISTRAL,
    TESS_FAMILY_QWEN2,
    TESS_FAMILY_QWEN3,
    TESS_FAMILY_GPT2,
    TESS_FAMILY_MINISTRAL
} tess_family;

typedef enum tess_rope_kind {
    TESS_ROPE_DEFAULT,
    TESS_ROPE_LINEAR,
    TESS_ROPE_DYNAMIC,
    TESS_ROPE_LLAMA3,
    TESS_ROPE_YARN
} tess_rope_kind;

typedef struct tess_rope_config {
    tess_rope_kind kind;
    double theta, factor;
    int64_t original_max_position;                 /* length before scaling; 0 with the default kind */
    double low_freq_factor, high_freq_factor;      /* llama3 */
    double attention_factor, beta_fast, beta_slow; /* yarn; attention_factor 0: derived */
    double mscale, mscale_all_dim;                 /* yarn; 0: absent */
    bool truncate;                                 /* yarn */
} tess_rope_config;

enum { TESS_MAX_LAYERS = 1024, TESS_MAX_SUM_LEAVES = 64 };

typedef struct tess_model_config {
    tess_family family;
    int64_t vocab_size, hidden_size, intermediate_size, n_layers, n_heads, n_kv_heads, head_size, max_position;
    int64_t max_length; /* the position limit that was stated; 0: none was */
    int64_t sum_leaves; /* leaves of sums over the feed-forward channels (tess_leaf_of); 1: each sum is one chain */
    double norm_eps, initializer_range;
    tess_rope_config rope;
    int64_t sliding_window;              /* 0: none */
    int64_t full_layers;                 /* layers before this one ignore the window (Qwen2's max_window_layers), */
    uint64_t full[TESS_MAX_LAYERS / 64]; /* and so do those with a bit here (layer_types in any order) */
    bool qkv_bias, o_bias, mlp_bias, qk_norm, tied;
    int64_t n_outputs; /* rows of a head "score.weight" (n_outputs, C) in place of lm_head: HF's labels; 0: logits */
    bool output_bias;  /* true: the head has a bias, as in ...ForTokenClassification */
    bool value_head;   /* trl's "v_head.summary" (1, C) with a bias, next to lm_head, or with n_outputs 1 in place of a
                          score; no key of config.json */
    int64_t bos_token_id, pad_token_id; /* -1: none */
    int64_t eos_token_id[8];
    int n_eos;
    bool eos_stated; /* there are some, and config.json names them: they are not the family's default */
    tess_lora lora;  /* the run's adapters, not in config.json; unless its rank is 0, all else is frozen */
} tess_model_config;

/* Reads config.json (v4 and v5 keys). `what` names it in messages. TESS_E_FORMAT / TESS_E_UNSUPPORTED name the key and
 * the choices; sizes are bounded, so nothing downstream overflows. */
tess_status tess_model_config_parse(const json_t *json, const char *what, tess_model_config *config);
tess_status tess_model_config_load(const char *path, tess_model_config *config);

/* A new config.json object that transformers reads (architectures, model_type, torch_dtype, ...). */
tess_status tess_model_config_to_json(const tess_model_config *config, tess_dtype dtype, json_t **json);

/* Rows of the head. */
static inline int64_t tess_model_config_outputs(const tess_model_config *config)
{
    return config->n_outputs > 0 ? config->n_outputs : config->vocab_size;
}

/* Keys that a query of `layer` sees, its own the last; 0: all before it. */
static inline int64_t tess_model_config_window(const tess_model_config *config, int64_t layer)
{
    bool full = layer < config->full_layers || (config->full[layer / 64] >> (layer % 64) & 1) != 0;
    return full ? 0 : config->sliding_window;
}

/* Heads divide, sizes positive and bounded, ...; TESS_E_INVALID names the keys. */
tess_status tess_model_config_check(const tess_model_config *config, const char *what);

/* The position limit: longest sequence, and what dynamic scaling takes its frequencies from, so that these depend on
 * the model and not on a request. The stated one; or max_position, or what the rope scaling stretches that to when that
 * is more (dynamic scaling stretches nothing until a limit is stated). */
int64_t tess_model_config_max_length(const tess_model_config *config);
/* States the limit; 0 leaves it as it is. TESS_E_INVALID names `key`: more than the model has (dynamic scaling has
 * any).
 */
tess_status tess_model_config_set_max_length(tess_model_config *config, int64_t max_length, const char *key);
/* TESS_E_INVALID names `key`: not a power of two up to TESS_MAX_SUM_LEAVES. */
tess_status tess_model_config_set_sum_leaves(tess_model_config *config, int64_t sum_leaves, const char *key);
/* eos_token_id of a JSON object: a token, a list of at most 8, or null for none. Absent: nothing changes. */
tess_status tess_model_eos_parse(const json_t *json, const char *what, int64_t ids[8], int *n);

const char *tess_family_name(tess_family family); /* "llama" as in model_type */

#endif
