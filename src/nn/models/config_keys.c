/* Reads and writes the keys of a family's config.json from the family's table of keys, and holds the bounds of their
 * values. */
#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "base/text/text.h"
#include "nn/models/family.h"

/* Bounds on sizes: all products of sizes that a model or an executor computes fit in int64. */
typedef enum member_type { MEMBER_INT, MEMBER_REAL, MEMBER_FLAG, MEMBER_NAME } member_type;
typedef struct member {
    const char *name; /* the usual name of its key */
    size_t at;        /* offset in tess_model_config */
    member_type type;
    double least, most;
    bool or_none; /* null stands for 0, and is written for it */
} member;

/* clang-format off */
#define AT(name) offsetof(tess_model_config, name)
static const member members[TESS_N_MEMBERS] = {
    [TESS_MEMBER_VOCAB] = {"vocab_size", AT(vocab_size), MEMBER_INT, 1, 1 << 24, false},
    [TESS_MEMBER_HIDDEN] = {"hidden_size", AT(hidden_size), MEMBER_INT, 1, 1 << 20, false},
    [TESS_MEMBER_MLP] = {"intermediate_size", AT(intermediate_size), MEMBER_INT, 1, 1 << 22, false},
    [TESS_MEMBER_LAYERS] = {"num_hidden_layers", AT(n_layers), MEMBER_INT, 1, TESS_MAX_LAYERS, false},
    [TESS_MEMBER_HEADS] = {"num_attention_heads", AT(n_heads), MEMBER_INT, 1, 4096, false},
    [TESS_MEMBER_KV_HEADS] = {"num_key_value_heads", AT(n_kv_heads), MEMBER_INT, 1, 4096, false},
    [TESS_MEMBER_HEAD_SIZE] = {"head_dim", AT(head_size), MEMBER_INT, 1, 1024, false},
    [TESS_MEMBER_POSITIONS] = {"max_position_embeddings", AT(max_position), MEMBER_INT, 1, 1 << 27, false},
    [TESS_MEMBER_EPS] = {"norm_eps", AT(norm_eps), MEMBER_REAL, 0, 1, false},
    [TESS_MEMBER_WINDOW] = {"sliding_window", AT(sliding_window), MEMBER_INT, 1, INT32_MAX, true},
    [TESS_MEMBER_QKV_BIAS] = {"qkv_bias", AT(parts.qkv_bias), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_O_BIAS] = {"o_bias", AT(parts.o_bias), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_MLP_BIAS] = {"mlp_bias", AT(parts.mlp_bias), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_QK_NORM] = {"qk_norm", AT(parts.qk_norm), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_Q_LATENT] = {"q_lora_rank", AT(parts.latent.q), MEMBER_INT, 1, 1 << 20, true},
    [TESS_MEMBER_LATENT] = {"kv_lora_rank", AT(parts.latent.kv), MEMBER_INT, 1, 1 << 20, true},
    [TESS_MEMBER_HEAD_PLAIN] = {"qk_nope_head_dim", AT(parts.latent.plain), MEMBER_INT, 1, 512, true},
    [TESS_MEMBER_HEAD_ROTARY] = {"qk_rope_head_dim", AT(parts.latent.rotary), MEMBER_INT, 2, 512, true},
    [TESS_MEMBER_HEAD_VALUE] = {"v_head_dim", AT(parts.latent.value), MEMBER_INT, 1, 1024, true},
    [TESS_MEMBER_INTERLEAVED] = {"rope_interleave", AT(parts.latent.interleaved), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_EXPERTS] = {"num_experts", AT(parts.experts.n), MEMBER_INT, 1, TESS_MAX_EXPERTS, true},
    [TESS_MEMBER_TOP_K] = {"num_experts_per_tok", AT(parts.experts.top_k), MEMBER_INT, 1, TESS_MAX_CHOICES, true},
    [TESS_MEMBER_EXPERT_SIZE] = {"moe_intermediate_size", AT(parts.experts.size), MEMBER_INT, 1, 1 << 22, true},
    [TESS_MEMBER_SHARED_SIZE] = {"shared_expert_size", AT(parts.experts.shared), MEMBER_INT, 1, 1 << 22, true},
    [TESS_MEMBER_SHARED_EXPERTS] = {"n_shared_experts", AT(parts.experts.n_shared), MEMBER_INT, 1, 256, true},
    [TESS_MEMBER_GROUPS] = {"n_group", AT(parts.experts.groups), MEMBER_INT, 1, TESS_MAX_GROUPS, true},
    [TESS_MEMBER_KEPT_GROUPS] = {"topk_group", AT(parts.experts.kept), MEMBER_INT, 1, TESS_MAX_GROUPS, true},
    [TESS_MEMBER_ROUTER_SCALE] = {"routed_scaling_factor", AT(parts.experts.scale), MEMBER_REAL, 1e-9, 1e9, true},
    [TESS_MEMBER_NORMALIZE] = {"norm_topk_prob", AT(parts.experts.normalize), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_ALPHA] = {"swiglu_alpha", AT(parts.experts.alpha), MEMBER_REAL, 1e-3, 1e3, true},
    [TESS_MEMBER_LIMIT] = {"swiglu_limit", AT(parts.experts.limit), MEMBER_REAL, 1e-3, 1e9, true},
    [TESS_MEMBER_BALANCES] = {"output_router_logits", AT(parts.experts.balances), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_BALANCE] = {"router_aux_loss_coef", AT(parts.experts.balance), MEMBER_REAL, 0, 1e3, false},
    [TESS_MEMBER_Z] = {"router_z_loss_coef", AT(parts.experts.z), MEMBER_REAL, 0, 1e3, false},
    [TESS_MEMBER_NOISE] = {"router_jitter_noise", AT(parts.experts.noise), MEMBER_REAL, 0, 0, false},
    [TESS_MEMBER_EMBEDDING_FACTOR] = {"embedding_multiplier", AT(factors.embedding), MEMBER_REAL, 1e-9, 1e9, true},
    [TESS_MEMBER_ATTENTION_FACTOR] = {"attention_multiplier", AT(factors.attention), MEMBER_REAL, 1e-9, 1e9, true},
    [TESS_MEMBER_RESIDUAL_FACTOR] = {"residual_multiplier", AT(factors.residual), MEMBER_REAL, 1e-9, 1e9, true},
    [TESS_MEMBER_LOGITS_DIVISOR] = {"logits_scaling", AT(factors.logits_divisor), MEMBER_REAL, 1e-9, 1e9, true},
    [TESS_MEMBER_QUERY_SCALAR] = {"query_pre_attn_scalar", AT(factors.query_scalar), MEMBER_INT, 1, 1 << 20, true},
    [TESS_MEMBER_LOGIT_FACTOR] = {"logit_scale", AT(factors.logits), MEMBER_REAL, 1e-9, 1e9, true},
    [TESS_MEMBER_ATTENTION_CAP] = {"attn_logit_softcapping", AT(factors.attention_cap), MEMBER_REAL, 1e-3, 1e9, true},
    [TESS_MEMBER_PARALLEL] = {"use_parallel_residual", AT(parts.parallel), MEMBER_FLAG, 0, 1, false},
    [TESS_MEMBER_LOGIT_CAP] = {"final_logit_softcapping", AT(factors.logit_cap), MEMBER_REAL, 1e-3, 1e9, true},
    [TESS_MEMBER_CLIP] = {"clip_qkv", AT(parts.clip_qkv), MEMBER_REAL, 1e-3, 1e9, true},
    [TESS_MEMBER_ACTIVATION] = {"hidden_act", AT(parts.activation), MEMBER_NAME, 0, 0, false},
};
#undef AT
/* clang-format on */

