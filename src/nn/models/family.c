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
    {"vocab_size", {TESS_MEMBER_VOCAB}, TESS_KEY_REQUIRED},
    {"hidden_size", {TESS_MEMBER_HIDDEN}, TESS_KEY_REQUIRED},
    {"intermediate_size", {TESS_MEMBER_MLP}, TESS_KEY_REQUIRED},
    {"num_hidden_layers", {TESS_MEMBER_LAYERS}, TESS_KEY_REQUIRED},
    {"num_attention_heads", {TESS_MEMBER_HEADS}, TESS_KEY_REQUIRED},
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 0},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 0},
    {"hidden_act", {TESS_MEMBER_ACTIVATION}, 0},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 2048},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-6},
    {"attention_dropout", {0}, 0},
};
#define ATTENTION_BIAS {"attention_bias", {TESS_MEMBER_QKV_BIAS, TESS_MEMBER_O_BIAS}, false}
#define MLP_BIAS {"mlp_bias", {TESS_MEMBER_MLP_BIAS}, false}
static const tess_config_key llama_own[] = {ATTENTION_BIAS, MLP_BIAS};
static const tess_config_key mistral_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 8},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 131072},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
static const tess_config_key qwen2_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 32},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768},
    {NULL, {TESS_MEMBER_QKV_BIAS}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
static const tess_config_key qwen3_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 32},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 128},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
static const tess_config_key smollm3_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 4},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768},
    ATTENTION_BIAS, MLP_BIAS,
    {"sliding_window", {TESS_MEMBER_WINDOW}, 0},
};
static const tess_config_key ministral3_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 8},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 128},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 262144},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 0},
};
static const tess_config_key phi3_own[] = {
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 4096},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 0},
};
static const tess_config_key olmo2_own[] = {
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true},
};
static const tess_config_key olmo3_own[] = {
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
static const tess_config_key starcoder2_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 2},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 4096},
    {"norm_epsilon", {TESS_MEMBER_EPS}, 1e-5},
    {"use_bias", {TESS_MEMBER_QKV_BIAS, TESS_MEMBER_O_BIAS, TESS_MEMBER_MLP_BIAS}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 0},
};
static const tess_config_key stablelm_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 32},
    {NULL, {TESS_MEMBER_HEAD_SIZE}, 0},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 4096},
    {"layer_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    {"use_qkv_bias", {TESS_MEMBER_QKV_BIAS}, false},
    {"use_parallel_residual", {TESS_MEMBER_PARALLEL}, false},
    {"qk_layernorm", {TESS_MEMBER_QK_NORM}, false},
};
static const tess_config_key gpt_neox_own[] = {
    {"vocab_size", {TESS_MEMBER_VOCAB}, 50432},
    {"hidden_size", {TESS_MEMBER_HIDDEN}, 6144},
    {"intermediate_size", {TESS_MEMBER_MLP}, 24576},
    {"num_hidden_layers", {TESS_MEMBER_LAYERS}, 44},
    {"num_attention_heads", {TESS_MEMBER_HEADS}, 64},
    {NULL, {TESS_MEMBER_KV_HEADS}, 0},
    {NULL, {TESS_MEMBER_HEAD_SIZE}, 0},
    {"layer_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    {"attention_bias", {TESS_MEMBER_QKV_BIAS, TESS_MEMBER_O_BIAS}, true},
    {NULL, {TESS_MEMBER_MLP_BIAS}, true},
    {"use_parallel_residual", {TESS_MEMBER_PARALLEL}, true},
    {"hidden_dropout", {0}, 0},
};
static const tess_config_key granite_own[] = {
    ATTENTION_BIAS, MLP_BIAS,
    {"embedding_multiplier", {TESS_MEMBER_EMBEDDING_FACTOR}, 1},
    {"attention_multiplier", {TESS_MEMBER_ATTENTION_FACTOR}, 1},
    {"residual_multiplier", {TESS_MEMBER_RESIDUAL_FACTOR}, 1},
    {"logits_scaling", {TESS_MEMBER_LOGITS_DIVISOR}, 1},
};
static const tess_config_key gemma_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 16},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 256},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 8192},
    ATTENTION_BIAS,
};
static const tess_config_key gemma3_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 4},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 256},
    {"hidden_activation", {TESS_MEMBER_ACTIVATION}, 0},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 131072},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true},
    {"query_pre_attn_scalar", {TESS_MEMBER_QUERY_SCALAR}, 256},
    {"final_logit_softcapping", {TESS_MEMBER_LOGIT_CAP}, 0},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
