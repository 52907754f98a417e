/* Llama and its relatives, which differ in a few options: Llama (optional biases), Mistral (a sliding window in all
 * layers), Ministral (a sliding window in some layers), Qwen2 (biases on q, k and v), Qwen3 (norms on q and k). */
#include <string.h>

#include "base/text/json.h"
#include "nn/models/family.h"

static tess_status require_int(const json_t *json, const char *key, const char *what, int64_t *value)
{
    *value = 0;
    TESS_TRY(tess_json_get_int(json, key, what, value));
    TESS_CHECK(json_object_get(json, key) != NULL, TESS_E_FORMAT, "%s: '%s' is missing", what, key);
    TESS_CHECK(*value > 0, TESS_E_FORMAT, "%s: '%s' is %lld; it must be at least 1", what, key, (long long)*value);
    return TESS_OK;
}

/* The name of a layer's attention in layer_types. */
static const char *attention_name(bool full)
{
    return full ? "full_attention" : "sliding_attention";
}

/* Reads layer_types. Full layers before the first sliding one are counted in full_layers; later ones are marked in
 * `full`. */
static tess_status parse_layer_types(const json_t *types, const char *what, tess_model_config *config)
{
    TESS_CHECK(json_is_array(types) && config->n_layers <= TESS_MAX_LAYERS &&
                   (int64_t)json_array_size(types) == config->n_layers,
               TESS_E_FORMAT, "%s: 'layer_types' must list one name for each of the %lld layers, at most %d", what,
               (long long)config->n_layers, TESS_MAX_LAYERS);
    bool slides = false;
    config->full_layers = 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool full = type != NULL && strcmp(type, attention_name(true)) == 0;
        TESS_CHECK(full || (type != NULL && strcmp(type, attention_name(false)) == 0), TESS_E_UNSUPPORTED,
                   "%s: layer_types[%zu] is '%s'; supported: full_attention, sliding_attention", what, i,
                   type != NULL ? type : "not a name");
        slides |= !full;
        if (!slides)
            config->full_layers++;
        else if (full)
            config->full[i / 64] |= (uint64_t)1 << (i % 64);
    }
    TESS_CHECK(!slides || config->sliding_window > 0, TESS_E_FORMAT,
               "%s: layer_types has sliding_attention but there is no sliding_window in use", what);
    if (config->sliding_window == 0)
        config->full_layers = 0;
    return TESS_OK;
}

static bool is_mistral(const tess_model_config *config)
{
    return config->family == TESS_FAMILY_MISTRAL || config->family == TESS_FAMILY_MINISTRAL;
}

/* Reads the sliding window. Mistral's applies to all layers, Ministral's to those that layer_types names. Qwen has a
 * window only if use_sliding_window is true. It then applies to the layers that layer_types names, or, without
 * layer_types, to those from max_window_layers on. */
static tess_status parse_window(const json_t *json, const char *what, tess_model_config *config)
{
    if (config->family == TESS_FAMILY_LLAMA)
        return TESS_OK;
    bool qwen = !is_mistral(config), slides = !qwen;
    int64_t window = 4096;
    TESS_TRY(tess_json_get_int(json, "sliding_window", what, &window));
    if (qwen)
        TESS_TRY(tess_json_get_bool(json, "use_sliding_window", what, &slides));
    if (slides && !json_is_null(json_object_get(json, "sliding_window"))) {
        TESS_CHECK(window > 0, TESS_E_FORMAT, "%s: sliding_window is %lld; it must be positive, or null", what,
                   (long long)window);
        config->sliding_window = window;
        config->full_layers = qwen ? 28 : 0;
        if (qwen)
            TESS_TRY(tess_json_get_int(json, "max_window_layers", what, &config->full_layers));
    }
    const json_t *types = json_object_get(json, "layer_types");
    if (types != NULL && !json_is_null(types) && config->family != TESS_FAMILY_MISTRAL)
        TESS_TRY(parse_layer_types(types, what, config));
    return TESS_OK;
}

