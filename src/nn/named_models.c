/* Architectures that have a name, so that a model with random weights needs no file. */
#include "nn/named_models.h"

#include <string.h>

#include "base/text/text.h"

static const struct {
    const char *name, *json;
} models[] = {
    /* deepseek-ai/DeepSeek-V3, without the layer that predicts a second token */
    {"deepseek-v3",
     "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\", \"vocab_size\": 129280, "
     "\"hidden_size\": 7168, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
     "\"num_hidden_layers\": 61, \"num_attention_heads\": 128, \"num_key_value_heads\": 128, "
     "\"n_shared_experts\": 1, \"n_routed_experts\": 256, \"num_experts_per_tok\": 8, "
     "\"first_k_dense_replace\": 3, \"moe_layer_freq\": 1, \"n_group\": 8, \"topk_group\": 4, "
     "\"topk_method\": \"noaux_tc\", \"scoring_func\": \"sigmoid\", \"norm_topk_prob\": true, "
     "\"routed_scaling_factor\": 2.5, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, "
     "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"attention_bias\": false, \"hidden_act\": \"silu\", "
     "\"max_position_embeddings\": 163840, \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, "
     "\"rope_theta\": 10000.0, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"beta_fast\": 32, "
     "\"beta_slow\": 1, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 4096}, "
     "\"tie_word_embeddings\": false}"},
    /* openai-community/gpt2 */
    {"gpt2-124m", "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 50257, "
                  "\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"n_positions\": 1024, "
                  "\"layer_norm_epsilon\": 1e-05, \"initializer_range\": 0.02}"},
    /* openai-community/gpt2-medium */
    {"gpt2-350m", "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 50257, "
                  "\"n_embd\": 1024, \"n_layer\": 24, \"n_head\": 16, \"n_positions\": 1024, "
                  "\"layer_norm_epsilon\": 1e-05, \"initializer_range\": 0.02}"},
    /* openai-community/gpt2-large */
    {"gpt2-774m", "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 50257, "
                  "\"n_embd\": 1280, \"n_layer\": 36, \"n_head\": 20, \"n_positions\": 1024, "
                  "\"layer_norm_epsilon\": 1e-05, \"initializer_range\": 0.02}"},
    /* openai-community/gpt2-xl */
    {"gpt2-1.5b", "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 50257, "
                  "\"n_embd\": 1600, \"n_layer\": 48, \"n_head\": 25, \"n_positions\": 1024, "
                  "\"layer_norm_epsilon\": 1e-05, \"initializer_range\": 0.02}"},
    /* meta-llama/Llama-3.2-1B */
    {"llama-1b",
     "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 128256, "
     "\"hidden_size\": 2048, \"intermediate_size\": 8192, \"num_hidden_layers\": 16, \"num_attention_heads\": 32, "
     "\"num_key_value_heads\": 8, \"head_dim\": 64, \"hidden_act\": \"silu\", \"max_position_embeddings\": 131072, "
     "\"initializer_range\": 0.02, \"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0, \"rope_scaling\": "
     "{\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
     "\"original_max_position_embeddings\": 8192}, \"tie_word_embeddings\": true}"},
    /* meta-llama/Llama-3.1-405B */
    {"llama-405b",
     "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 128256, "
     "\"hidden_size\": 16384, \"intermediate_size\": 53248, \"num_hidden_layers\": 126, "
     "\"num_attention_heads\": 128, \"num_key_value_heads\": 8, \"head_dim\": 128, \"hidden_act\": \"silu\", "
     "\"max_position_embeddings\": 131072, \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-05, "
     "\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
     "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}, "
     "\"tie_word_embeddings\": false}"},
    /* examples/kjv.json */
    {"llama-5m", "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 4096, "
                 "\"hidden_size\": 256, \"intermediate_size\": 704, \"num_hidden_layers\": 6, "
                 "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"head_dim\": 64, \"hidden_act\": \"silu\", "
                 "\"max_position_embeddings\": 1024, \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, "
                 "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true}"},
    /* meta-llama/Llama-3.1-70B */
    {"llama-70b",
     "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 128256, "
     "\"hidden_size\": 8192, \"intermediate_size\": 28672, \"num_hidden_layers\": 80, "
     "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"head_dim\": 128, \"hidden_act\": \"silu\", "
     "\"max_position_embeddings\": 131072, \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-05, "
     "\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
     "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}, "
     "\"tie_word_embeddings\": false}"},
    /* meta-llama/Llama-3.1-8B */
    {"llama-8b",
     "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 128256, "
     "\"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
     "\"num_key_value_heads\": 8, \"head_dim\": 128, \"hidden_act\": \"silu\", \"max_position_embeddings\": 131072, "
     "\"initializer_range\": 0.02, \"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0, \"rope_scaling\": "
     "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
     "\"original_max_position_embeddings\": 8192}, \"tie_word_embeddings\": false}"},
    /* Qwen/Qwen2.5-0.5B */
    {"qwen2-0.5b",
     "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", \"vocab_size\": 151936, "
     "\"hidden_size\": 896, \"intermediate_size\": 4864, \"num_hidden_layers\": 24, \"num_attention_heads\": 14, "
     "\"num_key_value_heads\": 2, \"hidden_act\": \"silu\", \"max_position_embeddings\": 32768, "
     "\"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, "
     "\"tie_word_embeddings\": true}"},
    /* Qwen/Qwen3-0.6B */
    {"qwen3-0.6b",
     "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"vocab_size\": 151936, "
     "\"hidden_size\": 1024, \"intermediate_size\": 3072, \"num_hidden_layers\": 28, \"num_attention_heads\": 16, "
     "\"num_key_value_heads\": 8, \"head_dim\": 128, \"hidden_act\": \"silu\", \"max_position_embeddings\": 40960, "
     "\"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, "
     "\"tie_word_embeddings\": true}"},
};
enum { N_MODELS = sizeof(models) / sizeof(models[0]) };

const char *tess_named_model(const char *name)
{
    for (int i = 0; i < N_MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return models[i].json;
    return NULL;
}

const char *tess_named_models_list(char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < N_MODELS; i++)
        at = tess_text_add(text, size, at, "%s%s", i > 0 ? ", " : "", models[i].name);
    return text;
}
