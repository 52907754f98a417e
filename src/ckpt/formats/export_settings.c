/* The settings of AdamW as PyTorch's optimizer keeps them, for each parameter. */
#include <stdio.h>
#include <string.h>

#include "ckpt/formats/export_impl.h"

/* As torch.optim.AdamW has them: what we have no word for is what it does when it is not asked. */
static json_t *describe(const json_t *settings, bool decays)
{
    double beta1 = json_number_value(json_object_get(settings, "beta1"));
    double beta2 = json_number_value(json_object_get(settings, "beta2"));
    double decay = json_number_value(json_object_get(settings, "weight_decay"));
    return json_pack("{s:f, s:[f,f], s:f, s:f, s:b, s:b, s:n, s:b, s:b, s:n, s:b}", "lr",
                     json_number_value(json_object_get(settings, "lr")), "betas", beta1, beta2, "eps",
                     json_number_value(json_object_get(settings, "eps")), "weight_decay", decays ? decay : 0.0,
                     "amsgrad", 0, "maximize", 0, "foreach", "capturable", 0, "differentiable", 0, "fused",
                     "decoupled_weight_decay", 1);
}

static bool is_complete(const json_t *settings)
{
    static const char *const keys[] = {"lr", "beta1", "beta2", "eps", "weight_decay"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!json_is_number(json_object_get(settings, keys[i])))
            return false;
    return true;
}

void export_keep_settings(json_t *meta, const json_t *settings)
{
    char text[4096];
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)settings, key, value) {
        snprintf(text, sizeof(text), "optimizer.%s", key);
        if (strncmp(key, "param_groups.", strlen("param_groups.")) == 0)
            json_object_set(meta, text, value);
    }
}

tess_status export_add_settings(json_t *meta, const json_t *settings, const export_name *name, bool decays)
{
    char text[4096];
    const char *key;
    json_t *value;
    if (!is_complete(settings))
        return TESS_OK;
    json_t *group = describe(settings, decays);
    TESS_CHECK(group != NULL, TESS_E_NOMEM, "no memory for the optimizer's settings");
    json_object_foreach (group, key, value) {
        snprintf(text, sizeof(text), "optimizer.param_groups.%.*s.%s", (int)name->n, name->name, key);
        json_object_set(meta, text, value);
    }
    json_decref(group);
    return TESS_OK;
}
