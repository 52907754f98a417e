#include "train/text/run_text.h"

#include <string.h>

#include "base/core/rng.h"
#include "train/text/text_impl.h"

static tess_status open_files(tess_run_text *x, const tess_text_list *list, const char *what, bool is_read,
                              tess_data_files *files)
{
    TESS_TRY_CTX(tess_data_files_open(x->mem, list, files), "%s", what);
    return is_read ? tess_trainer_check_files(x->trainer, (const char *const *)files->paths, files->n, what) : TESS_OK;
}

tess_status tess_run_text_create(tess_trainer *trainer, tess_run_text *x)
{
    const tess_config *c = tess_trainer_config(trainer);
    *x = (tess_run_text){.trainer = trainer,
                         .config = c,
                         .mem = tess_runtime_mem(tess_trainer_runtime(trainer)),
                         .team = tess_trainer_team(trainer)};
    x->trained_tokenizer.mem = x->mem;
    TESS_TRY(open_files(x, &c->data.files, "data.files", true, &x->files));
    TESS_TRY(open_files(x, &c->validation.files, "validation.files", c->validation.enable, &x->held_files));
    return text_list_files(&x->files, &x->listed);
}

void tess_run_text_close(tess_run_text *x)
{
    tess_data_files_close(&x->files);
    tess_data_files_close(&x->held_files);
    json_decref(x->listed);
    tess_chat_setup_close(&x->chat);
    tess_tokenizer_destroy(&x->tokenizer);
    tess_buffer_free(&x->trained_tokenizer);
}

/* Hashes the contents of all files, but not their names. */
static uint64_t hash_files(const tess_run_text *x)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < json_array_size(x->listed); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(x->listed, i), "hash"));
        hash = text != NULL ? tess_hash_bytes(text, strlen(text), hash) : hash;
    }
    return hash;
}

tess_status tess_run_text_identify(const tess_run_text *x, uint64_t *hash)
{
    const tess_config *c = x->config;
    int64_t weights[TESS_LIST_SIZE] = {0};
    TESS_TRY(tess_data_weights(&c->data, weights));
    const int64_t words[] = {c->data.shuffle,
                             c->data.add_bos,
                             (int64_t)tess_hash_text(c->data.text_key),
                             (int64_t)tess_hash_text(c->data.prompt_key),
                             (int64_t)tess_hash_text(c->data.completion_key),
                             c->data.split,
                             c->data.format,
                             c->data.end_token,
                             (int64_t)tess_hash_bytes(weights, sizeof(weights), 0),
                             (int64_t)tess_hash_text(c->data.chat_template),
                             (int64_t)hash_files(x)};
    const double share = text_trained_share(c);
    *hash = tess_hash_bytes(&share, sizeof(share), tess_hash_bytes(words, sizeof(words), 0));
    return TESS_OK;
}

tess_status tess_run_text_open(tess_run_text *x, tess_model_config *model)
{
    TESS_TRY(text_open_tokenizer(x, model));
    return tess_chat_setup_open(x->mem, x->config->data.chat_template, x->config->model.path, x->tokenizer, &x->chat);
}