static const tess_config_key gemma2_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 4},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 256},
    {"hidden_activation", {TESS_MEMBER_ACTIVATION}, 0},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 8192},
    ATTENTION_BIAS,
    {"query_pre_attn_scalar", {TESS_MEMBER_QUERY_SCALAR}, 256},
    {"attn_logit_softcapping", {TESS_MEMBER_ATTENTION_CAP}, 50},
    {"final_logit_softcapping", {TESS_MEMBER_LOGIT_CAP}, 30},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
static const tess_config_key cohere2_own[] = {
    {NULL, {TESS_MEMBER_HEAD_SIZE}, 0},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 8192},
    {"layer_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_PARALLEL}, true},
    {"logit_scale", {TESS_MEMBER_LOGIT_FACTOR}, 0.0625},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
static const tess_config_key glm_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 2},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 128},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 131072},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1.5625e-7},
    {"attention_bias", {TESS_MEMBER_QKV_BIAS}, true},
};
static const tess_config_key exaone4_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 32},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    {NULL, {TESS_MEMBER_QK_NORM}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
};
#define ROUTER_LOSSES(balance)                                  \
    {"output_router_logits", {TESS_MEMBER_BALANCES}, false},  \
    {"router_aux_loss_coef", {TESS_MEMBER_BALANCE}, balance}, \
    {"router_z_loss_coef", {TESS_MEMBER_Z}, 0}
static const tess_config_key mixtral_own[] = {
    {"intermediate_size", {TESS_MEMBER_MLP, TESS_MEMBER_EXPERT_SIZE}, TESS_KEY_REQUIRED},
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 8},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 131072},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 0},
    {"num_local_experts", {TESS_MEMBER_EXPERTS}, 8},
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, 2},
    {NULL, {TESS_MEMBER_NORMALIZE}, true},
    {"router_jitter_noise", {TESS_MEMBER_NOISE}, 0},
    ROUTER_LOSSES(0.001),
};
static const tess_config_key qwen3_moe_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 4},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
    {"num_experts", {TESS_MEMBER_EXPERTS}, 128},
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, 8},
    {"moe_intermediate_size", {TESS_MEMBER_EXPERT_SIZE}, 768},
    {"norm_topk_prob", {TESS_MEMBER_NORMALIZE}, false},
    ROUTER_LOSSES(0.001),
};
static const tess_config_key olmoe_own[] = {
    {"intermediate_size", {TESS_MEMBER_MLP, TESS_MEMBER_EXPERT_SIZE}, TESS_KEY_REQUIRED},
    {NULL, {TESS_MEMBER_HEAD_SIZE}, 0},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 4096},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    ATTENTION_BIAS,
    {NULL, {TESS_MEMBER_QK_NORM}, true},
    {"clip_qkv", {TESS_MEMBER_CLIP}, 0},
    {"num_experts", {TESS_MEMBER_EXPERTS}, 64},
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, 8},
    {"norm_topk_prob", {TESS_MEMBER_NORMALIZE}, false},
    ROUTER_LOSSES(0.01),
};
static const tess_config_key qwen2_moe_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 16},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 32768},
    {"qkv_bias", {TESS_MEMBER_QKV_BIAS}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 4096},
    {"num_experts", {TESS_MEMBER_EXPERTS}, 60},
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, 4},
    {"moe_intermediate_size", {TESS_MEMBER_EXPERT_SIZE}, 1408},
    {"shared_expert_intermediate_size", {TESS_MEMBER_SHARED_SIZE}, 5632},
    {"norm_topk_prob", {TESS_MEMBER_NORMALIZE}, false},
    ROUTER_LOSSES(0.001),
};
static const tess_config_key gpt_oss_own[] = {
    {"intermediate_size", {TESS_MEMBER_MLP, TESS_MEMBER_EXPERT_SIZE}, TESS_KEY_REQUIRED},
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 8},
    {"head_dim", {TESS_MEMBER_HEAD_SIZE}, 64},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 131072},
    {"rms_norm_eps", {TESS_MEMBER_EPS}, 1e-5},
    {"attention_bias", {TESS_MEMBER_QKV_BIAS, TESS_MEMBER_O_BIAS}, true},
    {"sliding_window", {TESS_MEMBER_WINDOW}, 128},
    {"num_local_experts", {TESS_MEMBER_EXPERTS}, 128},
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, 4},
    {NULL, {TESS_MEMBER_NORMALIZE}, true},
    {"swiglu_alpha", {TESS_MEMBER_ALPHA}, 1.702},
    {"swiglu_limit", {TESS_MEMBER_LIMIT}, 7},
    ROUTER_LOSSES(0.001),
};
#define LATENT_KEYS(top_k, experts, size, shared, scale)                 \
    {NULL, {TESS_MEMBER_HEAD_SIZE}, 0},                                  \
    {"q_lora_rank", {TESS_MEMBER_Q_LATENT}, 1536},                       \
    {"kv_lora_rank", {TESS_MEMBER_LATENT}, 512},                         \
    {"qk_nope_head_dim", {TESS_MEMBER_HEAD_PLAIN}, 128},                 \
    {"qk_rope_head_dim", {TESS_MEMBER_HEAD_ROTARY}, 64},                 \
    {"v_head_dim", {TESS_MEMBER_HEAD_VALUE}, 128},                       \
    {"n_routed_experts", {TESS_MEMBER_EXPERTS}, experts},                \
    {"num_experts_per_tok", {TESS_MEMBER_TOP_K}, top_k},                 \
    {"moe_intermediate_size", {TESS_MEMBER_EXPERT_SIZE}, size},          \
    {"n_shared_experts", {TESS_MEMBER_SHARED_EXPERTS}, shared},          \
    {"routed_scaling_factor", {TESS_MEMBER_ROUTER_SCALE}, scale},        \
    ATTENTION_BIAS
