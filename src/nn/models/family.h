/* The table of model families. A family is a row: the keys of its config.json with their values if they are absent,
 * which of its layers differ, and what a layer is made of under which names. Reading, writing, checking and building
 * are the same code for all families. */
#ifndef TESS_NN_MODELS_FAMILY_H
#define TESS_NN_MODELS_FAMILY_H

#include "nn/layers/experts.h"
#include "nn/layers/model_ends.h"
#include "nn/layers/transformer_layer.h"

/* ---- Keys of config.json (config_keys.c) ---- */
/* A number of tess_model_config. config_keys.c states its type and bounds. */
typedef enum tess_member {
    TESS_MEMBER_NONE,
    TESS_MEMBER_VOCAB,
    TESS_MEMBER_HIDDEN,
    TESS_MEMBER_MLP,
    TESS_MEMBER_LAYERS,
    TESS_MEMBER_HEADS,
    TESS_MEMBER_KV_HEADS,
    TESS_MEMBER_HEAD_SIZE,
    TESS_MEMBER_POSITIONS,
    TESS_MEMBER_EPS,
    TESS_MEMBER_WINDOW,
    TESS_MEMBER_QKV_BIAS,
    TESS_MEMBER_O_BIAS,
    TESS_MEMBER_MLP_BIAS,
    TESS_MEMBER_QK_NORM,
    TESS_MEMBER_Q_LATENT,
    TESS_MEMBER_LATENT,
    TESS_MEMBER_HEAD_PLAIN,
    TESS_MEMBER_HEAD_ROTARY,
    TESS_MEMBER_HEAD_VALUE,
    TESS_MEMBER_INTERLEAVED,
    TESS_MEMBER_EXPERTS,
    TESS_MEMBER_TOP_K,
    TESS_MEMBER_EXPERT_SIZE,
    TESS_MEMBER_SHARED_SIZE,
    TESS_MEMBER_SHARED_EXPERTS,
    TESS_MEMBER_GROUPS,
    TESS_MEMBER_KEPT_GROUPS,
    TESS_MEMBER_ROUTER_SCALE,
    TESS_MEMBER_NORMALIZE,
    TESS_MEMBER_ALPHA,
    TESS_MEMBER_LIMIT,
    TESS_MEMBER_BALANCES,
    TESS_MEMBER_BALANCE,
    TESS_MEMBER_Z,
    TESS_MEMBER_NOISE,
    TESS_MEMBER_EMBEDDING_FACTOR,
    TESS_MEMBER_ATTENTION_FACTOR,
    TESS_MEMBER_RESIDUAL_FACTOR,
    TESS_MEMBER_LOGITS_DIVISOR,
    TESS_MEMBER_QUERY_SCALAR,
    TESS_MEMBER_LOGIT_FACTOR,
    TESS_MEMBER_ATTENTION_CAP,
    TESS_MEMBER_LOGIT_CAP,
    TESS_MEMBER_PARALLEL,
    TESS_MEMBER_CLIP,
    TESS_MEMBER_ACTIVATION, /* a name */
    TESS_N_MEMBERS
} tess_member;

/* Values of `absent`: the key must be there; the key is written and never read. */
enum { TESS_KEY_REQUIRED = -1, TESS_KEY_WRITTEN = -2, TESS_KEY_MEMBERS = 3 };

/* A key and what it sets. A key without members is a constant that is only written. */
typedef struct tess_config_key {
    const char *name; /* NULL: the value is the family's, and config.json does not state it */
    uint8_t members[TESS_KEY_MEMBERS];
    /* The value if the key is absent. Numbers of heads, sizes of heads and feed-forward channels: 0 means that they
     * follow from other sizes. */
    double absent;
} tess_config_key;

