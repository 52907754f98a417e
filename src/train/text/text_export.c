/* Writes the files of an exported model's folder that depend on the run's texts: tokenizer, chat template and
 * generation_config.json. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "infer/generation_config.h"
#include "train/text/run_text.h"

enum { CONFIG_LIMIT = 1 << 20 };

/* Copies a file from one folder to another, if it exists. */
static tess_status copy_file(const char *from_folder, const char *from_name, const char *folder, const char *name,
                             bool *found)
{
    char from[1024], to[1024];
    TESS_TRY(tess_os_join(from, sizeof(from), from_folder, from_name));
    TESS_TRY(tess_os_join(to, sizeof(to), folder, name));
    *found = tess_os_is_file(from);
    return *found ? tess_os_copy(from, to) : TESS_OK;
}

static tess_status write_tokenizer_config(const tess_run_text *x, const char *folder)
{
    json_t *json =
        json_pack("{s:s, s:b, s:I}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0,
                  "model_max_length", (json_int_t)tess_trainer_model(x->trainer)->max_position);
    TESS_CHECK(json != NULL, TESS_E_NOMEM, "tokenizer_config.json: no memory");
    json_t *eos = json_object_get(tess_tokenizer_named(x->tokenizer), "eos_token");
    if (eos != NULL)
        json_object_set(json, "eos_token", eos);
    return tess_json_write_in(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER, folder, "tokenizer_config.json");
}

/* Writes the tokenizer.json of a model whose folder has vocab.json and merges.txt instead. */
static tess_status write_composed(const tess_run_text *x, const char *folder)
{
    char path[1024];
    TESS_AUTO(tess_buffer_free) tess_buffer json = {.mem = x->mem};
    TESS_CHECK(tess_tokenizer_is_at(x->tokenizer_path), TESS_E_NOT_FOUND, "%s is gone", x->tokenizer_path);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "tokenizer.json"));
    TESS_TRY(tess_tokenizer_read(x->mem, x->tokenizer_path, &json));
    return tess_os_write_atomic(path, json.data, json.size);
}

/* Writes the template that the run names as its own file: transformers prefers it to the one in
 * tokenizer_config.json. */
static tess_status write_chat_template(const tess_run_text *x, const char *folder)
{
    char path[1024];
    size_t size;
    if (x->config->data.chat_template[0] == '\0')
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "chat_template.jinja"));
    const char *text = tess_chat_template_source(x->chat.chat, &size);
    return tess_os_write_atomic(path, text, size);
}

static tess_status write_tokenizer(const tess_run_text *x, const char *folder)
{
    char source[1024];
    const char *name = "tokenizer.json";
    bool found;
    snprintf(source, sizeof(source), "%s", x->tokenizer_path);
    if (!tess_os_is_dir(source)) { /* folder and name of a file */
        char *slash = strrchr(source, '/');
        name = slash != NULL ? x->tokenizer_path + (slash - source) + 1 : x->tokenizer_path;
        if (slash != NULL)
            *slash = '\0';
        else
            snprintf(source, sizeof(source), ".");
    }
    TESS_TRY(copy_file(source, name, folder, "tokenizer.json", &found));
    if (!found)
        TESS_TRY(write_composed(x, folder));
    static const char *const companions[] = {"special_tokens_map.json", "vocab.json", "merges.txt",
                                             "chat_template.jinja"};
    for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++)
        TESS_TRY(copy_file(source, companions[i], folder, companions[i], &found));
    TESS_TRY(write_chat_template(x, folder));
    TESS_TRY(copy_file(source, "tokenizer_config.json", folder, "tokenizer_config.json", &found));
    return found ? TESS_OK : write_tokenizer_config(x, folder);
}

/* Lists the tokens that end a text of the exported model: those of the copied generation_config.json or of
 * config.json, and the token with which the chat template ends an answer. Sets *grown if that token was added. */
static tess_status list_ends(const tess_run_text *x, const char *folder, tess_generation_config *file, bool *grown)
{
    const tess_model_config *model = tess_trainer_model(x->trainer);
    tess_encoder *encoder;
    int32_t end;
    TESS_TRY(tess_generation_config_load(folder, file));
    if (file->n_end == 0) {
        memcpy(file->end_tokens, model->eos_token_id, sizeof(file->end_tokens));
        file->n_end = model->n_eos;
    }
    TESS_TRY(tess_encoder_create(x->mem, x->tokenizer, &encoder));
    tess_status status = tess_conversation_end(&x->chat.how, encoder, x->mem, &end);
    tess_encoder_destroy(&encoder);
    *grown = end >= 0 && file->n_end < 8;
    for (int i = 0; i < file->n_end; i++)
        *grown = *grown && file->end_tokens[i] != end;
    if (*grown)
        file->end_tokens[file->n_end++] = end;
    return status;
}

/* A model trained on conversations must stop where the template ends an answer, in other programs as well. */
static tess_status write_generation_config(const tess_run_text *x, const char *folder, bool has_conversations)
{
    static const char name[] = "generation_config.json";
    const tess_model_config *model = tess_trainer_model(x->trainer);
    char path[1024];
    tess_generation_config file;
    bool found = false, grown;
    json_t *json = NULL, *ends = json_array();
    tess_status status = TESS_OK;
    if (x->config->model.path[0] != '\0')
        TESS_GOTO(copy_file(x->config->model.path, name, folder, name, &found), listed);
    if (!has_conversations)
        goto listed;
    TESS_GOTO(list_ends(x, folder, &file, &grown), listed);
    if (!grown)
        goto listed;
    for (int i = 0; i < file.n_end; i++)
        json_array_append_new(ends, json_integer(file.end_tokens[i]));
    TESS_GOTO(tess_os_join(path, sizeof(path), folder, name), listed);
    if (found)
        TESS_GOTO(tess_json_load(path, CONFIG_LIMIT, &json), listed);
    else /* transformers reads these from config.json only if this file is missing */
        json = json_pack("{s:o*, s:o*}", "bos_token_id",
                         model->bos_token_id >= 0 ? json_integer(model->bos_token_id) : NULL, "pad_token_id",
                         model->pad_token_id >= 0 ? json_integer(model->pad_token_id) : NULL);
    json_object_set(json, "eos_token_id", ends);
    status = tess_json_write_in(json_incref(json), JSON_INDENT(2) | JSON_PRESERVE_ORDER, folder, name);
listed:
    json_decref(ends);
    json_decref(json);
    return status;
}

tess_status tess_run_text_export(const tess_run_text *x, const char *folder, bool has_conversations)
{
    TESS_TRY(write_generation_config(x, folder, has_conversations));
    return write_tokenizer(x, folder);
}
