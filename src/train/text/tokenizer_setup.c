/* Finds a run's tokenizer, or trains it: from a file, the model's folder, or the training text. */
#include "engine/model/model_file.h"
#include "train/text/text_ends.h"
#include "train/text/text_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "comm/agree.h"
#include "data/corpus/training_text.h"
#include "data/files/text_kind.h"
#include "data/shards/token_shard.h"
#include "data/tokenizer/special_tokens.h"
#include "tessera/comm.h"

/* Limit of the bytes of text that are used for training. More text hardly changes the merges of a byte-level BPE,
 * and its counts must fit in memory. */
enum { BPE_TEXT_LIMIT = 64 << 20 };

static const char *const end_of_text = "<|endoftext|>";

/* Reads the part of the text that is used for training, without the held-out part. */
static tess_status collect_text(const tess_run_text *x, tess_buffer *text)
{
    const tess_config *config = x->config;
    const tess_document_keys keys = {config->data.text_key, config->data.prompt_key, config->data.completion_key};
    double share = text_trained_share(config);
    tess_cut_record cut = {0};
    const char *cut_path = NULL;
    for (size_t i = 0; i < x->files.n && text->size < BPE_TEXT_LIMIT; i++) {
        const char *path = x->files.paths[i];
        tess_mapping file;
        bool is_shard;
        TESS_TRY_CTX(tess_token_shard_is_at(path, (tess_data_format)config->data.format, &is_shard), "data.files");
        TESS_CHECK(
            !is_shard, TESS_E_INVALID,
            "data.files: %s holds token ids, and no text to train a tokenizer on: name the tokenizer that it was "
            "written with by tokenizer.path",
            path);
        TESS_TRY_CTX(tess_os_map(path, &file), "data.files");
        TESS_CHECK(file.size > 0, TESS_E_INVALID, "data.files: %s is empty", path);
        size_t size = (size_t)((double)file.size * share);
        if (size > BPE_TEXT_LIMIT - text->size)
            size = BPE_TEXT_LIMIT - text->size;
        tess_text_kind kind;
        tess_status status = tess_text_kind_at(path, config->data.format == TESS_DATA_TEXT, &kind);
        if (status == TESS_OK && size > 0)
            status = tess_training_text_add(path, &file, kind, size, &keys, text, &cut);
        tess_os_unmap(&file);
        TESS_TRY_CTX(status, "data.files");
        if (cut_path == NULL && cut.line > 0)
            cut_path = path;
    }
    TESS_CHECK(
        text->size >= 2 || cut_path == NULL, TESS_E_INVALID,
        "data.files: %s: line %zu has %zu bytes and goes beyond the %g%% of the file that is trained on: without "
        "another line there is no text to train a tokenizer on; write the document as several, or set "
        "validation.files or validation.enable=false",
        cut_path, cut.line, cut.size, 100 * share);
    TESS_CHECK(text->size >= 2, TESS_E_INVALID,
               "data.files: %s%s: %zu bytes of text are too few to train a tokenizer on: is every document empty?",
               x->files.paths[0], x->files.n > 1 ? " and the others" : "", text->size);
    return TESS_OK;
}

static tess_status train_bpe(tess_run_text *x)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = x->mem};
    int64_t vocab = x->config->tokenizer.vocab_size > 0 ? x->config->tokenizer.vocab_size
                                                        : tess_trainer_model(x->trainer)->vocab_size;
    double begin = tess_os_now_s();
    TESS_TRY(collect_text(x, &text));
    TESS_TRY(tess_bpe_train(x->mem, text.data, text.size, vocab, &end_of_text, 1, &x->trained_tokenizer));
    char size[32];
    tess_trainer_note(x->trainer, "tokenizer: byte-level BPE of at most %lld trained on %s of text in %.1f s",
                      (long long)vocab, tess_format_bytes((double)text.size, size, sizeof(size)),
                      tess_os_now_s() - begin);
    return TESS_OK;
}

/* The tokenizer that rank 0 has read or trained. */
typedef struct tokenizer_source {
    tess_buffer json; /* contents of a tokenizer.json */
    json_t *named;    /* special tokens, see special_tokens.h */
    bool has_config;  /* the exported model's folder gets a copy of tokenizer_config.json from there */
} tokenizer_source;

/* Finds the tokenizer that belongs to the weights in checkpoint.initial_load_path: in that folder (as Hugging Face
 * stores it) or in its parent (as a run stores it). The weights would be useless with another tokenizer. */