/* ---- Rows ---- */
/* The layers that have the sliding window. */
typedef enum tess_windows {
    TESS_WINDOWS_ALL,      /* all layers, if the family has a window */
    TESS_WINDOWS_BY_TYPE,  /* those that layer_types names; without it all but each `pattern`-th layer */
    TESS_WINDOWS_SWITCHED, /* none unless use_sliding_window; then by type, or all layers from max_window_layers on */
    /* none unless use_sliding_window; then by type, or the layers before max_window_layers but each `pattern`-th */
    TESS_WINDOWS_SWITCHED_EVEN,
    TESS_WINDOWS_SWITCHED_ALL, /* none unless use_sliding_window; then all layers, whatever layer_types says */
    TESS_WINDOWS_NO_ROPE       /* none unless use_sliding_window; then by type, or the layers that are not rotated */
} tess_windows;

/* The layers whose q and k are rotated. */
typedef enum tess_rotated {
    TESS_ROTATED_ALL,
    TESS_ROTATED_LISTED, /* those with a 1 in no_rope_layers; without it all but each no_rope_layer_interval-th */
    TESS_ROTATED_ONLY_WINDOWED, /* those with a window */
    TESS_ROTATED_WINDOWED       /* those with a window; all layers if the model has none */
} tess_rotated;

/* Names of the parameters of latents. */
typedef struct tess_family_latent {
    const char *q_a, *q_norm, *q_b, *kv_a, *norm, *kv_b;
} tess_family_latent;

/* Names of parameters, and what the family's layers are made of. A name that is NULL is a part that layers lack.
 * Names of a layer's parameters come after the layer's own name. */
typedef struct tess_family_shape {
    const char *table, *positions; /* the embedding's tables; positions NULL: q and k are rotated */
    const char *prefix, *layers;   /* "model" and "layers": layer 3 is "model.layers.3" */
    const char *norm;              /* the final norm */
    const char *token_head;        /* the head of ...ForTokenClassification */
    const char *attention_norm, *qkv, *q, *k, *v, *o, *q_norm, *k_norm, *attention_end;
    const char *sinks;                                             /* a score of each head that has no value */
    const char *feed_norm, *gate_up, *gate, *up, *down, *feed_end; /* the ends are norms of branches */
    const tess_family_latent *latent;                              /* NULL: k and v are projections */
    bool layer_norm;                                               /* LayerNorm with biases */
    bool bare_norms;                                               /* LayerNorm without biases */
    bool one_plus;                                                 /* norms multiply by 1 + w */
    bool scales_embedding; /* the embedding is multiplied by sqrt(C), rounded to the compute dtype */
    bool interleaved;      /* rotated pairs are neighbouring channels */
    bool wide_norms;       /* norms of q and k are over the channels of all heads */
    bool head_norms;       /* each head of q and k has a LayerNorm of its own, without bias */
    bool per_head;         /* qkv is stored (heads, 3, head_dim) */
    bool own_feed_norm;    /* a parallel feed-forward has a norm of its own */
    const char *head;      /* the map to logits; NULL: lm_head */
    bool in_out;           /* matrices are stored (in, out) */
    bool small_output;     /* projections into the residual stream start with smaller values */
} tess_family_shape;

/* The names of a mixture of experts after that of its layer. With "mlp" and gate_proj, the router is "mlp.gate", and
 * the first map "mlp.experts.0.gate_proj". */
typedef struct tess_family_mixture {
    const char *name, *gate, *up, *down;
    bool selects_layers; /* config.json says which layers have a feed-forward: decoder_sparse_step, mlp_only_layers */
    /* The expert that all tokens share, and the gate that scales it, after the mixture's name; NULL: there is none */
    const char *shared, *shared_gate;
    const char *router; /* NULL: "gate" */
    /* The maps of all experts are one tensor, (E, C, 2F) with pairs of gate and up, and `down` (E, F, C), with biases
     */
    const char *gate_up;
    bool dense_first; /* config.json says how many layers have a feed-forward: first_k_dense_replace */
    bool grouped;     /* config.json has topk_method and scoring_func (tess_router_parse) */
    const char *bias; /* a vector next to the router, for the choice alone; NULL: there is none */
    bool sigmoid;     /* p is a sigmoid, and a group's score is the sum of its two largest p + bias */
} tess_family_mixture;

