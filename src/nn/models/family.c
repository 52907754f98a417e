#include "nn/models/family.h"

#include <stdio.h>
#include <string.h>

static const tess_family_row families[] = {
    {TESS_FAMILY_LLAMA, "llama", "LlamaForCausalLM", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_MISTRAL, "mistral", "MistralForCausalLM", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_QWEN2, "qwen2", "Qwen2ForCausalLM", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_QWEN3, "qwen3", "Qwen3ForCausalLM", tess_llama_parse, tess_llama_write, tess_llama_build},
    {TESS_FAMILY_GPT2, "gpt2", "GPT2LMHeadModel", tess_gpt2_parse, tess_gpt2_write, tess_gpt2_build},
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

const char *tess_family_list(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < N_FAMILIES && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", families[i].model_type);
    return text;
}

tess_norm tess_family_add_norm(tess_model *model, int unit, const char *prefix, const char *name, int64_t n)
{
    tess_norm norm = {.bias = -1};
    norm.weight = tess_model_add_param(model, unit, TESS_INIT_ONE, 0, n, 0, "%s.%s.weight", prefix, name);
    if (model->block.layer_norm)
        norm.bias = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, n, 0, "%s.%s.bias", prefix, name);
    return norm;
}

void tess_family_add_head(tess_model *model)
{
    const tess_model_config *c = &model->config;
    tess_linear *head = &model->block.head;
    *head = (tess_linear){
        .weight = model->block.table, .bias = -1, .n_in = c->hidden_size, .n_out = c->vocab_size, .ld = c->hidden_size};
    if (!c->tied)
        head->weight = tess_model_add_param(model, model->n_units - 1, TESS_INIT_NORMAL, c->initializer_range,
                                            c->vocab_size, c->hidden_size, "lm_head.weight");
}