tess_status tess_llama_parse(const json_t *json, const char *what, tess_model_config *config)
{
    TESS_TRY(require_int(json, "vocab_size", what, &config->vocab_size));
    TESS_TRY(require_int(json, "hidden_size", what, &config->hidden_size));
    TESS_TRY(require_int(json, "intermediate_size", what, &config->intermediate_size));
    TESS_TRY(require_int(json, "num_hidden_layers", what, &config->n_layers));
    TESS_TRY(require_int(json, "num_attention_heads", what, &config->n_heads));

    /* The values that transformers assumes for absent keys. */
    bool mistral = is_mistral(config), qwen3 = config->family == TESS_FAMILY_QWEN3;
    bool qwen2 = config->family == TESS_FAMILY_QWEN2;
    config->max_position = mistral ? 131072 : qwen2 || qwen3 ? 32768 : 2048;
    config->n_kv_heads = config->n_heads;
    if (json_object_get(json, "num_key_value_heads") == NULL)
        config->n_kv_heads = mistral ? 8 : qwen2 || qwen3 ? 32 : config->n_heads;
    config->head_size = qwen3 ? 128 : config->n_heads > 0 ? config->hidden_size / config->n_heads : 0;
    config->norm_eps = 1e-6;
    if (!qwen2 && !qwen3) {
        config->bos_token_id = 1;
        config->eos_token_id[0] = 2;
        config->n_eos = 1;
    }
    TESS_TRY(tess_json_get_int(json, "num_key_value_heads", what, &config->n_kv_heads));
    bool has_head_dim = json_is_number(json_object_get(json, "head_dim"));
    TESS_TRY(tess_json_get_int(json, "head_dim", what, &config->head_size));
    TESS_CHECK(has_head_dim || qwen3 || config->n_heads <= 0 || config->hidden_size % config->n_heads == 0,
               TESS_E_INVALID,
               "%s: hidden_size %lld is not a multiple of num_attention_heads %lld and there is no head_dim", what,
               (long long)config->hidden_size, (long long)config->n_heads);
    TESS_TRY(tess_json_get_int(json, "max_position_embeddings", what, &config->max_position));
    TESS_TRY(tess_json_get_double(json, "rms_norm_eps", what, &config->norm_eps));

    const char *act = "silu";
    TESS_TRY(tess_json_get_string(json, "hidden_act", what, &act));
    TESS_CHECK(strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0, TESS_E_UNSUPPORTED,
               "%s: hidden_act is '%s'; supported: silu", what, act);
    if (config->family == TESS_FAMILY_LLAMA || qwen3) {
        bool bias = false;
        TESS_TRY(tess_json_get_bool(json, "attention_bias", what, &bias));
        config->parts.qkv_bias = config->parts.o_bias = bias;
    }
    if (config->family == TESS_FAMILY_LLAMA)
        TESS_TRY(tess_json_get_bool(json, "mlp_bias", what, &config->parts.mlp_bias));
    if (qwen2)
        config->parts.qkv_bias = true;
    config->parts.qk_norm = qwen3;
    TESS_TRY(parse_window(json, what, config));
    TESS_CHECK(config->max_position > 0 && config->max_position <= INT32_MAX, TESS_E_INVALID,
               "%s: max_position_embeddings is %lld", what, (long long)config->max_position);
    return tess_rope_parse(json, what, config->max_position, &config->rope);
}

/* Writes layer_types. Other families than Ministral omit it if max_window_layers says the same: the window applies
 * to all layers from one on. Older readers know only max_window_layers. */
static int write_layer_types(const tess_model_config *config, json_t *json)
{
    static const uint64_t none[TESS_MAX_LAYERS / 64];
    bool alternate = memcmp(config->full, none, sizeof(none)) != 0;
    if (!alternate && config->family != TESS_FAMILY_MINISTRAL)
        return 0;
    json_t *types = json_array();
    int failed = 0;
    for (int64_t l = 0; l < config->n_layers; l++)
        failed |= json_array_append_new(types, json_string(attention_name(tess_model_config_window(config, l) == 0)));
    return failed | json_object_set_new(json, "layer_types", types);
}

