#include "bench/step/step_models.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"

static const struct {
    const char *name, *json;
} presets[] = {
    /* openai-community/gpt2 */
    {"gpt2-124m", "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 50257, "
                  "\"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12, \"n_positions\": 1024, "
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
    /* examples/kjv.json */
    {"llama-5m", "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 4096, "
                 "\"hidden_size\": 256, \"intermediate_size\": 704, \"num_hidden_layers\": 6, "
                 "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"head_dim\": 64, \"hidden_act\": \"silu\", "
                 "\"max_position_embeddings\": 1024, \"initializer_range\": 0.02, \"rms_norm_eps\": 1e-06, "
                 "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true}"},
};
enum { N_PRESETS = sizeof(presets) / sizeof(presets[0]) };

tess_status step_model_config(const char *name, tess_model_config *config, bool *folder)
{
    char path[1024], names[256];
    size_t used = 0;
    *folder = false;
    for (int i = 0; i < N_PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            json_t *json;
            TESS_TRY(tess_json_parse(presets[i].json, strlen(presets[i].json), name, true, &json));
            tess_status status = tess_model_config_parse(json, name, config);
            json_decref(json);
            return status;
        }
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", presets[i].name);
    }
    TESS_CHECK(tess_os_is_dir(name) || tess_os_is_file(name), TESS_E_NOT_FOUND,
               "--model %s: no such model, config.json or folder; models by name: %s", name, names);
    if (!tess_os_is_dir(name))
        return tess_model_config_load(name, config);
    *folder = true;
    TESS_TRY(tess_os_join(path, sizeof(path), name, "config.json"));
    return tess_model_config_load(path, config);
}
