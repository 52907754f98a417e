/* The rows of all families. Values of absent keys are those that transformers assumes. */
#include "nn/models/family.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define KEYS(array) .own = (array), .n_own = COUNT(array)
#define LLAMA_KEYS .base = llama_base, .n_base = COUNT(llama_base)

/* clang-format off */
/* Keys of Llama and its relatives, in the order in which they are written. */
static const tess_config_key llama_base[] = {
    {"vocab_size", {TESS_MEMBER_VOCAB}, TESS_KEY_REQUIRED, false},
    {"hidden_size", {TESS_MEMBER_HIDDEN}, TESS_KEY_REQUIRED, false},
    {"intermediate_size", {TESS_MEMBER_MLP}, TESS_KEY_REQUIRED, false},
    {"num_hidden_layers", {TESS_MEMBER_LAYERS}, TESS_KEY_REQUIRED, false},
    {"num_attention_heads", {TESS_MEMBER_HEADS}, TESS_KEY_REQUIRED, false},
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 0, false},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 0, false},
    {"hidden_act", {TESS_MEMBER_ACTIVATION}, 0, false},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 2048, false},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-6, false},
    {"attention_dropout", {0}, 0, false},
};
#define ATTENTION_BIAS {"attention_bias", {TESS_MEMBER_QKV_BIAS, TESS_MEMBER_O_BIAS}, false, false}
#define MLP_BIAS {"mlp_bias", {TESS_MEMBER_MLP_BIAS}, false, false}
static const tess_config_key llama_own[] = {ATTENTION_BIAS, MLP_BIAS};
static const tess_config_key mistral_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 8, false},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 131072, false},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096, false},
};
static const tess_config_key qwen2_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 32, false},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768, false},
    {NULL, {TESS_MEMBER_QKV_BIAS}, true, false},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096, false},
};
static const tess_config_key qwen3_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 32, false},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 128, false},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768, false},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true, false},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096, false},
};
#define ROUTER_LOSSES(balance)                                  \
    {"output_router_logits", {TESS_MEMBER_BALANCES}, false, false},  \
    {"router_aux_loss_coef", {TESS_MEMBER_BALANCE}, balance, false}, \
    {"router_z_loss_coef", {TESS_MEMBER_Z}, 0, false}
static const tess_config_key mixtral_own[] = {
    {"intermediate_size", {TESS_MEMBER_MLP, TESS_MEMBER_EXPERT_SIZE}, TESS_KEY_REQUIRED, false},
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 8, false},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 131072, false},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5, false},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 0, false},
    {"num_local_experts", {TESS_MEMBER_EXPERTS}, 8, false},
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, 2, false},
    {NULL, {TESS_MEMBER_NORMALIZE}, true, false},
    {"router_jitter_noise", {TESS_MEMBER_NOISE}, 0, false},
    ROUTER_LOSSES(0.001),
};
static const tess_config_key qwen3_moe_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 4, false},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768, false},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true, false},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096, false},
    {"num_experts", {TESS_MEMBER_EXPERTS}, 128, false},
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, 8, false},
    {"moe_intermediate_size", {TESS_MEMBER_EXPERT_SIZE}, 768, false},
    {"norm_topk_prob", {TESS_MEMBER_NORMALIZE}, false, false},
    ROUTER_LOSSES(0.001),
};
/* Dropout is written as 0: Tessera has none, and transformers' default is 0.1. */
static const tess_config_key gpt2_own[] = {
    {"vocab_size", {TESS_MEMBER_VOCAB}, 50257, false},
    {"n_embd", {TESS_MEMBER_HIDDEN}, 768, false},
    {"n_layer", {TESS_MEMBER_LAYERS}, 12, false},
    {"n_head", {TESS_MEMBER_HEADS}, 12, false},
    {"n_positions", {TESS_MEMBER_POSITIONS}, 1024, false},
    {"n_ctx", {TESS_MEMBER_POSITIONS}, 0, true},
    {"n_inner", {TESS_MEMBER_MLP}, 0, false},
    {"layer_norm_epsilon", {TESS_MEMBER_EPS}, 1e-5, false},
    {"activation_function", {TESS_MEMBER_ACTIVATION}, 0, false},
    {"attn_pdrop", {0}, 0, false},
    {"embd_pdrop", {0}, 0, false},
    {"resid_pdrop", {0}, 0, false},
    {NULL, {TESS_MEMBER_QKV_BIAS, TESS_MEMBER_O_BIAS, TESS_MEMBER_MLP_BIAS}, true, false},
};
/* clang-format on */

static const char *const gpt2_no[] = {"scale_attn_by_inverse_layer_idx", "add_cross_attention", NULL};
static const char *const gpt2_always[] = {"scale_attn_weights", NULL};

