#include "rl/rl_first_weights.h"

#include <stdio.h>

#include "base/os/os.h"
#include "engine/model/tied_head.h"

static tess_status find_path(const tess_config *c, const char *path, const char *model, rl_first_weights *first)
{
    bool adapts = c->lora.rank > 0 || c->lora.path[0] != '\0'; /* a checkpoint then contains only the adapter */
    bool from_checkpoint = path[0] == '\0' && c->checkpoint.initial_load_path[0] != '\0' && !adapts;
    TESS_CHECK(
        !from_checkpoint || c->checkpoint.exclude_from_loading.n == 0, TESS_E_UNSUPPORTED,
        "%s: the run begins with a part of %s alone (checkpoint.exclude_from_loading), which is in no file: name "
        "the %s's weights in %s.path",
        model, c->checkpoint.initial_load_path, model, model);
    if (path[0] == '\0')
        path = from_checkpoint ? c->checkpoint.initial_load_path : c->model.path;
    snprintf(first->path, sizeof(first->path), "%s", path);
    return TESS_OK;
}

tess_status rl_first_weights_find(const tess_config *c, const tess_model_config *of_policy, const char *path,
                                  const char *model, rl_first_weights *first)
{
    char file[TESS_TEXT_SIZE + 16];
    *first = (rl_first_weights){.config = *of_policy};
    first->config.lora = (tess_lora){.rank = 0};
    TESS_TRY(find_path(c, path, model, first));
    TESS_TRY(tess_os_join(file, sizeof(file), first->path, "config.json"));
    first->has_config = first->path[0] != '\0' && tess_os_is_file(file);
    if (!first->has_config)
        return TESS_OK;
    TESS_TRY(tess_model_config_load(file, &first->config));
    tess_untie_head(first->path, NULL, &first->config);
    TESS_TRY(tess_model_config_set_max_length(&first->config, c->model.max_length, "model.max_length"));
    TESS_TRY(tess_model_config_set_sum_leaves(&first->config, of_policy->sum_leaves, "model.sum_leaves"));
    first->config.value_head = of_policy->value_head;
    TESS_CHECK(first->config.vocab_size == of_policy->vocab_size, TESS_E_INVALID,
               "%s: the %s has %lld tokens, the policy %lld: both must have the same tokenizer", file, model,
               (long long)first->config.vocab_size, (long long)of_policy->vocab_size);
    return TESS_OK;
}