static tess_status read_initial(tess_run_text *x, tokenizer_source *source)
{
    const char *initial = x->config->checkpoint.initial_load_path;
    char folder[PATH_MAX], path[PATH_MAX + 16];
    TESS_CHECK(realpath(initial, folder) != NULL, TESS_E_NOT_FOUND,
               "checkpoint.initial_load_path=%s: no such file or folder", initial);
    for (int level = 0; level < 3; level++) {
        TESS_TRY(tess_os_join(path, sizeof(path), folder, "tokenizer.json"));
        if (tess_tokenizer_is_at(path)) {
            tess_trainer_note(x->trainer, "tokenizer: %s", path);
            TESS_TRY(tess_special_tokens_read(path, &source->named, NULL));
            return tess_tokenizer_read(x->mem, path, &x->trained_tokenizer);
        }
        char *slash = strrchr(folder, '/');
        slash[slash == folder] = '\0'; /* the parent of "/" is "/" */
    }
    return TESS_FAIL(TESS_E_INVALID,
                     "checkpoint.initial_load_path=%s: no tokenizer.json there or above: set tokenizer.path to the one "
                     "that its weights were trained with",
                     initial);
}

/* Reads or trains the tokenizer on rank 0. A resumed run uses the tokenizer that it began with. */
static tess_status make_json(tess_run_text *x, const char *path, bool may_train, tokenizer_source *source)
{
    char checkpoint[1024];
    TESS_TRY(tess_trainer_path(x->trainer, x->config->checkpoint.folder, checkpoint, sizeof(checkpoint)));
    bool resumes = (tess_trainer_goes_on(x->trainer) || (x->config->checkpoint.resume && tess_os_is_dir(checkpoint))) &&
                   tess_os_is_file(path);
    if (!may_train && x->config->tokenizer.path[0] == '\0')
        TESS_TRY(tess_model_folder_file(x->config->model.path, "tokenizer.json", checkpoint, sizeof(checkpoint)));
    if (!may_train || resumes) {
        TESS_TRY(tess_special_tokens_read(path, &source->named, &source->has_config));
        return tess_tokenizer_read(x->mem, path, &source->json);
    }
    TESS_TRY(x->config->checkpoint.initial_load_path[0] != '\0' ? read_initial(x, source) : train_bpe(x));
    if (source->named == NULL)
        source->named = json_object();
    return tess_buffer_append(&source->json, x->trained_tokenizer.data, x->trained_tokenizer.size);
}

/* Rank 0 broadcasts a text from memory. Other hosts need no file, and nothing is written before the whole run is
 * checked. The caller frees *out. */
static tess_status share(tess_run_text *x, const tess_buffer *text, char **out, size_t *n)
{
    int64_t size = (int64_t)text->size;
    TESS_TRY(tess_broadcast(x->team, &size, 1, TESS_I64, 0, NULL));
    TESS_TRY(tess_mem_alloc_array(x->mem, TESS_POOL_MISC, (size_t)size + 1, 1, "tokenizer", (void **)out));
    if (tess_team_rank(x->team) == 0 && size > 0)
        memcpy(*out, text->data, (size_t)size);
    *n = (size_t)size;
    return tess_broadcast(x->team, *out, *n, TESS_U8, 0, NULL);
}

static tess_status share_json(tess_run_text *x, const char *path, const tess_buffer *json)
{
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    size_t size;
    TESS_TRY(share(x, json, &text, &size));
    return tess_tokenizer_parse(x->mem, text, size, path, &x->tokenizer);
}

/* Adds the token that ends a text to `named`, on rank 0, if the tokenizer names none. It is then written to
 * tokenizer_config.json of the trained model, and chat templates see it in training. */
static tess_status name_end(const tess_run_text *x, json_t *named)
{
    int32_t id = tess_model_end_of_text(tess_trainer_model(x->trainer), x->tokenizer);
    tess_buffer text = {.mem = x->mem};
    if (json_object_get(named, "eos_token") != NULL || !tess_tokenizer_is_special(x->tokenizer, id))
        return TESS_OK;
    tess_status status = tess_decode(x->tokenizer, &id, 1, false, &text);
    if (status == TESS_OK && json_object_set_new(named, "eos_token", json_stringn(text.data, text.size)) != 0)
        status = TESS_FAIL(TESS_E_NOMEM, "no memory for special tokens");
    tess_buffer_free(&text);
    return status;
}

