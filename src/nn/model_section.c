#include "nn/model_section.h"

#include "base/core/option_rows.h"
#include "nn/model.h"

SECTION(model, "the model to train", TESS_MODEL_OPTIONS);

SECTION(lora, "adapters", TESS_LORA_OPTIONS);

SECTION(activation_checkpoint, "memory for time", TESS_ACTIVATION_CHECKPOINT_OPTIONS);

tess_status tess_model_section_check(const tess_model_section *model)
{
    TESS_CHECK(model->config[0] != '\0' || model->path[0] != '\0', TESS_E_INVALID,
               "model: set model.config (a config.json, random weights) or model.path (a folder with config.json and "
               "weights)");
    TESS_CHECK(model->config[0] == '\0' || model->path[0] == '\0', TESS_E_INVALID,
               "model: both model.config and model.path are set; keep one");
    return TESS_OK;
}

const char *const tess_group_names[TESS_N_GROUPS] = {"feed_forward", "attention_inputs", "residual", "attention"};

tess_status tess_activation_groups(const tess_activation_checkpoint_section *activations, unsigned *groups)
{
    const tess_text_list *list = &activations->recompute;
    *groups = list->n == 0 ? TESS_GROUP_ALL : 0;
    for (int i = 0; i < list->n; i++) {
        int chosen;
        TESS_TRY_CTX(
            tess_options_choose("group of activations", list->item[i], tess_group_names, TESS_N_GROUPS, &chosen),
            "activation_checkpoint.recompute");
        *groups |= 1u << chosen;
    }
    return TESS_OK;
}

tess_status tess_activation_checkpoint_check(const tess_activation_checkpoint_section *activations, bool shares_layers)
{
    unsigned groups;
    int mode = activations->mode;
    bool selects = activations->recompute.n > 0 || activations->budget > 0;
    TESS_TRY(tess_activation_groups(activations, &groups));
    TESS_CHECK(mode != TESS_RECOMPUTE_SELECTIVE || selects, TESS_E_INVALID,
               "activation_checkpoint.mode=selective: name what is computed again in activation_checkpoint.recompute "
               "(feed_forward, attention_inputs, residual, attention), or set activation_checkpoint.budget");
    TESS_CHECK(mode == TESS_RECOMPUTE_SELECTIVE || !selects, TESS_E_INVALID,
               "activation_checkpoint.%s needs activation_checkpoint.mode=selective",
               activations->budget > 0 ? "budget" : "recompute");
    TESS_CHECK(!activations->partition || shares_layers, TESS_E_INVALID,
               "activation_checkpoint.partition: there are no ranks that share layers; set "
               "parallelism.tensor_parallel_degree, or leave it out");
    TESS_CHECK(!activations->partition || mode != TESS_RECOMPUTE_NONE, TESS_E_INVALID,
               "activation_checkpoint.partition is for layers that run again: set activation_checkpoint.mode");
    return TESS_OK;
}