static double value_of(const tess_model_config *config, const member *m)
{
    const void *at = (const char *)config + m->at;
    return m->type == MEMBER_INT    ? (double)*(const int64_t *)at
           : m->type == MEMBER_REAL ? *(const double *)at
                                    : (double)*(const bool *)at;
}

static void set(tess_model_config *config, const tess_config_key *key, double value)
{
    for (int i = 0; i < TESS_KEY_MEMBERS && key->members[i] != TESS_MEMBER_NONE; i++) {
        const member *m = &members[key->members[i]];
        void *at = (char *)config + m->at;
        if (m->type == MEMBER_INT)
            *(int64_t *)at = (int64_t)value;
        else if (m->type == MEMBER_REAL)
            *(double *)at = value;
        else
            *(bool *)at = value != 0;
    }
}

static tess_status check(const member *m, const char *name, double value, const char *what)
{
    TESS_CHECK(value >= m->least, TESS_E_INVALID, "%s: '%s' is %.15g; it must be at least %g%s", what, name, value,
               m->least, m->or_none ? ", or null for none" : "");
    TESS_CHECK(value <= m->most, TESS_E_INVALID, "%s: '%s' is %.15g; it must be at most %.15g", what, name, value,
               m->most);
    return TESS_OK;
}

tess_status tess_family_check_bounds(const tess_model_config *config, const char *what)
{
    for (int i = TESS_MEMBER_NONE + 1; i < TESS_N_MEMBERS; i++)
        if (members[i].type != MEMBER_NAME && !(members[i].or_none && value_of(config, &members[i]) == 0))
            TESS_TRY(check(&members[i], members[i].name, value_of(config, &members[i]), what));
    return TESS_OK;
}