static const tess_config_key deepseek_v2_own[] = {
    LATENT_KEYS(TESS_KEY_REQUIRED, 64, 1407, 2, 1),
    {NULL, {TESS_MEMBER_INTERLEAVED}, true},
    {"n_group", {TESS_MEMBER_GROUPS}, 0},
    {"topk_group", {TESS_MEMBER_KEPT_GROUPS}, 0},
};
static const tess_config_key deepseek_v3_own[] = {
    {"num_key_value_heads", {TESS_MEMBER_KV_HEADS}, 128},
    {"max_position_embeddings", {TESS_MEMBER_POSITIONS}, 4096},
    LATENT_KEYS(8, 256, 2048, 1, 2.5),
    {"rope_interleave", {TESS_MEMBER_INTERLEAVED}, true},
    {"n_group", {TESS_MEMBER_GROUPS}, 8},
    {"topk_group", {TESS_MEMBER_KEPT_GROUPS}, 4},
    {"norm_topk_prob", {TESS_MEMBER_NORMALIZE}, true},
};
/* Dropout is written as 0: Tessera has none, and transformers' default is 0.1. */
static const tess_config_key gpt2_own[] = {
    {"vocab_size", {TESS_MEMBER_VOCAB}, 50257},
    {"n_embd", {TESS_MEMBER_HIDDEN}, 768},
    {"n_layer", {TESS_MEMBER_LAYERS}, 12},
    {"n_head", {TESS_MEMBER_HEADS}, 12},
    {"n_positions", {TESS_MEMBER_POSITIONS}, 1024},
    {"n_ctx", {TESS_MEMBER_POSITIONS}, TESS_KEY_WRITTEN},
    {"n_inner", {TESS_MEMBER_MLP}, 0},
    {"layer_norm_epsilon", {TESS_MEMBER_EPS}, 1e-5},
    {"activation_function", {TESS_MEMBER_ACTIVATION}, 0},
    {"attn_pdrop", {0}, 0},
    {"embd_pdrop", {0}, 0},
    {"resid_pdrop", {0}, 0},
    {NULL, {TESS_MEMBER_QKV_BIAS, TESS_MEMBER_O_BIAS, TESS_MEMBER_MLP_BIAS}, true},
};
/* clang-format on */

