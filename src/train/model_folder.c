#include "train/model_folder.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "train/adapter.h"
#include "train/tied_head.h"

/* "org/name", as the hub's models are called. */
static bool is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash != NULL && slash > path && slash[1] != '\0' && strchr(slash + 1, '/') == NULL && path[0] != '.' &&
           path[0] != '~';
}

tess_status tess_model_folder_file(const char *folder, const char *name, char *path, size_t size)
{
    char other[1024];
    TESS_TRY(tess_os_join(path, size, folder, name));
    TESS_CHECK(tess_os_is_dir(folder) || !is_hub_name(folder), TESS_E_NOT_FOUND,
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

tess_status tess_config_load_model(const tess_config *config, const tess_reporter *reporter, tess_model_config *model)
{
    TESS_TRY(tess_config_read_model(config, model));
    tess_config_untie_head(config, reporter, model);
    return TESS_OK;
}

int32_t tess_model_end_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer)
{
    const char *eos = json_string_value(json_object_get(tess_tokenizer_named(tokenizer), "eos_token"));
    int64_t id = eos != NULL ? tess_tokenizer_id(tokenizer, eos) : -1;
    if (id < 0 && config->n_eos > 0 &&
        (config->eos_stated || tess_tokenizer_is_special(tokenizer, config->eos_token_id[0])))
        id = config->eos_token_id[0];
    return id >= 0 && id < tess_tokenizer_vocab_size(tokenizer) ? (int32_t)id : -1;
}

tess_status tess_model_begin_of_text(const tess_model_config *config, const tess_tokenizer *tokenizer, tess_add_bos add,
                                     tess_prefix *bos)
{
    int64_t id = config->bos_token_id;
    *bos = add != TESS_ADD_BOS_FALSE ? tess_tokenizer_prefix(tokenizer) : (tess_prefix){0};
    if (add != TESS_ADD_BOS_TRUE || bos->n > 0)
        return TESS_OK;
    TESS_CHECK(
        tess_tokenizer_is_special(tokenizer, id), TESS_E_INVALID,
        "there is no bos token: the tokenizer's template (post_processor of tokenizer.json) puts nothing before a "
        "text, and the bos_token_id of config.json is none of its special tokens; leave it to auto, or name one "
        "there");
    *bos = (tess_prefix){{(int32_t)id}, 1};
    return TESS_OK;
}

tess_status tess_model_folder_open(tess_mem *mem, const char *folder, const tess_model_folder_options *o,
                                   const tess_reporter *reporter, tess_model_folder *m)
{
    char path[1024];
    const void *const *w;
    *m = (tess_model_folder){.mem = mem};
    tess_status status;
    TESS_CHECK(tess_os_is_dir(folder) || is_hub_name(folder), TESS_E_NOT_FOUND,
               "%s: no such folder; expected a model's, with config.json, tokenizer.json and weights", folder);
    snprintf(m->folder, sizeof(m->folder), "%s", folder);
    TESS_GOTO(tess_model_folder_file(folder, "config.json", path, sizeof(path)), opened);
    TESS_GOTO(tess_model_config_load(path, &m->config), opened);
    tess_untie_head(folder, reporter, &m->config);
    TESS_GOTO(tess_model_config_set_max_length(&m->config, o->max_length, "--max-length"), opened);
    if (o->adapter != NULL)
        TESS_GOTO(tess_lora_load(o->adapter, &m->config.lora), opened);
    TESS_GOTO(tess_model_create(mem, &m->config, &m->model), opened);
    TESS_GOTO(tess_model_folder_file(folder, "tokenizer.json", path, sizeof(path)), opened);
    TESS_GOTO(tess_tokenizer_load(mem, path, &m->tokenizer), opened);
    TESS_GOTO(tess_stream_create(mem, o->n_threads > 0 ? o->n_threads : tess_os_cores(), NULL, &m->stream), opened);
    TESS_GOTO(tess_compute_open(o->device, 0, m->stream, &m->compute), opened);
    TESS_GOTO(tess_weights_open(mem, folder, m->model, reporter, &m->weights), opened);
    if (o->adapter != NULL)
        TESS_GOTO(tess_weights_add_adapter(m->weights, o->adapter), opened);
    m->dtype = o->dtype != TESS_DTYPE_COUNT ? o->dtype : tess_weights_dtype(m->weights);
    TESS_GOTO(tess_weights_whole(m->weights, m->stream, m->dtype, &w), opened);
    TESS_GOTO(tess_static_hooks(mem, m->model, w, NULL, &m->hooks), opened);
    const tess_staging_options staging = {.dtype = m->dtype, .constant = true};
    TESS_GOTO(tess_compute_hooks(&m->compute, m->model, &m->hooks, &staging), opened);
    return TESS_OK;
opened:
    tess_model_folder_close(m);
    return status;
}

void tess_model_folder_close(tess_model_folder *m)
{
    tess_compute_close(&m->compute);
    if (m->hooks.self != NULL)
        tess_static_hooks_free(m->mem, &m->hooks);
    tess_weights_close(&m->weights);
    tess_stream_destroy(&m->stream);
    tess_tokenizer_destroy(&m->tokenizer);
    tess_model_destroy(&m->model);
}