/* The keys of a family in the order in which they are written: key i, or NULL after the last one. */
static const tess_config_key *key_at(const tess_family_row *row, int i)
{
    if (i < row->n_base) {
        for (int k = 0; k < row->n_own; k++)
            if (row->own[k].members[0] == row->base[i].members[0] && row->own[k].members[0] != TESS_MEMBER_NONE)
                return &row->own[k];
        return &row->base[i];
    }
    for (int k = 0, left = i - row->n_base; k < row->n_own; k++) {
        bool replaces = false;
        for (int b = 0; b < row->n_base && row->own[k].members[0] != TESS_MEMBER_NONE; b++)
            replaces |= row->base[b].members[0] == row->own[k].members[0];
        if (!replaces && left-- == 0)
            return &row->own[k];
    }
    return NULL;
}

static const char *name_of(const tess_family_row *row, tess_member wanted)
{
    const tess_config_key *key;
    for (int i = 0; (key = key_at(row, i)) != NULL; i++)
        if (key->members[0] == wanted && key->name != NULL)
            return key->name;
    return members[wanted].name;
}

/* Names of activations in transformers. A config holds an index of this table, so that it is written with the name
 * that it had. */
static const struct {
    const char *name;
    tess_activation activation;
} activations[] = {{"silu", TESS_ACT_SILU},           {"swish", TESS_ACT_SILU},
                   {"gelu", TESS_ACT_GELU_ERF},       {"gelu_new", TESS_ACT_GELU_TANH},
                   {"gelu_fast", TESS_ACT_GELU_TANH}, {"gelu_pytorch_tanh", TESS_ACT_GELU_TANH}};
enum { N_ACTIVATIONS = sizeof(activations) / sizeof(activations[0]) };

tess_activation tess_family_activation(const tess_model_config *config)
{
    return activations[config->parts.activation].activation;
}