static const char *const deepseek_v2_no[] = {"norm_topk_prob", "mlp_bias", NULL}; /* transformers ignores the first */
static const char *const gemma_no[] = {"use_bidirectional_attention", NULL};
static const char *const gemma3_unset[] = {"attn_logit_softcapping", NULL}; /* transformers ignores it */
static const char *const gpt2_no[] = {"scale_attn_by_inverse_layer_idx", "add_cross_attention", NULL};
static const char *const gpt2_always[] = {"scale_attn_weights", NULL};

/* clang-format off */
/* Names that most families share. */
#define MODEL                                                                                                          \
    .table = "model.embed_tokens.weight", .prefix = "model", .layers = "layers", .norm = "norm", .token_head = "score"
#define QKV .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj"
#define QK_NORMS .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
#define PRE_NORMS .attention_norm = "input_layernorm", .feed_norm = "post_attention_layernorm"
#define END_NORMS .attention_end = "post_attention_layernorm", .feed_end = "post_feedforward_layernorm"
#define OUT .o = "self_attn.o_proj"
#define FOUR_NORMS                                                                                                     \
    .attention_norm = "input_layernorm", .attention_end = "post_attention_layernorm",                                  \
    .feed_norm = "pre_feedforward_layernorm", .feed_end = "post_feedforward_layernorm"
#define FUSED_GATED .gate_up = "mlp.gate_up_proj", .down = "mlp.down_proj"
#define GATED .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"

static const tess_family_shape llama_shape = {MODEL, PRE_NORMS, QKV, QK_NORMS, OUT, GATED};
static const tess_family_shape gpt_oss_shape = {
    MODEL, PRE_NORMS, QKV, .sinks = "self_attn.sinks", OUT, GATED};
static const tess_family_shape phi3_shape = {
    MODEL, PRE_NORMS, .qkv = "self_attn.qkv_proj", OUT, FUSED_GATED};
static const tess_family_shape olmo2_shape = {
    MODEL, QKV, QK_NORMS, .wide_norms = true, OUT, END_NORMS, GATED};
static const tess_family_shape exaone4_shape = {MODEL, QKV, QK_NORMS, OUT, END_NORMS, GATED};
static const tess_family_shape gemma_shape = {
    MODEL, PRE_NORMS, .one_plus = true, .scales_embedding = true, QKV, OUT, GATED};
static const tess_family_shape gemma3_shape = {
    MODEL, FOUR_NORMS, .one_plus = true, .scales_embedding = true, QKV, QK_NORMS, OUT, GATED};
static const tess_family_shape glm_shape = {
    MODEL, PRE_NORMS, .interleaved = true, QKV, OUT, FUSED_GATED};
static const tess_family_shape glm4_shape = {
    MODEL, PRE_NORMS, .attention_end = "post_self_attn_layernorm", .feed_end = "post_mlp_layernorm",
    .interleaved = true, QKV, OUT, FUSED_GATED};
static const tess_family_shape cohere2_shape = {
    MODEL, PRE_NORMS, .layer_norm = true, .bare_norms = true, .interleaved = true, QKV, OUT, GATED};
static const tess_family_shape olmoe_shape = {
    MODEL, PRE_NORMS, QKV, QK_NORMS, .wide_norms = true, OUT, GATED};
static const tess_family_latent latents = {
    .q_a = "self_attn.q_a_proj", .q_norm = "self_attn.q_a_layernorm", .q_b = "self_attn.q_b_proj",
    .kv_a = "self_attn.kv_a_proj_with_mqa", .norm = "self_attn.kv_a_layernorm", .kv_b = "self_attn.kv_b_proj"};
static const tess_family_shape deepseek_shape = {
    MODEL, PRE_NORMS, .q = "self_attn.q_proj", .latent = &latents, OUT, GATED};
static const tess_family_shape stablelm_shape = {
    MODEL, PRE_NORMS, .layer_norm = true, QKV, .q_norm = "self_attn.q_layernorm.norms",
    .k_norm = "self_attn.k_layernorm.norms", .head_norms = true, OUT, GATED};
static const tess_family_shape gpt_neox_shape = {
    .table = "gpt_neox.embed_in.weight", .prefix = "gpt_neox", .layers = "layers", .norm = "final_layer_norm",
    .token_head = "classifier", .head = "embed_out", PRE_NORMS, .layer_norm = true, .own_feed_norm = true,
    .qkv = "attention.query_key_value", .per_head = true, .o = "attention.dense", .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h"};
static const tess_family_shape starcoder2_shape = {
    MODEL, PRE_NORMS, .layer_norm = true, QKV, OUT, .up = "mlp.c_fc", .down = "mlp.c_proj"};
/* clang-format on */
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
};