/* A model's head gives logits, or numbers for each sequence or token. */
typedef enum tess_head_kind { TESS_HEAD_LOGITS, TESS_HEAD_SEQUENCE, TESS_HEAD_TOKEN } tess_head_kind;

typedef struct tess_family_row {
    tess_family family;
    const char *model_type; /* "llama", as in config.json */
    const char *name;       /* "Llama": the architecture is LlamaForCausalLM */
    const char *causal;     /* "ForCausalLM", or GPT-2's word for it */
    tess_head_kind heads;   /* the heads that transformers has for it: this one and those before it in the list */
    const tess_config_key *base, *own; /* keys; a key of `own` replaces the key of `base` with the same first member */
    int n_base, n_own;
    const char *class_name;     /* `name` in the classes of the base model and of classifiers; NULL: the same */
    const char *activation;     /* its name if it is absent */
    const char *old_activation; /* another name for that one, which old files have, or NULL */
    tess_windows windows;
    int pattern;        /* distance of the layers without a window, if config.json names none; 0: all have it */
    bool reads_pattern; /* sliding_window_pattern replaces `pattern` */
    bool writes_types;  /* layer_types is written even if other keys say the same */
    tess_rotated rotated;
    double initializer_range;  /* if it is absent; 0: 0.02 */
    double theta;              /* rope_theta if it is absent; 0: 10000 */
    const char *assumed_rope;  /* rope_parameters if config.json has none; NULL: the default kind */
    double local_theta;        /* rope_theta of layers with a window, if they have their own; 0: they have none */
    double partial;            /* partial_rotary_factor if it is absent; 0: heads are always rotated whole */
    bool old_rope;             /* rotary_emb_base and rotary_pct stand for rope_theta and partial_rotary_factor */
    bool longrope;             /* the only kind of scaling is longrope, also under its older names yarn and su */
    bool scales_queries;       /* queries are scaled by position */
    int64_t bos, pad, eos;     /* tokens if their keys are absent; -1: none */
    int64_t more_eos[2];       /* 0: none */
    bool tied;                 /* tie_word_embeddings if it is absent */
    const char *const *no;     /* names of keys that must be false, up to NULL; NULL: there are none */
    const char *const *unset;  /* keys that must be null or absent */
    bool fixed_heads;          /* head_dim must be the hidden size over the number of heads */
    const char *const *always; /* keys that must be true */
    const tess_family_shape *shape;
    const tess_family_mixture *mixture; /* NULL: no layer has experts */
} tess_family_row;

/* Return the row of a family, or NULL if there is none. */
const tess_family_row *tess_family_find(tess_family family);
const tess_family_row *tess_family_find_type(const char *model_type);

enum { TESS_FAMILY_CLASS = 64, TESS_FAMILY_LIST = 512 };
/* Writes the name of the class in transformers, "LlamaForCausalLM", or "" if the family has no such head. Returns
 * text. */
const char *tess_family_class(const tess_family_row *row, tess_head_kind head, char text[TESS_FAMILY_CLASS]);
/* Finds the head of the model that the class describes. A base model ("LlamaModel") and every "...ForCausalLM" count as
 * the language model. TESS_E_UNSUPPORTED: the family has no such class; the message lists those that it has. */
tess_status tess_family_head_of(const tess_family_row *row, const char *class, const char *what, tess_head_kind *head);
/* The name of the architecture that the config describes. Returns text. */
const char *tess_family_architecture(const tess_model_config *config, char text[TESS_FAMILY_CLASS]);
/* Writes the list of all families, "llama, mistral, ...". Returns text. */
const char *tess_family_list(char text[TESS_FAMILY_LIST]);