static tess_status read_activation(const json_t *json, const char *what, const tess_family_row *row, const char *key,
                                   tess_model_config *config)
{
    const char *name = row->activation;
    char list[128];
    size_t used = 0;
    uint8_t i = 0;
    TESS_TRY(tess_json_get_string(json, key, what, &name));
    if (row->old_activation != NULL && strcmp(row->old_activation, name) == 0)
        name = row->activation;
    for (; i < N_ACTIVATIONS && strcmp(activations[i].name, name) != 0; i++)
        used = tess_text_add(list, sizeof(list), used, "%s%s", i > 0 ? ", " : "", activations[i].name);
    TESS_CHECK(i < N_ACTIVATIONS, TESS_E_UNSUPPORTED, "%s: %s is '%s'; supported: %s", what, key, name, list);
    config->parts.activation = i;
    return TESS_OK;
}

static tess_status read_value(const json_t *json, const char *what, const member *m, const char *name, double *value)
{
    int64_t whole = (int64_t)*value;
    bool flag = *value != 0;
    if (m->type == MEMBER_REAL)
        return tess_json_get_double(json, name, what, value);
    if (m->type == MEMBER_INT)
        TESS_TRY(tess_json_get_int(json, name, what, &whole));
    else
        TESS_TRY(tess_json_get_bool(json, name, what, &flag));
    *value = m->type == MEMBER_INT ? (double)whole : (double)flag;
    return TESS_OK;
}

/* The number of experts has two names, both of which transformers reads. */
static const char *spelling_of(const json_t *json, const char *name)
{
    static const char *const names[] = {"num_local_experts", "num_experts"};
    bool other = false;
    for (int i = 0; i < 2; i++)
        other |= name != NULL && strcmp(name, names[i]) == 0;
    for (int i = 0; i < 2; i++)
        if (other && tess_json_has(json, names[i]))
            return names[i];
    return name;
}

static tess_status read_key(const json_t *json, const char *what, const tess_family_row *row,
                            const tess_config_key *key, tess_model_config *config)
{
    const member *m = &members[key->members[0]];
    const char *name = spelling_of(json, key->name);
    const bool stated = name != NULL && tess_json_has(json, name);
    double value = key->absent;
    if (key->members[0] == TESS_MEMBER_NONE || value == TESS_KEY_WRITTEN)
        return TESS_OK;
    if (m->type == MEMBER_NAME)
        return read_activation(json, what, row, key->name, config);
    TESS_CHECK(stated || value != TESS_KEY_REQUIRED, TESS_E_FORMAT, "%s: '%s' is missing", what, key->name);
    if (stated) {
        TESS_TRY(read_value(json, what, m, name, &value));
        /* transformers writes 0 for a window that is switched off */
        const bool off = key->members[0] == TESS_MEMBER_WINDOW && row->windows >= TESS_WINDOWS_SWITCHED &&
                         !json_is_true(json_object_get(json, "use_sliding_window"));
        TESS_TRY(off && value == 0 ? TESS_OK : check(m, name, value, what));
    } else if (key->name != NULL && json_is_null(json_object_get(json, key->name)) &&
               (m->or_none || key->members[0] == TESS_MEMBER_KV_HEADS || key->members[0] == TESS_MEMBER_HEAD_SIZE)) {
        value = 0;
    }
    set(config, key, value);
    return TESS_OK;
}

/* Sizes that config.json leaves to others. */
static tess_status derive(const char *what, const tess_family_row *row, tess_model_config *config)
{
    if (config->n_kv_heads == 0)
        config->n_kv_heads = config->n_heads;
    if (config->intermediate_size == 0)
        config->intermediate_size = 4 * config->hidden_size;
    if (config->parts.experts.n_shared > 0)
        config->parts.experts.shared = config->parts.experts.n_shared * config->parts.experts.size;
    if (row->shape->latent != NULL)
        config->head_size = config->parts.latent.plain + config->parts.latent.rotary;
    if (config->head_size != 0)
        return TESS_OK;
    TESS_CHECK(config->hidden_size % config->n_heads == 0, TESS_E_INVALID,
               "%s: %s %lld is not a multiple of %s %lld and there is no head_dim", what,
               name_of(row, TESS_MEMBER_HIDDEN), (long long)config->hidden_size, name_of(row, TESS_MEMBER_HEADS),
               (long long)config->n_heads);
    config->head_size = config->hidden_size / config->n_heads;
    return TESS_OK;
}