/* clang-format off */
#define GATED_EXPERTS .name = "mlp", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"
static const tess_family_mixture olmoe_mixture = {GATED_EXPERTS};
static const tess_family_mixture deepseek_v2_mixture = {
    GATED_EXPERTS, .shared = "shared_experts", .dense_first = true, .grouped = true};
static const tess_family_mixture deepseek_v3_mixture = {
    GATED_EXPERTS, .shared = "shared_experts", .dense_first = true, .grouped = true,
    .bias = "gate.e_score_correction_bias", .sigmoid = true};
static const tess_family_mixture mixtral = {.name = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"};
static const tess_family_mixture qwen_mixture = {GATED_EXPERTS, .selects_layers = true};
static const tess_family_mixture qwen2_mixture = {
    GATED_EXPERTS, .selects_layers = true, .shared = "shared_expert", .shared_gate = "shared_expert_gate"};
static const tess_family_mixture gpt_oss_mixture = {
    .name = "mlp", .router = "router", .gate_up = "gate_up_proj", .down = "down_proj"};
/* clang-format on */

static const char ministral3_rope[] =
    "{\"rope_type\":\"yarn\",\"rope_theta\":1e6,\"factor\":16,\"original_max_position_embeddings\":16384,\"mscale\":1,"
    "\"mscale_all_dim\":1,\"llama_4_scaling_beta\":0.1}";

static const char gpt_oss_rope[] =
    "{\"rope_type\":\"yarn\",\"rope_theta\":150000,\"factor\":32,\"beta_fast\":32,\"beta_slow\":1,\"truncate\":false,"
    "\"original_max_position_embeddings\":4096}";

static const tess_family_row families[] = {
    {TESS_FAMILY_LLAMA, "llama", "Llama", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(llama_own),
     .activation = "silu", .bos = 1, .eos = 2, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_MISTRAL, "mistral", "Mistral", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(mistral_own),
     .activation = "silu", .bos = 1, .eos = 2, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_QWEN2, "qwen2", "Qwen2", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(qwen2_own),
     .activation = "silu", .windows = TESS_WINDOWS_SWITCHED, .bos = -1, .eos = -1, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_QWEN3, "qwen3", "Qwen3", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(qwen3_own),
     .activation = "silu", .windows = TESS_WINDOWS_SWITCHED, .bos = -1, .eos = -1, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_GPT2, "gpt2", "GPT2", "LMHeadModel", TESS_HEAD_TOKEN, KEYS(gpt2_own), .activation = "gelu_new",
     .bos = 50256, .eos = 50256, .pad = -1, .tied = true, .no = gpt2_no, .always = gpt2_always, .shape = &gpt2_shape},
    {TESS_FAMILY_MINISTRAL, "ministral", "Ministral", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(mistral_own),
     .activation = "silu", .windows = TESS_WINDOWS_BY_TYPE, .writes_types = true, .bos = 1, .eos = 2, .pad = -1,
     .shape = &llama_shape},
    {TESS_FAMILY_MIXTRAL, "mixtral", "Mixtral", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(mixtral_own),
     .activation = "silu", .theta = 1e6, .bos = 1, .eos = 2, .pad = -1, .shape = &llama_shape, .mixture = &mixtral},
    {TESS_FAMILY_QWEN3_MOE, "qwen3_moe", "Qwen3Moe", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(qwen3_moe_own),
     .activation = "silu", .windows = TESS_WINDOWS_SWITCHED_ALL, .bos = -1, .eos = -1, .pad = -1, .shape = &llama_shape,
     .mixture = &qwen_mixture},
    {TESS_FAMILY_SMOLLM3, "smollm3", "SmolLM3", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(smollm3_own),
     .activation = "silu", .windows = TESS_WINDOWS_NO_ROPE, .writes_types = true, .rotated = TESS_ROTATED_LISTED,
     .theta = 2e6, .bos = 128000, .eos = 128001, .pad = 128004, .tied = true, .shape = &llama_shape},
    {TESS_FAMILY_MINISTRAL3, "ministral3", "Ministral3", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS,
     KEYS(ministral3_own), .activation = "silu", .theta = 1e6, .assumed_rope = ministral3_rope, .scales_queries = true,
     .bos = 1, .eos = 2, .pad = 11, .shape = &llama_shape},
    {TESS_FAMILY_PHI3, "phi3", "Phi3", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(phi3_own), .activation = "silu",
     .partial = 1, .longrope = true, .bos = 1, .eos = 32000, .pad = 32000, .shape = &phi3_shape},
    {TESS_FAMILY_OLMO2, "olmo2", "Olmo2", "ForCausalLM", TESS_HEAD_SEQUENCE, LLAMA_KEYS, KEYS(olmo2_own),
     .activation = "silu", .bos = -1, .eos = 50279, .pad = 1, .shape = &olmo2_shape},
    {TESS_FAMILY_OLMO3, "olmo3", "Olmo3", "ForCausalLM", TESS_HEAD_SEQUENCE, LLAMA_KEYS, KEYS(olmo3_own),
     .activation = "silu", .windows = TESS_WINDOWS_BY_TYPE, .pattern = 4, .writes_types = true, .theta = 5e5,
     .local_theta = 5e5, .bos = -1, .eos = 50279, .pad = 1, .shape = &olmo2_shape},
    {TESS_FAMILY_STARCODER2, "starcoder2", "Starcoder2", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS,
     KEYS(starcoder2_own), .activation = "gelu_pytorch_tanh", .initializer_range = 0.018042, .bos = 50256, .eos = 50256,
     .pad = -1, .tied = true, .shape = &starcoder2_shape},
    {TESS_FAMILY_STABLELM, "stablelm", "StableLm", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(stablelm_own),
     .activation = "silu", .partial = 0.25, .bos = 0, .eos = 0, .pad = -1, .fixed_heads = true,
     .shape = &stablelm_shape},
    {TESS_FAMILY_GRANITE, "granite", "Granite", "ForCausalLM", TESS_HEAD_LOGITS, LLAMA_KEYS, KEYS(granite_own),
     .activation = "silu", .bos = 1, .eos = 2, .pad = -1, .shape = &llama_shape},
    {TESS_FAMILY_GEMMA, "gemma", "Gemma", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(gemma_own),
     .activation = "gelu_pytorch_tanh", .old_activation = "gelu", .bos = 2, .eos = 1, .pad = 0, .tied = true,
     .no = gemma_no, .shape = &gemma_shape},
    {TESS_FAMILY_GEMMA3,
     "gemma3_text",
     "Gemma3",
     "ForCausalLM",
     TESS_HEAD_SEQUENCE,
     LLAMA_KEYS,
     KEYS(gemma3_own),
     .activation = "gelu_pytorch_tanh",
     .class_name = "Gemma3Text",
     .windows = TESS_WINDOWS_BY_TYPE,
     .pattern = 6,
     .reads_pattern = true,
     .writes_types = true,
     .theta = 1e6,
     .local_theta = 1e4,
     .bos = 2,
     .eos = 1,
     .pad = 0,
     .tied = true,
     .no = gemma_no,
     .unset = gemma3_unset,
     .shape = &gemma3_shape},
    {TESS_FAMILY_GLM, "glm", "Glm", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(glm_own), .activation = "silu",
     .partial = 0.5, .bos = -1, .eos = 151329, .more_eos = {151336, 151338}, .pad = 151329, .shape = &glm_shape},
    {TESS_FAMILY_GLM4, "glm4", "Glm4", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(glm_own), .activation = "silu",
     .partial = 0.5, .bos = -1, .eos = 151329, .more_eos = {151336, 151338}, .pad = 151329, .shape = &glm4_shape},
    {TESS_FAMILY_EXAONE4, "exaone4", "Exaone4", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(exaone4_own),
     .activation = "silu", .windows = TESS_WINDOWS_BY_TYPE, .pattern = 4, .reads_pattern = true, .writes_types = true,
     .rotated = TESS_ROTATED_WINDOWED, .bos = 0, .eos = 2, .pad = -1, .shape = &exaone4_shape},
    {TESS_FAMILY_GEMMA2, "gemma2", "Gemma2", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(gemma2_own),
     .activation = "gelu_pytorch_tanh", .windows = TESS_WINDOWS_BY_TYPE, .pattern = 2, .writes_types = true, .bos = 2,
     .eos = 1, .pad = 0, .tied = true, .no = gemma_no, .shape = &gemma3_shape},
    {TESS_FAMILY_COHERE2, "cohere2", "Cohere2", "ForCausalLM", TESS_HEAD_LOGITS, LLAMA_KEYS, KEYS(cohere2_own),
     .activation = "silu", .windows = TESS_WINDOWS_BY_TYPE, .pattern = 4, .reads_pattern = true, .writes_types = true,
     .rotated = TESS_ROTATED_ONLY_WINDOWED, .bos = 5, .eos = 255001, .pad = 0, .tied = true, .shape = &cohere2_shape},
    {TESS_FAMILY_OLMOE, "olmoe", "Olmoe", "ForCausalLM", TESS_HEAD_LOGITS, LLAMA_KEYS, KEYS(olmoe_own),
     .activation = "silu", .bos = -1, .eos = 50279, .pad = 1, .fixed_heads = true, .shape = &olmoe_shape,
     .mixture = &olmoe_mixture},
    {TESS_FAMILY_QWEN2_MOE, "qwen2_moe", "Qwen2Moe", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(qwen2_moe_own),
     .activation = "silu", .windows = TESS_WINDOWS_SWITCHED_EVEN, .pattern = 2, .writes_types = true, .bos = -1,
     .eos = -1, .pad = -1, .shape = &llama_shape, .mixture = &qwen2_mixture},
    {TESS_FAMILY_GPT_OSS, "gpt_oss", "GptOss", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(gpt_oss_own),
     .activation = "silu", .windows = TESS_WINDOWS_BY_TYPE, .pattern = 2, .writes_types = true, .theta = 150000,
     .assumed_rope = gpt_oss_rope, .bos = -1, .eos = -1, .pad = -1, .shape = &gpt_oss_shape,
     .mixture = &gpt_oss_mixture},
    {TESS_FAMILY_DEEPSEEK_V2, "deepseek_v2", "DeepseekV2", "ForCausalLM", TESS_HEAD_SEQUENCE, LLAMA_KEYS,
     KEYS(deepseek_v2_own), .activation = "silu", .bos = 1, .eos = 2, .pad = -1, .no = deepseek_v2_no,
     .shape = &deepseek_shape, .mixture = &deepseek_v2_mixture},
    {TESS_FAMILY_DEEPSEEK_V3, "deepseek_v3", "DeepseekV3", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS,
     KEYS(deepseek_v3_own), .activation = "silu", .bos = 0, .eos = 1, .pad = -1, .shape = &deepseek_shape,
     .mixture = &deepseek_v3_mixture},
    {TESS_FAMILY_GPT_NEOX, "gpt_neox", "GPTNeoX", "ForCausalLM", TESS_HEAD_TOKEN, LLAMA_KEYS, KEYS(gpt_neox_own),
     .activation = "gelu", .partial = 0.25, .old_rope = true, .bos = 0, .eos = 2, .pad = -1, .fixed_heads = true,
     .shape = &gpt_neox_shape},
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
    const char *name = head != TESS_HEAD_LOGITS && row->class_name != NULL ? row->class_name : row->name;
    text[0] = '\0';
    if (head <= row->heads)
        snprintf(text, TESS_FAMILY_CLASS, "%s%s", name, ends[head]);
    return text;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

tess_status tess_family_head_of(const tess_family_row *row, const char *class, const char *what, tess_head_kind *head)
{
    const char *name = row->class_name != NULL ? row->class_name : row->name;
    char list[3 * TESS_FAMILY_CLASS], known[TESS_FAMILY_CLASS];
    size_t used = 0;
    for (int kind = TESS_HEAD_LOGITS; kind <= (int)row->heads; kind++) {
        *head = (tess_head_kind)kind;
        if (strcmp(class, tess_family_class(row, *head, known)) == 0)
            return TESS_OK;
        used = tess_text_add(list, sizeof(list), used, "%s%s", kind > 0 ? ", " : "", known);
    }
    *head = TESS_HEAD_LOGITS;
    snprintf(known, sizeof(known), "%sModel", name);
    TESS_CHECK(ends_with(class, "ForCausalLM") || strcmp(class, known) == 0, TESS_E_UNSUPPORTED,
               "%s: architectures is '%s'; supported for %s: %s", what, class, row->model_type, list);
    return TESS_OK;
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
