#include "engine/model/model_file.h"

#include <string.h>

#include "base/os/os.h"
#include "data/tokenizer/tokenizer.h"
#include "engine/model/adapter.h"
#include "engine/model/tied_head.h"

bool tess_is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash != NULL && slash > path && slash[1] != '\0' && strchr(slash + 1, '/') == NULL && path[0] != '.' &&
           path[0] != '~';
}

tess_status tess_model_folder_file(const char *folder, const char *name, char *path, size_t size)
{
    char other[1024];
    TESS_TRY(tess_os_join(path, size, folder, name));
    TESS_CHECK(tess_os_is_dir(folder) || !tess_is_hub_name(folder), TESS_E_NOT_FOUND,
               "%s: no such folder; if it is a model of the Hugging Face hub, download it: `hf download %s --local-dir "
               "%s`, then name that folder",
               folder, folder, strchr(folder, '/') + 1);
    if (strcmp(name, "tokenizer.json") == 0) {
        if (tess_tokenizer_is_at(path))
            return TESS_OK;
        TESS_TRY(tess_os_join(other, sizeof(other), folder, "tokenizer.model"));
        TESS_CHECK(!tess_os_is_file(other), TESS_E_NOT_FOUND,
                   "%s: no such file; of the folder's tokenizer.model transformers makes it: python3 -c \"from "
                   "transformers import AutoTokenizer as A; A.from_pretrained('%s').save_pretrained('%s')\"",
                   path, folder, folder);
    }
    TESS_CHECK(tess_os_is_file(path), TESS_E_NOT_FOUND,
               "%s: no such file: a model's folder holds its %s beside weights of any format; copy it there (a run "
               "leaves it in 'model', in its own folder)",
               path, name);
    return TESS_OK;
}

tess_status tess_config_model_file(const tess_config *config, char *path, size_t size)
{
    return config->model.path[0] != '\0' ? tess_model_folder_file(config->model.path, "config.json", path, size)
                                         : tess_os_join(path, size, "", config->model.config);
}

tess_status tess_config_read_model(const tess_config *config, tess_model_config *model)
{
    char path[1024];
    TESS_TRY(tess_config_model_file(config, path, sizeof(path)));
    TESS_TRY(tess_model_config_load(path, model));
    TESS_TRY(tess_model_config_set_max_length(model, config->model.max_length, "model.max_length"));
    TESS_TRY(tess_model_config_set_sum_leaves(model, config->model.sum_leaves, "model.sum_leaves"));
    TESS_TRY(tess_config_load_lora(config, &model->lora));
    model->value_head = config->model.value_head;
    int64_t longest = tess_model_config_max_length(model);
    TESS_CHECK(config->training.seq_len <= longest, TESS_E_INVALID,
               "training.seq_len: %lld is more than the %lld positions of %s (max_position_embeddings): shorten the "
               "rows or %s",
               (long long)config->training.seq_len, (long long)longest, path,
               model->rope.kind == TESS_ROPE_DYNAMIC || config->model.max_length > 0
                   ? "raise the limit, model.max_length"
                   : "change the model's rope scaling");
    return TESS_OK;
}

tess_status tess_config_check_leaves(const tess_config *c, const tess_model_config *model)
{
    const tess_parallelism_section *p = &c->parallelism;
    if (c->training.context_leaves == 1)
        return TESS_OK;
    TESS_CHECK(p->tensor_parallel_degree <= model->n_kv_heads || model->n_kv_heads == model->n_heads,
               TESS_E_UNSUPPORTED,
               "training.context_leaves: with %lld key heads, at most as many ranks share a layer: set "
               "parallelism.tensor_parallel_degree=%lld or less",
               (long long)model->n_kv_heads, (long long)model->n_kv_heads);
    return TESS_OK;
}

tess_status tess_config_load_model(const tess_config *config, const tess_reporter *reporter, tess_model_config *model)
{
    TESS_TRY(tess_config_read_model(config, model));
    tess_config_untie_head(config, reporter, model);
    return tess_config_check_leaves(config, model);
}