/* Fills `config` (zeroed, family set) from the family's own keys. */
tess_status tess_family_parse(const json_t *json, const char *what, const tess_family_row *row,
                              tess_model_config *config);
/* Adds the family's own keys to json. Returns 0, or another number if memory ran out. */
int tess_family_write(const tess_family_row *row, const tess_model_config *config, json_t *json);
/* The activation of the feed-forwards. */
tess_activation tess_family_activation(const tess_model_config *config);
/* Checks the bounds of all members. */
tess_status tess_family_check_bounds(const tess_model_config *config, const char *what);

/* Returns in *text the configuration of the text model that is part of a model of images and text, which the caller
 * frees (text_part.c). NULL: json describes no such model. */
tess_status tess_text_part(const json_t *json, const char *what, json_t **text);

/* Differences between layers (layer_kinds.c): layer_types and the keys that stand for it. */
tess_status tess_layer_kinds_parse(const json_t *json, const char *what, const tess_family_row *row,
                                   tess_model_config *config);
int tess_layer_kinds_write(const tess_family_row *row, const tess_model_config *config, json_t *json);

/* Names of a router's method (family_experts.c): topk_method and scoring_func. */
tess_status tess_router_parse(const json_t *json, const char *what, const tess_family_row *row,
                              tess_model_config *config);
int tess_router_write(const tess_family_row *row, const tess_model_config *config, json_t *json);

/* Scaling of rotary positions. Reads v5's rope_parameters, or v4's rope_theta and rope_scaling. Writes v4, which
 * both versions of transformers read. */
tess_status tess_rope_parse(const json_t *json, const char *what, const tess_family_row *row,
                            tess_model_config *config);
int tess_rope_write(const tess_family_row *row, const tess_model_config *config, json_t *json);

/* ---- Building ---- */
/* Adds the parameters of all units and fills in their blocks. */
void tess_family_build(tess_model *model);

/* Adds a norm over n channels. It has a bias if the unit's block has layer_norm. (The functions from here on serve
 * the builder.) */
tess_norm tess_family_add_norm(tess_model *model, int unit, const char *prefix, const char *name, int64_t n);
/* Adds a table (rows, C), of which the unit gets this rank's columns. Returns its index in the unit. */
int tess_family_add_table(tess_model *model, int unit, int64_t rows, const char *name);
/* Whether this part has the embedding's table, for the embedding or for a tied head. The table is in unit 0. */
bool tess_family_has_table(const tess_model *model);
/* Creates the block of the embedding with its table and without positions. Returns NULL if this part has no table, or
 * with model->built. */
tess_embedding_params *tess_family_embedding(tess_model *model, const char *table);
/* Starts the block of layer i of this part: sets its size and number. Returns its unit. */
int tess_family_layer(tess_model *model, int64_t i);
/* How the ranks that share a layer cut its sizes. stream: C channels, never cut. q: query heads, together with their
 * key heads. kv: key heads. mlp: feed-forward channels. */
typedef struct tess_family_cuts {
    tess_cut stream, q, kv, mlp;
} tess_family_cuts;
tess_family_cuts tess_family_cut(const tess_model *model);
/* The number of elements of a cut index that this rank holds. */
int64_t tess_family_share(const tess_model *model, tess_cut cut);
/* Makes this rank's part of a parameter of the unit: elements of one dimension. */
void tess_family_cut_param(tess_model *model, int unit, int index, int dim, tess_cut cut);
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
/* Adds a mixture of experts to the unit, with the config's sizes (family_experts.c). norm: the name of its norm */
void tess_family_experts(tess_model *model, int unit, const char *norm, const tess_family_mixture *mixture);
/* Adds the head's parameters, if this part has the head: the final norm, and lm_head unless the weights are tied. If
 * n_outputs is not 0, a score or a similar map replaces lm_head. Adds a value head if the config has one. Call it
 * last. */
void tess_family_head(tess_model *model, const tess_family_shape *shape);

#endif
