/* Describes the identity of a run's data: its files, how samples are cut from them, and the tokenizer. A resumed run
 * continues only with the same data. */
#include <inttypes.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "train/text/text_impl.h"

/* A file is identified by a hash of its head and tail, because reading all of it could take hours. */
enum { SAMPLE_BYTES = 64 << 10, HASH_BYTES = 17 };

static const char *const what = "the checkpoint's description of the data";
static const char *const way_out = "give the same, start the data anew with checkpoint.exclude_from_loading=data, or "
                                   "give this run another folder with job.dump_folder";

static json_t *json_hash(uint64_t hash)
{
    char text[HASH_BYTES];
    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    return json_string(text);
}

static tess_status describe_file(const char *path, json_t *files)
{
    tess_mapping file;
    TESS_TRY_CTX(tess_os_map(path, &file), "data.files");
    size_t size = file.size, n = size < SAMPLE_BYTES ? size : SAMPLE_BYTES;
    uint64_t hash = tess_hash_bytes(file.data, n, 0);
    if (n > 0)
        hash = tess_hash_bytes(file.data + size - n, n, hash);
    tess_os_unmap(&file);
    json_t *described =
        json_pack("{s:o, s:I, s:o}", "name", tess_json_text(path), "bytes", (json_int_t)size, "hash", json_hash(hash));
    TESS_CHECK(json_array_append_new(files, described) == 0, TESS_E_NOMEM, "no memory to describe %s", path);
    return TESS_OK;
}

tess_status text_list_files(const tess_data_files *files, json_t **listed)
{
    *listed = json_array();
    for (size_t i = 0; i < files->n; i++)
        TESS_TRY(describe_file(files->paths[i], *listed));
    return TESS_OK;
}

/* Hashes the ids at the beginning of the first file. Older checkpoints identify their tokenizer by this hash. */
static tess_status hash_ids(const tess_run_text *t, uint64_t *hash)
{
    tess_mapping file;
    tess_ids ids = {.mem = t->mem};
    TESS_TRY_CTX(tess_os_map(t->files.paths[0], &file), "data.files");
    size_t n = file.size < SAMPLE_BYTES ? file.size : SAMPLE_BYTES;
    tess_status status = tess_encode_text(t->tokenizer, (const char *)file.data, n, false, &ids);
    *hash = tess_hash_bytes(ids.data, ids.size * sizeof(*ids.data), 0);
    tess_ids_free(&ids);
    tess_os_unmap(&file);
    return status;
}

/* Lists weight and number of files of each source of a mixture; NULL: the data is no mixture. */
static json_t *describe_sources(const text_task *t)
{
    const tess_text_list *weights = &t->text.config->data.weights;
    json_t *sources = weights->n > 0 ? json_array() : NULL;
    for (int i = 0; i < weights->n; i++)
        json_array_append_new(sources,
                              json_pack("{s:s, s:i}", "weight", weights->item[i], "files", t->text.files.counts[i]));
    return sources;
}

tess_status text_describe_data(text_task *t)
{
    const tess_config *c = t->text.config;
    uint64_t tokenizer = 0;
    TESS_TRY(tess_tokenizer_digest(t->text.tokenizer, &tokenizer));
    t->data =
        json_pack("{s:b, s:o, s:o, s:o, s:i, s:i, s:I, s:o, s:f, s:o, s:O, s:o*}", "shuffle", (int)c->data.shuffle,
                  "text_key", tess_json_text(c->data.text_key), "prompt_key", tess_json_text(c->data.prompt_key),
                  "completion_key", tess_json_text(c->data.completion_key), "split", c->data.split, "format",
                  c->data.format, "end_token", (json_int_t)c->data.end_token, "chat_template",
                  json_hash(tess_chat_hash(&t->text.chat.how)), "trained_share", text_trained_share(c), "tokenizer",
                  json_hash(tokenizer), "files", t->text.listed, "sources", describe_sources(t));
    TESS_CHECK(t->data != NULL, TESS_E_NOMEM, "no memory to describe the data");
    return TESS_OK;
}

