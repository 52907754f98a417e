/* The table of model families: how to read a family's config.json, and which parameters it has. A new family is one
 * file and one line in the table (family.c). Builders share family_params.c. */
#ifndef TESS_NN_MODELS_FAMILY_H
#define TESS_NN_MODELS_FAMILY_H

#include "nn/block.h"

typedef struct tess_family_row {
    tess_family family;
    const char *model_type;   /* "llama" */
    const char *architecture; /* "LlamaForCausalLM" */
    const char
        *classifier; /* "LlamaForSequenceClassification": the same trunk with config->n_outputs numbers a token */
    const char *token_classifier; /* "LlamaForTokenClassification": those with a bias */
    /* Fills `config` (zeroed, family set) from the family's own keys. */
    tess_status (*parse)(const json_t *json, const char *what, tess_model_config *config);
    /* Adds the family's own keys; 0, or -1 when memory ran out. */
    int (*write)(const tess_model_config *config, json_t *json);
    /* Adds the parameters of all units and fills in their blocks. */
    void (*build)(tess_model *model);
} tess_family_row;

/* NULL: none. */
const tess_family_row *tess_family_find(tess_family family);
const tess_family_row *tess_family_find_type(const char *model_type);
/* The name of what the config describes. */
const char *tess_family_architecture(const tess_model_config *config);
/* "llama, mistral, ...". Returns text. */
const char *tess_family_list(char *text, size_t size);

/* Adds a norm over n channels; it has a bias if the unit's block has layer_norm. This and the next serve builders. */
tess_norm tess_family_add_norm(tess_model *model, int unit, const char *prefix, const char *name, int64_t n);
/* A table (rows, C), of which the unit gets this rank's columns. Returns its index in the unit. */
int tess_family_add_table(tess_model *model, int unit, int64_t rows, const char *name);
/* Whether this part has the embedding's table: the embedding reads it, or a tied head. It is unit 0. */
bool tess_family_has_table(const tess_model *model);
/* The block of the embedding with its table, without positions; NULL: this part has no embedding. */
tess_block *tess_family_embedding(tess_model *model, const char *table);
/* The block and unit of the part's layer i, with the config's sizes and window, and without the parts that not all
 * families have: norms of q and k, a fused qkv, a gate, rotation. */
tess_block *tess_family_layer(tess_model *model, int64_t i, int *unit);
/* The cuts of a layer's sizes over the ranks that share it: C channels, which are whole, query heads with their key
 * heads, key heads, feed-forward channels. */
typedef struct tess_family_cuts {
    tess_cut stream, q, kv, mlp;
} tess_family_cuts;
tess_family_cuts tess_family_cut(const tess_model *model);
/* A linear map between whole sizes, of which the unit gets this rank's part; one of its sizes may be cut. */
typedef struct tess_family_linear {
    tess_cut in, out;
    double std;
    bool bias;
    bool in_out; /* stored (in, out) */
} tess_family_linear;
tess_linear tess_family_add_linear(tess_model *model, int unit, const char *name, const tess_family_linear *map);
/* Once gate, up and down are there: sums over the feed-forward channels are the config's tree. */
void tess_family_sum_leaves(const tess_model *model, tess_block *block);
/* The names of the head, and of what is before it, that differ between families. */
typedef struct tess_family_head_names {
    const char *prefix, *norm; /* "model", "norm" */
    const char *token_head;    /* head of ...ForTokenClassification: "score" */
} tess_family_head_names;
/* Adds the head's parameters, last of all, if this part has the head: the final norm, and lm_head unless the weights
 * are tied. With n_outputs there is a score or the like instead. A value head is added if the config has one. */
void tess_family_head(tess_model *model, bool layer_norm, const tess_family_head_names *names);

tess_status tess_llama_parse(const json_t *json, const char *what, tess_model_config *config);
int tess_llama_write(const tess_model_config *config, json_t *json);
void tess_llama_build(tess_model *model);

tess_status tess_gpt2_parse(const json_t *json, const char *what, tess_model_config *config);
int tess_gpt2_write(const tess_model_config *config, json_t *json);
void tess_gpt2_build(tess_model *model);

/* Scaling of rotary positions: v5's rope_parameters, or v4's rope_theta and rope_scaling; written as v4, which both
 * read. */
tess_status tess_rope_parse(const json_t *json, const char *what, int64_t max_position, tess_rope_config *rope);
int tess_rope_write(const tess_rope_config *rope, json_t *json);

#endif
