#include "nn/models/family.h"

#include <stdio.h>
#include <string.h>

static const tess_family_row families[] = {
    {TESS_FAMILY_LLAMA, "llama", "LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaForTokenClassification",
     "score", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_MISTRAL, "mistral", "MistralForCausalLM", "MistralForSequenceClassification",
     "MistralForTokenClassification", "score", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_QWEN2, "qwen2", "Qwen2ForCausalLM", "Qwen2ForSequenceClassification", "Qwen2ForTokenClassification",
     "score", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_QWEN3, "qwen3", "Qwen3ForCausalLM", "Qwen3ForSequenceClassification", "Qwen3ForTokenClassification",
     "score", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_GPT2, "gpt2", "GPT2LMHeadModel", "GPT2ForSequenceClassification", "GPT2ForTokenClassification",
     "classifier", tess_gpt2_parse, tess_gpt2_write, tess_gpt2_build},
    {TESS_FAMILY_MINISTRAL, "ministral", "MinistralForCausalLM", "MinistralForSequenceClassification",
     "MinistralForTokenClassification", "score", tess_llama_parse, tess_llama_write, tess_llama_build},
};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

const tess_family_row *tess_family_find(tess_family family)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (families[i].family == family)
            return &families[i];
    return NULL;
}

const tess_family_row *tess_family_find_type(const char *model_type)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

const char *tess_family_architecture(const tess_model_config *config)
{
    const tess_family_row *row = tess_family_find(config->family);
    if (config->n_outputs == 0)
        return row->architecture;
    return config->output_bias ? row->token_classifier : row->classifier;
}

const char *tess_family_list(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < N_FAMILIES && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", families[i].model_type);
    return text;
}