static tess_status check_file(const json_t *saved, const json_t *now, int i)
{
    const char *name = json_string_value(json_object_get(saved, "name"));
    int64_t bytes = json_integer_value(json_object_get(saved, "bytes"));
    int64_t bytes_now = json_integer_value(json_object_get(now, "bytes"));
    bool same = bytes == bytes_now && json_equal(json_object_get(saved, "hash"), json_object_get(now, "hash")) != 0;
    TESS_CHECK(same, TESS_E_INVALID,
               "data.files: %s (%lld bytes) is not the text that the checkpoint was made with, file %d, then %s (%lld "
               "bytes): the data could not go on from the same sample; %s",
               json_string_value(json_object_get(now, "name")), (long long)bytes_now, i,
               name != NULL ? name : "unknown", (long long)bytes, way_out);
    return TESS_OK;
}

/* Older checkpoints do not record how conversations are read: they had none. */
static tess_status check_chat(const json_t *saved, const json_t *now)
{
    const json_t *before = json_object_get(saved, "chat_template");
    TESS_CHECK(before == NULL || json_equal(before, json_object_get(now, "chat_template")) != 0, TESS_E_INVALID,
               "the checkpoint was made with another chat template (data.chat_template, model.path); %s", way_out);
    return TESS_OK;
}

static tess_status check_files(const json_t *saved, const json_t *now)
{
    TESS_CHECK(json_is_array(saved), TESS_E_FORMAT, "%s: files is not a list", what);
    TESS_CHECK(json_array_size(saved) == json_array_size(now), TESS_E_INVALID,
               "data.files: %zu files, but the checkpoint was made with %zu: the data could not go on from the same "
               "sample; %s",
               json_array_size(now), json_array_size(saved), way_out);
    for (size_t i = 0; i < json_array_size(now); i++)
        TESS_TRY(check_file(json_array_get(saved, i), json_array_get(now, i), (int)i));
    return TESS_OK;
}

static tess_status check_key(const json_t *saved, const char *name, const char *key, const char *now)
{
    TESS_TRY(tess_json_get_string(saved, name, what, &key));
    TESS_CHECK(strcmp(key, now) == 0, TESS_E_INVALID, "the checkpoint was made with data.%s=%s, now it is %s; %s", name,
               key, now, way_out);
    return TESS_OK;
}

/* Older checkpoints do not record how documents with a prompt are read: they had none. */
static tess_status check_keys(const text_task *t, const json_t *saved)
{
    int64_t split = TESS_SPLIT_AUTO;
    TESS_TRY(check_key(saved, "text_key", "", t->text.config->data.text_key));
    TESS_TRY(check_key(saved, "prompt_key", "prompt", t->text.config->data.prompt_key));
    TESS_TRY(check_key(saved, "completion_key", "completion", t->text.config->data.completion_key));
    TESS_TRY(tess_json_get_int(saved, "split", what, &split));
    TESS_CHECK(split == t->text.config->data.split, TESS_E_INVALID,
               "the checkpoint was made with another data.split; %s", way_out);
    return TESS_OK;
}

/* Older checkpoints do not record the kind of the data: it was always text. */
static tess_status check_format(const text_task *t, const json_t *saved)
{
    int64_t format = TESS_DATA_AUTO, end_token = -1;
    TESS_TRY(tess_json_get_int(saved, "format", what, &format));
    TESS_TRY(tess_json_get_int(saved, "end_token", what, &end_token));
    TESS_CHECK(format == t->text.config->data.format && end_token == t->text.config->data.end_token, TESS_E_INVALID,
               "the checkpoint was made with another data.format or data.end_token; %s", way_out);
    return TESS_OK;
}

static tess_status check_tokenizer(const text_task *t, const json_t *saved)
{
    const json_t *before = json_object_get(saved, "tokenizer");
    bool same;
    if (before != NULL) {
        same = json_equal(before, json_object_get(t->data, "tokenizer")) != 0;
    } else {
        uint64_t hash = 0;
        TESS_TRY(hash_ids(&t->text, &hash));
        json_t *ids = json_hash(hash);
        same = json_equal(json_object_get(saved, "ids"), ids) != 0;
        json_decref(ids);
    }
    TESS_CHECK(same, TESS_E_INVALID,
               "the checkpoint was made with another tokenizer (tokenizer.path, model.path): the same text has other "
               "ids now; %s",
               way_out);
    return TESS_OK;
}