/* Gives the names of special tokens, which rank 0 has read, to the tokenizer of every rank. */
static tess_status share_names(tess_run_text *x, const tokenizer_source *source)
{
    tess_buffer json = {.mem = x->mem};
    char *text = NULL;
    size_t size;
    json_t *names = NULL;
    tess_status status = TESS_OK;
    if (tess_team_rank(x->team) == 0 && !source->has_config)
        status = name_end(x, source->named);
    if (tess_team_rank(x->team) == 0 && status == TESS_OK)
        status = tess_json_print(json_incref(source->named), JSON_COMPACT, &json);
    TESS_GOTO(tess_team_agree(x->team, status), shared);
    TESS_GOTO(share(x, &json, &text, &size), shared);
    TESS_GOTO(tess_json_parse(text, size, "special tokens", true, &names), shared);
    tess_tokenizer_set_named(x->tokenizer, names);
shared:
    tess_mem_free(x->mem, text);
    tess_buffer_free(&json);
    return status;
}

/* Writes the names of special tokens next to the tokenizer in job.dump_folder. */
static tess_status write_names(const tess_run_text *x)
{
    json_t *names = json_incref((json_t *)tess_tokenizer_named(x->tokenizer));
    return tess_json_write_in(names, JSON_INDENT(2), x->config->job.dump_folder, "special_tokens_map.json");
}

tess_status tess_run_text_write(tess_run_text *x)
{
    tess_buffer *json = &x->trained_tokenizer;
    tess_status status = json->size > 0 ? tess_os_write_atomic(x->tokenizer_path, json->data, json->size) : TESS_OK;
    if (status == TESS_OK && json->size > 0 && x->config->checkpoint.initial_load_path[0] != '\0')
        status = write_names(x);
    if (json->size > 0)
        tess_buffer_free(json);
    return tess_team_agree(x->team, status);
}

/* Finds the path of the tokenizer. Sets *may_train if the configuration names none: then the path is in
 * job.dump_folder, and a missing tokenizer is trained and written there. */
static tess_status choose(tess_run_text *x, char *path, size_t size, bool *may_train)
{
    const tess_config *config = x->config;
    *may_train = false;
    if (config->tokenizer.path[0] != '\0')
        return tess_os_join(path, size, "", config->tokenizer.path);
    if (config->model.path[0] != '\0')
        return tess_os_join(path, size, config->model.path, "tokenizer.json");
    *may_train = true;
    return tess_trainer_path(x->trainer, "tokenizer.json", path, size);
}

/* Checks the tokenizer against the model, and sets the values that the model's configuration leaves to the
 * tokenizer. */
static tess_status settle(tess_run_text *x, tess_model_config *model, const char *path, bool may_train)
{
    snprintf(x->tokenizer_path, sizeof(x->tokenizer_path), "%s", path);
    int64_t vocab = tess_tokenizer_vocab_size(x->tokenizer);
    TESS_CHECK(
        vocab <= model->vocab_size, TESS_E_INVALID,
        "%s has %lld tokens, but the model's vocab_size is %lld: use the model's own tokenizer or a larger vocab_size",
        path, (long long)vocab, (long long)model->vocab_size);
    /* A trained tokenizer has one special token, whatever the model's configuration says. A tokenizer that came with
     * the weights of initial_load_path may have others, which that configuration names. */
    int32_t id = tess_tokenizer_id(x->tokenizer, end_of_text);
    if (may_train && (id >= 0 || x->config->checkpoint.initial_load_path[0] == '\0')) {
        model->bos_token_id = -1;
        model->eos_token_id[0] = id;
        model->n_eos = id >= 0;
        model->eos_stated = id >= 0;
    }
    return TESS_OK;
}

tess_status text_open_tokenizer(tess_run_text *x, tess_model_config *model)
{
    char path[1024];
    bool may_train;
    tokenizer_source source = {.json = {.mem = x->mem}};
    TESS_TRY(choose(x, path, sizeof(path), &may_train));
    tess_status status =
        tess_team_agree(x->team, tess_team_rank(x->team) == 0 ? make_json(x, path, may_train, &source) : TESS_OK);
    if (status == TESS_OK)
        status = share_json(x, path, &source.json);
    if (status == TESS_OK)
        status = settle(x, model, path, may_train);
    if (status == TESS_OK)
        status = share_names(x, &source);
    json_decref(source.named);
    tess_buffer_free(&source.json);
    return status;
}