static const tess_family_shape llama_shape = {
    .table = "model.embed_tokens.weight",
    .prefix = "model",
    .layers = "layers",
    .norm = "norm",
    .token_head = "score",
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.o_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .feed_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .activation = TESS_ACT_SILU,
};
static const tess_family_shape gpt2_shape = {
    .table = "transformer.wte.weight",
    .positions = "transformer.wpe.weight",
    .prefix = "transformer",
    .layers = "h",
    .norm = "ln_f",
    .token_head = "classifier",
    .attention_norm = "ln_1",
    .qkv = "attn.c_attn",
    .o = "attn.c_proj",
    .feed_norm = "ln_2",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .layer_norm = true,
    .in_out = true,
    .small_output = true,
    .activation = TESS_ACT_GELU_TANH,
};

static const tess_family_mixture mixtral = {"block_sparse_moe", "w1", "w3", "w2", false};
static const tess_family_mixture qwen_mixture = {"mlp", "gate_proj", "up_proj", "down_proj", true};

static const tess_family_row families[] = {
    {TESS_FAMILY_LLAMA, "llama", "Llama", "ForCausalLM", true, LLAMA_KEYS, KEYS(llama_own), .activation = "silu",
     .bos = 1, .eos = 2, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_MISTRAL, "mistral", "Mistral", "ForCausalLM", true, LLAMA_KEYS, KEYS(mistral_own),
     .activation = "silu", .bos = 1, .eos = 2, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_QWEN2, "qwen2", "Qwen2", "ForCausalLM", true, LLAMA_KEYS, KEYS(qwen2_own), .activation = "silu",
     .windows = TESS_WINDOWS_SWITCHED, .bos = -1, .eos = -1, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_QWEN3, "qwen3", "Qwen3", "ForCausalLM", true, LLAMA_KEYS, KEYS(qwen3_own), .activation = "silu",
     .windows = TESS_WINDOWS_SWITCHED, .bos = -1, .eos = -1, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_GPT2, "gpt2", "GPT2", "LMHeadModel", true, KEYS(gpt2_own), .activation = "gelu_new", .bos = 50256,
     .eos = 50256, .pad = -1, .tied = true, .no = gpt2_no, .always = gpt2_always, .shape = &gpt2_shape},
    {TESS_FAMILY_MINISTRAL, "ministral", "Ministral", "ForCausalLM", true, LLAMA_KEYS, KEYS(mistral_own),
     .activation = "silu", .windows = TESS_WINDOWS_BY_TYPE, .writes_types = true, .bos = 1, .eos = 2, .pad = -1,
     .shape = &llama_shape},
    {TESS_FAMILY_MIXTRAL, "mixtral", "Mixtral", "ForCausalLM", true, LLAMA_KEYS, KEYS(mixtral_own),
     .activation = "silu", .bos = 1, .eos = 2, .pad = -1, .shape = &llama_shape, .mixture = &mixtral},
    {TESS_FAMILY_QWEN3_MOE, "qwen3_moe", "Qwen3Moe", "ForCausalLM", true, LLAMA_KEYS, KEYS(qwen3_moe_own),
     .activation = "silu", .windows = TESS_WINDOWS_SWITCHED, .bos = -1, .eos = -1, .pad = -1, .shape = &llama_shape,
     .mixture = &qwen_mixture},
};

const tess_family_row *tess_family_find(tess_family family)
{
    for (int i = 0; i < COUNT(families); i++)
        if (families[i].family == family)
            return &families[i];
    return NULL;
}

const tess_family_row *tess_family_find_type(const char *model_type)
{
    for (int i = 0; i < COUNT(families); i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

const char *tess_family_class(const tess_family_row *row, tess_head_kind head, char text[TESS_FAMILY_CLASS])
{
    const char *const ends[] = {row->causal, "ForSequenceClassification", "ForTokenClassification"};
    text[0] = '\0';
    if (head == TESS_HEAD_LOGITS || row->classifies)
        snprintf(text, TESS_FAMILY_CLASS, "%s%s", row->name, ends[head]);
    return text;
}

const char *tess_family_architecture(const tess_model_config *config, char text[TESS_FAMILY_CLASS])
{
    const tess_head_kind head = config->n_outputs == 0 ? TESS_HEAD_LOGITS
                                : config->output_bias  ? TESS_HEAD_TOKEN
                                                       : TESS_HEAD_SEQUENCE;
    return tess_family_class(tess_family_find(config->family), head, text);
}

const char *tess_family_list(char text[TESS_FAMILY_LIST])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < COUNT(families); i++)
        used = tess_text_add(text, TESS_FAMILY_LIST, used, "%s%s", i > 0 ? ", " : "", families[i].model_type);
    return text;
}