/* Fails if samples are cut from the files in another way than in the saved description. */
static tess_status check_cut(const text_task *t, const json_t *saved)
{
    bool shuffle = t->text.config->data.shuffle;
    double share = -1, share_now = text_trained_share(t->text.config);
    TESS_TRY(tess_json_get_bool(saved, "shuffle", what, &shuffle));
    TESS_TRY(tess_json_get_double(saved, "trained_share", what, &share));
    TESS_CHECK(shuffle == t->text.config->data.shuffle, TESS_E_INVALID,
               "the checkpoint was made with data.shuffle=%s: the data could not go on from the same sample; %s",
               shuffle ? "true" : "false", way_out);
    TESS_TRY(check_keys(t, saved));
    TESS_TRY(check_format(t, saved));
    TESS_CHECK(share == share_now, TESS_E_INVALID,
               "the checkpoint was made with %g%% of the text held out for validation, now it is %g%% "
               "(validation.enable, validation.fraction, validation.files): the data could not go on from the same "
               "sample; %s",
               100 * (1 - share), 100 * (1 - share_now), way_out);
    return TESS_OK;
}

tess_status text_check_data(const text_task *t, const json_t *saved)
{
    TESS_CHECK(json_is_object(saved), TESS_E_FORMAT,
               "%s is missing: it is not of a training run with data; checkpoint.exclude_from_loading=data starts the "
               "data anew",
               what);
    TESS_TRY(check_cut(t, saved));
    bool mixes = t->text.config->data.weights.n > 0;
    TESS_CHECK(mixes == tess_json_has(saved, "sources"), TESS_E_INVALID,
               "the checkpoint was made %s data.weights: a mixture has a position for each source, a text has one; %s",
               mixes ? "without" : "with", way_out);
    if (!mixes)
        TESS_TRY(check_files(json_object_get(saved, "files"), t->text.listed));
    TESS_TRY(check_chat(saved, t->data));
    return check_tokenizer(t, saved);
}

/* ---- Sources of a mixture ---- */
/* Whether n files beginning at `a` in one list equal those beginning at `b` in the other, whatever their names. */
static bool same_files(const json_t *one, size_t a, const json_t *other, size_t b, int n)
{
    for (size_t i = 0; i < (size_t)n; i++) {
        const json_t *x = json_array_get(one, a + i), *y = json_array_get(other, b + i);
        if (json_equal(json_object_get(x, "bytes"), json_object_get(y, "bytes")) == 0 ||
            json_equal(json_object_get(x, "hash"), json_object_get(y, "hash")) == 0)
            return false;
    }
    return true;
}

/* Returns the index of the saved source whose files equal the n files beginning at `at`; -1: there is none. */
static int saved_source(const text_task *t, const json_t *saved, size_t at, int n)
{
    const json_t *sources = json_object_get(saved, "sources"), *files = json_object_get(saved, "files");
    size_t before = 0;
    for (size_t i = 0; i < json_array_size(sources); i++) {
        json_int_t count = json_integer_value(json_object_get(json_array_get(sources, i), "files"));
        if (count == n && same_files(t->text.listed, at, files, before, n))
            return (int)i;
        before += count > 0 ? (size_t)count : 0;
    }
    return -1;
}

tess_status text_match_sources(const text_task *t, const json_t *saved, int *from, bool *same)
{
    int n = t->text.config->data.weights.n, n_old = 0;
    size_t at = 0;
    *same = json_equal(json_object_get(saved, "sources"), json_object_get(t->data, "sources")) != 0;
    for (int i = 0; i < n; at += (size_t)t->text.files.counts[i++]) {
        from[i] = saved_source(t, saved, at, t->text.files.counts[i]);
        n_old += from[i] >= 0;
        *same = *same && from[i] == i;
    }
    TESS_CHECK(
        n_old > 0, TESS_E_INVALID,
        "data.files: none of the sources is one that the checkpoint was made with: there is no position to go on "
        "from; %s",
        way_out);
    return TESS_OK;
}