static int write_window(const tess_model_config *config, json_t *json)
{
    if (config->family == TESS_FAMILY_LLAMA)
        return 0;
    bool used = config->sliding_window > 0;
    int failed = json_object_set_new(json, "sliding_window", used ? json_integer(config->sliding_window) : json_null());
    if (config->family == TESS_FAMILY_MISTRAL)
        return failed;
    failed |= write_layer_types(config, json);
    if (config->family == TESS_FAMILY_MINISTRAL)
        return failed;
    failed |= json_object_set_new(json, "use_sliding_window", json_boolean(used));
    return failed |
           json_object_set_new(json, "max_window_layers", json_integer(used ? config->full_layers : config->n_layers));
}

int tess_llama_write(const tess_model_config *config, json_t *json)
{
    int failed = json_object_update_new(
        json, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:f, s:f}", "hidden_size",
                        (json_int_t)config->hidden_size, "intermediate_size", (json_int_t)config->intermediate_size,
                        "num_hidden_layers", (json_int_t)config->n_layers, "num_attention_heads",
                        (json_int_t)config->n_heads, "num_key_value_heads", (json_int_t)config->n_kv_heads, "head_dim",
                        (json_int_t)config->head_size, "hidden_act", "silu", "max_position_embeddings",
                        (json_int_t)config->max_position, "rms_norm_eps", config->norm_eps, "attention_dropout", 0.0));
    if (config->family == TESS_FAMILY_LLAMA || config->family == TESS_FAMILY_QWEN3)
        failed |= json_object_set_new(json, "attention_bias", json_boolean(config->parts.qkv_bias));
    if (config->family == TESS_FAMILY_LLAMA)
        failed |= json_object_set_new(json, "mlp_bias", json_boolean(config->parts.mlp_bias));
    failed |= write_window(config, json);
    return failed | tess_rope_write(&config->rope, json);
}

static tess_linear add_linear(tess_model *model, int unit, const char *name, tess_cut in, tess_cut out, bool bias)
{
    return tess_family_add_linear(
        model, unit, name,
        &(tess_family_linear){.in = in, .out = out, .std = model->config.initializer_range, .bias = bias});
}

void tess_llama_build(tess_model *model)
{
    static const char table[] = "model.embed_tokens.weight";
    const tess_model_config *c = &model->config;
    int64_t C = c->hidden_size;
    tess_family_cuts cut = tess_family_cut(model);
    tess_family_embedding(model, table);
    for (int64_t i = 0; i < model->part.n_layers; i++) {
        int unit;
        const tess_family_parts parts = tess_family_layer(model, i, &unit);
        tess_attention_params *a = parts.attention;
        tess_feed_forward_params *f = parts.feed_forward;
        char *layer = parts.block->name;
        if (model->built != TESS_OK)
            return;
        snprintf(layer, sizeof(parts.block->name), "model.layers.%d", (int)parts.block->layer);
        parts.block->activation = TESS_ACT_SILU;
        a->rope = true;
        a->norm = tess_family_add_norm(model, unit, layer, "input_layernorm", C);
        a->q = add_linear(model, unit, "self_attn.q_proj", cut.stream, cut.q, c->parts.qkv_bias);
        a->k = add_linear(model, unit, "self_attn.k_proj", cut.stream, cut.kv, c->parts.qkv_bias);
        a->v = add_linear(model, unit, "self_attn.v_proj", cut.stream, cut.kv, c->parts.qkv_bias);
        if (c->parts.qk_norm) {
            a->q_norm = tess_family_add_norm(model, unit, layer, "self_attn.q_norm", c->head_size);
            a->k_norm = tess_family_add_norm(model, unit, layer, "self_attn.k_norm", c->head_size);
        }
        a->o = add_linear(model, unit, "self_attn.o_proj", cut.q, cut.stream, c->parts.o_bias);
        f->norm = tess_family_add_norm(model, unit, layer, "post_attention_layernorm", C);
        f->gate = add_linear(model, unit, "mlp.gate_proj", cut.stream, cut.mlp, c->parts.mlp_bias);
        f->up = add_linear(model, unit, "mlp.up_proj", cut.stream, cut.mlp, c->parts.mlp_bias);
        f->down = add_linear(model, unit, "mlp.down_proj", cut.mlp, cut.stream, c->parts.mlp_bias);
        tess_family_sum_leaves(model, f);
    }
    tess_family_head(model, false, &(tess_family_head_names){"model", "norm", "score"});
}
