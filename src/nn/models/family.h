/* The table of model families: how to read a family's config.json, and which parameters it has. A new family is one
 * file and one line in the table (family.c). Builders share family_params.c. */
#ifndef TESS_NN_MODELS_FAMILY_H
#define TESS_NN_MODELS_FAMILY_H

#include "nn/layers/model_ends.h"
#include "nn/layers/transformer_layer.h"

typedef struct tess_family_row {
    tess_family family;
    const char *model_type;   /* "llama", as in config.json */
    const char *architecture; /* name of the class in transformers, "LlamaForCausalLM" */
    /* "LlamaForSequenceClassification": the same layers with config->n_outputs numbers per token. */
    const char *classifier;
    const char *token_classifier; /* "LlamaForTokenClassification": as `classifier`, with a bias */
    /* Fills `config` (zeroed, family set) from the family's own keys. */
    tess_status (*parse)(const json_t *json, const char *what, tess_model_config *config);
    /* Adds the family's own keys to json. Returns 0, or -1 if memory ran out. */
    int (*write)(const tess_model_config *config, json_t *json);
    /* Adds the parameters of all units and fills in their blocks. */
    void (*build)(tess_model *model);
} tess_family_row;

/* Return the row of a family, or NULL if there is none. */
const tess_family_row *tess_family_find(tess_family family);
const tess_family_row *tess_family_find_type(const char *model_type);
/* The name of the architecture that the config describes. */
const char *tess_family_architecture(const tess_model_config *config);
/* Writes the list of all families, "llama, mistral, ...", to text. Returns text. */
const char *tess_family_list(char *text, size_t size);

/* Adds a norm over n channels. It has a bias if the unit's block has layer_norm. (The functions from here on serve
 * the builders.) */
tess_norm tess_family_add_norm(tess_model *model, int unit, const char *prefix, const char *name, int64_t n);
/* Adds a table (rows, C), of which the unit gets this rank's columns. Returns its index in the unit. */
int tess_family_add_table(tess_model *model, int unit, int64_t rows, const char *name);
/* Whether this part has the embedding's table, for the embedding or for a tied head. The table is in unit 0. */
bool tess_family_has_table(const tess_model *model);
/* Creates the block of the embedding with its table and without positions. Returns NULL if this part has no
 * embedding, or with model->built. */
tess_embedding_params *tess_family_embedding(tess_model *model, const char *table);
typedef struct tess_family_parts {
    tess_block *block;
    tess_attention_params *attention;
    tess_feed_forward_params *feed_forward;
} tess_family_parts;
/* Creates the block of the part's layer i, and returns its unit in *unit. Its parts have the config's sizes and window.
 * They lack what not all families have: norms of q and k, a fused qkv, a gate, rotation. If model->built is an error,
 * parts may be NULL. */
tess_family_parts tess_family_layer(tess_model *model, int64_t i, int *unit);
/* How the ranks that share a layer cut its sizes. stream: C channels, never cut. q: query heads, together with their
 * key heads. kv: key heads. mlp: feed-forward channels. */
typedef struct tess_family_cuts {
    tess_cut stream, q, kv, mlp;
} tess_family_cuts;
tess_family_cuts tess_family_cut(const tess_model *model);
/* A linear map of the whole model. The unit gets this rank's part; at most one of its two sizes may be cut. */
typedef struct tess_family_linear {
    tess_cut in, out;
    double std;
    bool bias;
    bool in_out; /* true: stored (in, out) */
} tess_family_linear;
tess_linear tess_family_add_linear(tess_model *model, int unit, const char *name, const tess_family_linear *map);
/* Makes sums over the feed-forward channels follow the tree that the config describes. Call it after gate, up and
 * down have been added. */
void tess_family_sum_leaves(const tess_model *model, tess_feed_forward_params *p);
/* The names of the head and the final norm, and their prefix, which differ between families. */
typedef struct tess_family_head_names {
    const char *prefix, *norm; /* such as "model" and "norm" */
    const char *token_head;    /* head of ...ForTokenClassification: "score" */
} tess_family_head_names;
/* Adds the head's parameters, if this part has the head: the final norm, and lm_head unless the weights are tied. If
 * n_outputs is not 0, a score or a similar map replaces lm_head. Adds a value head if the config has one. Call it
 * last. */
void tess_family_head(tess_model *model, bool layer_norm, const tess_family_head_names *names);

tess_status tess_llama_parse(const json_t *json, const char *what, tess_model_config *config);
int tess_llama_write(const tess_model_config *config, json_t *json);
void tess_llama_build(tess_model *model);

tess_status tess_gpt2_parse(const json_t *json, const char *what, tess_model_config *config);
int tess_gpt2_write(const tess_model_config *config, json_t *json);
void tess_gpt2_build(tess_model *model);

/* Scaling of rotary positions. Reads v5's rope_parameters, or v4's rope_theta and rope_scaling. Writes v4, which
 * both versions of transformers read. */
tess_status tess_rope_parse(const json_t *json, const char *what, int64_t max_position, tess_rope_config *rope);
int tess_rope_write(const tess_rope_config *rope, json_t *json);

#endif
