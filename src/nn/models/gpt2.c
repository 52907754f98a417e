/* GPT-2: LayerNorm, learned positions, biases everywhere, a plain GELU feed-forward, and matrices stored (in, out). */
#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "nn/models/family.h"

static tess_status refuse(const json_t *json, const char *key, bool expected, const char *what)
{
    bool value = expected;
    TESS_TRY(tess_json_get_bool(json, key, what, &value));
    TESS_CHECK(value == expected, TESS_E_UNSUPPORTED, "%s: %s is %s; supported: %s", what, key,
               value ? "true" : "false", expected ? "true" : "false");
    return TESS_OK;
}

tess_status tess_gpt2_parse(const json_t *json, const char *what, tess_model_config *config)
{
    config->vocab_size = 50257;
    config->hidden_size = 768;
    config->n_layers = config->n_heads = 12;
    config->max_position = 1024;
    config->norm_eps = 1e-5;
    config->bos_token_id = config->eos_token_id[0] = 50256;
    config->n_eos = 1;
    config->tied = config->parts.qkv_bias = config->parts.o_bias = config->parts.mlp_bias = true;
    TESS_TRY(tess_json_get_int(json, "vocab_size", what, &config->vocab_size));
    TESS_TRY(tess_json_get_int(json, "n_embd", what, &config->hidden_size));
    TESS_TRY(tess_json_get_int(json, "n_layer", what, &config->n_layers));
    TESS_TRY(tess_json_get_int(json, "n_head", what, &config->n_heads));
    TESS_TRY(tess_json_get_int(json, "n_positions", what, &config->max_position));
    TESS_CHECK(config->hidden_size > 0 && config->hidden_size < INT32_MAX && config->n_heads > 0, TESS_E_INVALID,
               "%s: n_embd is %lld and n_head is %lld", what, (long long)config->hidden_size,
               (long long)config->n_heads);
    config->n_kv_heads = config->n_heads;
    config->head_size = config->hidden_size / config->n_heads;
    config->intermediate_size = 4 * config->hidden_size;
    TESS_TRY(tess_json_get_int(json, "n_inner", what, &config->intermediate_size));
    TESS_TRY(tess_json_get_double(json, "layer_norm_epsilon", what, &config->norm_eps));

    const char *act = "gelu_new";
    TESS_TRY(tess_json_get_string(json, "activation_function", what, &act));
    TESS_CHECK(strcmp(act, "gelu_new") == 0 || strcmp(act, "gelu_pytorch_tanh") == 0, TESS_E_UNSUPPORTED,
               "%s: activation_function is '%s'; supported: gelu_new", what, act);
    TESS_TRY(refuse(json, "scale_attn_weights", true, what));
    TESS_TRY(refuse(json, "scale_attn_by_inverse_layer_idx", false, what));
    return refuse(json, "add_cross_attention", false, what);
}

int tess_gpt2_write(const tess_model_config *config, json_t *json)
{
    /* Writes dropout 0: Tessera has none, and transformers' default is 0.1. */
    return json_object_update_new(
        json,
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:f, s:f, s:f}", "n_embd", (json_int_t)config->hidden_size,
                  "n_layer", (json_int_t)config->n_layers, "n_head", (json_int_t)config->n_heads, "n_positions",
                  (json_int_t)config->max_position, "n_ctx", (json_int_t)config->max_position, "n_inner",
                  (json_int_t)config->intermediate_size, "layer_norm_epsilon", config->norm_eps, "activation_function",
                  "gelu_new", "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0));
}

static tess_linear add_conv1d(tess_model *model, int unit, const char *name, tess_cut in, tess_cut out, double std)
{
    return tess_family_add_linear(
        model, unit, name, &(tess_family_linear){.in = in, .out = out, .std = std, .bias = true, .in_out = true});
}

/* The columns of this rank's heads in the index-th third of c_attn. Each rank stores all of c_attn: a rank's part
 * would be three boxes of it. */
static tess_linear third_of(const tess_model *model, const tess_linear *c_attn, tess_cut heads, int index)
{
    tess_linear part = *c_attn;
    tess_cut_range(heads, model->part.tp_degree, model->part.tp_rank, &part.offset, &part.n_out);
    part.offset += index * heads.size;
    part.out = heads;
    part.stored_whole = true;
    return part;
}

/* Refuses an adapter on c_attn if ranks share it: its q, k and v are parts of one map and share one B. */
static void refuse_adapter(tess_model *model, const tess_linear *c_attn)
{
    if (model->built == TESS_OK && model->part.tp_degree > 1 && c_attn->adapter.rank > 0)
        model->built = TESS_FAIL(TESS_E_UNSUPPORTED,
                                 "%s: ranks that share layers have no adapter of GPT-2's c_attn, which is q, k and "
                                 "v in one: name c_proj and c_fc alone, or set parallelism.tensor_parallel_degree=1",
                                 model->config.lora.source);
}

void tess_gpt2_build(tess_model *model)
{
    static const char table[] = "transformer.wte.weight";
    const tess_model_config *c = &model->config;
    int64_t C = c->hidden_size;
    tess_family_cuts cut = tess_family_cut(model);
    /* Projections into the residual stream start with smaller values, as in the paper and in transformers. */
    double std = c->initializer_range, residual_std = std / sqrt(2.0 * (double)c->n_layers);
    tess_embedding_params *embedding = tess_family_embedding(model, table);
    if (embedding != NULL)
        embedding->positions = tess_family_add_table(model, 0, c->max_position, "transformer.wpe.weight");
    for (int64_t i = 0; i < model->part.n_layers; i++) {
        int unit;
        const tess_family_parts parts = tess_family_layer(model, i, &unit);
        tess_block *block = parts.block;
        tess_attention_params *a = parts.attention;
        tess_feed_forward_params *f = parts.feed_forward;
        if (model->built != TESS_OK)
            return;
        snprintf(block->name, sizeof(block->name), "transformer.h.%d", (int)block->layer);
        block->layer_norm = true;
        block->activation = TESS_ACT_GELU_TANH;
        a->norm = tess_family_add_norm(model, unit, block->name, "ln_1", C);
        a->qkv = add_conv1d(model, unit, "attn.c_attn", cut.stream, (tess_cut){3 * C, 0}, std);
        refuse_adapter(model, &a->qkv);
        a->q = third_of(model, &a->qkv, cut.q, 0);
        a->k = third_of(model, &a->qkv, cut.q, 1);
        a->v = third_of(model, &a->qkv, cut.q, 2);
        a->o = add_conv1d(model, unit, "attn.c_proj", cut.q, cut.stream, residual_std);
        f->norm = tess_family_add_norm(model, unit, block->name, "ln_2", C);
        f->up = add_conv1d(model, unit, "mlp.c_fc", cut.stream, cut.mlp, std);
        f->down = add_conv1d(model, unit, "mlp.c_proj", cut.mlp, cut.stream, residual_std);
        tess_family_sum_leaves(model, f);
    }
    tess_family_head(model, true, &(tess_family_head_names){"transformer", "ln_f", "classifier"});
}