static tess_status require(const json_t *json, const char *what, const char *const *keys, bool expected)
{
    for (int i = 0; keys != NULL && keys[i] != NULL; i++) {
        bool value = expected;
        TESS_TRY(tess_json_get_bool(json, keys[i], what, &value));
        TESS_CHECK(value == expected, TESS_E_UNSUPPORTED, "%s: %s is %s; supported: %s", what, keys[i],
                   value ? "true" : "false", expected ? "true" : "false");
    }
    return TESS_OK;
}

/* Refuses values of keys that transformers ignores, or with which it fails. */
static tess_status check_unread(const json_t *json, const char *what, const tess_family_row *row,
                                const tess_model_config *config)
{
    int64_t size = config->head_size;
    if (row->fixed_heads)
        TESS_TRY(tess_json_get_int(json, "head_dim", what, &size));
    TESS_CHECK(size == config->head_size, TESS_E_UNSUPPORTED,
               "%s: head_dim is %lld; this family has only hidden_size / num_attention_heads, %lld", what,
               (long long)size, (long long)config->head_size);
    for (int i = 0; row->unset != NULL && row->unset[i] != NULL; i++)
        TESS_CHECK(!tess_json_has(json, row->unset[i]), TESS_E_UNSUPPORTED, "%s: %s is set; supported: null", what,
                   row->unset[i]);
    return TESS_OK;
}

tess_status tess_family_parse(const json_t *json, const char *what, const tess_family_row *row,
                              tess_model_config *config)
{
    const tess_config_key *key;
    TESS_TRY(require(json, what, row->no, false));
    TESS_TRY(require(json, what, row->always, true));
    for (int i = 0; (key = key_at(row, i)) != NULL; i++)
        TESS_TRY(read_key(json, what, row, key, config));
    TESS_TRY(derive(what, row, config));
    TESS_TRY(check_unread(json, what, row, config));
    config->bos_token_id = row->bos;
    config->pad_token_id = row->pad;
    config->tied = row->tied;
    config->n_eos = row->eos >= 0;
    config->eos_token_id[0] = config->n_eos > 0 ? row->eos : 0;
    for (int i = 0; i < 2 && row->more_eos[i] > 0; i++)
        config->eos_token_id[config->n_eos++] = row->more_eos[i];
    TESS_TRY(tess_layer_kinds_parse(json, what, row, config));
    TESS_TRY(tess_router_parse(json, what, row, config));
    return row->shape->positions != NULL ? TESS_OK : tess_rope_parse(json, what, row, config);
}

static json_t *key_json(const tess_model_config *config, const tess_config_key *key)
{
    const member *m = &members[key->members[0]];
    if (key->members[0] == TESS_MEMBER_NONE)
        return json_real(key->absent);
    if (m->type == MEMBER_NAME)
        return json_string(activations[config->parts.activation].name);
    const double value = value_of(config, m);
    if (m->or_none && value == 0)
        return json_null();
    return m->type == MEMBER_INT    ? json_integer((json_int_t)value)
           : m->type == MEMBER_REAL ? json_real(value)
                                    : json_boolean(value != 0);
}

int tess_family_write(const tess_family_row *row, const tess_model_config *config, json_t *json)
{
    const tess_config_key *key;
    int failed = 0;
    for (int i = 0; (key = key_at(row, i)) != NULL; i++)
        if (key->name != NULL)
            failed |= json_object_set_new(json, key->name, key_json(config, key));
    failed |= tess_layer_kinds_write(row, config, json) | tess_router_write(row, config, json);
    return row->shape->positions != NULL ? failed : failed | tess_rope_write(row, config, json);
}
