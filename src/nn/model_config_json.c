/* Reads and writes the keys of config.json that all families share. The keys of one family are in models/. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "nn/models/family.h"
#include "nn/named_models.h"

enum { CONFIG_MAX_BYTES = 16 << 20 };

/* The position limit of a training run, on which the frequencies of dynamic scaling depend. transformers has no key
 * for it. */
static const char max_length_key[] = "tessera_max_length";
/* The number of leaves of the sums with which a model was trained. transformers has no key for it either. */
static const char sum_leaves_key[] = "tessera_sum_leaves";

static tess_status refuse_unsupported(const json_t *json, const char *what, const tess_family_row *row)
{
    static const char *const expert_keys[] = {"num_local_experts", "num_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof(expert_keys) / sizeof(expert_keys[0]) && row->mixture == NULL; i++) {
        int64_t n = 0;
        TESS_TRY(tess_json_get_int(json, expert_keys[i], what, &n));
        TESS_CHECK(n == 0, TESS_E_UNSUPPORTED, "%s: %s is %lld: %s has no mixtures of experts", what, expert_keys[i],
                   (long long)n, row->model_type);
    }
    const json_t *quantized = json_object_get(json, "quantization_config");
    const char *method = json_string_value(json_object_get(quantized, "quant_method"));
    const bool joined = row->mixture != NULL && row->mixture->gate_up != NULL; /* ckpt/safetensors widens MXFP4 */
    TESS_CHECK(quantized == NULL || json_is_null(quantized) ||
                   (joined && method != NULL && strcmp(method, "mxfp4") == 0),
               TESS_E_UNSUPPORTED, "%s: quantization_config is set (%s): %s; use the model's unquantized version", what,
               method != NULL ? method : "no quant_method",
               joined ? "supported: mxfp4" : "quantized weights are not supported");
    return TESS_OK;
}

tess_status tess_model_eos_parse(const json_t *json, const char *what, int64_t ids[8], int *n_ids)
{
    const json_t *eos = json_object_get(json, "eos_token_id");
    if (eos == NULL)
        return TESS_OK;
    int64_t id = -1;
    memset(ids, 0, 8 * sizeof(ids[0]));
    *n_ids = 0;
    if (!json_is_array(eos)) {
        TESS_TRY(tess_json_get_int(json, "eos_token_id", what, &id));
        if (id != -1)
            ids[(*n_ids)++] = id;
        return TESS_OK;
    }
    size_t n = json_array_size(eos);
    TESS_CHECK(n <= 8, TESS_E_FORMAT, "%s: eos_token_id lists %zu tokens; at most 8", what, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(eos, i);
        TESS_CHECK(json_is_integer(item) && json_integer_value(item) >= 0, TESS_E_FORMAT,
                   "%s: eos_token_id[%zu] is not a token", what, i);
        ids[(*n_ids)++] = json_integer_value(item);
    }
    return TESS_OK;
}

/* If the key is absent, the family's default stays; null means no token. */
static tess_status parse_token(const json_t *json, const char *key, const char *what, int64_t *id)
{
    if (json_is_null(json_object_get(json, key)))
        *id = -1;
    return tess_json_get_int(json, key, what, id);
}

/* Reads the outputs of a classification model: num_labels, or the number of labels in id2label, or 2. Such a model
 * has its own head, whatever tie_word_embeddings says. */
static tess_status parse_outputs(const json_t *json, const char *what, const tess_family_row *row,
                                 tess_model_config *config)
{
    const char *architecture = json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    const json_t *labels = json_object_get(json, "id2label");
    tess_head_kind head = TESS_HEAD_LOGITS;
    if (architecture != NULL && architecture[0] != '\0')
        TESS_TRY(tess_family_head_of(row, architecture, what, &head));
    if (head == TESS_HEAD_LOGITS)
        return TESS_OK;
    config->output_bias = head == TESS_HEAD_TOKEN;
    config->n_outputs = json_is_object(labels) ? (int64_t)json_object_size(labels) : 2;
    TESS_TRY(tess_json_get_int(json, "num_labels", what, &config->n_outputs));
    TESS_CHECK(config->n_outputs > 0, TESS_E_FORMAT, "%s: num_labels is %lld: a %s has one at least", what,
               (long long)config->n_outputs, architecture);
    config->tied = false;
    return TESS_OK;
}

/* Returns the largest probability with which transformers would drop or change values in training. */
static double find_dropout(const json_t *json)
{
    static const char *const keys[] = {"attention_dropout", "hidden_dropout", "resid_pdrop",       "embd_pdrop",
                                       "attn_pdrop",        "resid_dropout",  "embedding_dropout", "residual_dropout"};
    double most = 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const double p = json_number_value(json_object_get(json, keys[i]));
        most = p > most ? p : most;
    }
    return most;
}

tess_status tess_model_config_parse(const json_t *json, const char *what, tess_model_config *config)
{
    memset(config, 0, sizeof(*config));
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s: expected a JSON object", what);
    json_auto_t *text = NULL;
    TESS_TRY(tess_text_part(json, what, &text));
    json = text != NULL ? text : json;
    config->text_part = text != NULL;
    const char *model_type = NULL;
    char choices[TESS_FAMILY_LIST];
    TESS_TRY(tess_json_get_string(json, "model_type", what, &model_type));
    TESS_CHECK(model_type != NULL, TESS_E_FORMAT, "%s: no 'model_type'; is this the config.json of a model?", what);
    const tess_family_row *row = tess_family_find_type(model_type);
    TESS_CHECK(row != NULL, TESS_E_UNSUPPORTED, "%s: model_type is '%s'; supported: %s", what, model_type,
               tess_family_list(choices));
    TESS_TRY(refuse_unsupported(json, what, row));

    config->family = row->family;
    config->initializer_range = row->initializer_range > 0 ? row->initializer_range : 0.02;
    TESS_TRY(tess_family_parse(json, what, row, config));
    TESS_TRY(tess_json_get_double(json, "initializer_range", what, &config->initializer_range));
    TESS_TRY(tess_json_get_bool(json, "tie_word_embeddings", what, &config->tied));
    TESS_TRY(parse_outputs(json, what, row, config));
    TESS_TRY(parse_token(json, "bos_token_id", what, &config->bos_token_id));
    TESS_TRY(parse_token(json, "pad_token_id", what, &config->pad_token_id));
    TESS_TRY(tess_model_eos_parse(json, what, config->eos_token_id, &config->n_eos));
    config->dropout = find_dropout(json);
    config->eos_stated = config->n_eos > 0 && json_object_get(json, "eos_token_id") != NULL;
    int64_t sum_leaves = 1, max_length = 0;
    TESS_TRY(tess_json_get_int(json, sum_leaves_key, what, &sum_leaves));
    TESS_TRY_CTX(tess_model_config_set_sum_leaves(config, sum_leaves, sum_leaves_key), "%s", what);
    TESS_TRY(tess_model_config_check(config, what));
    TESS_TRY(tess_json_get_int(json, max_length_key, what, &max_length));
    TESS_TRY_CTX(tess_model_config_set_max_length(config, max_length, max_length_key), "%s", what);
    return TESS_OK;
}

tess_status tess_model_config_load(const char *path, tess_model_config *config)
{
    json_auto_t *json = NULL;
    char names[256];
    const char *named = tess_named_model(path);
    tess_status status = named != NULL ? tess_json_parse(named, strlen(named), path, true, &json)
                                       : tess_json_load(path, CONFIG_MAX_BYTES, &json);
    const bool is_name = strchr(path, '/') == NULL && strstr(path, ".json") == NULL;
    if (status == TESS_E_NOT_FOUND && is_name)
        tess_fail_context(status, "there is neither a file nor a model with this name: choose %s",
                          tess_named_models_list(names, sizeof(names)));
    return status == TESS_OK ? tess_model_config_parse(json, path, config) : status;
}

static json_t *token_json(int64_t id)
{
    return id >= 0 ? json_integer(id) : json_null();
}

static json_t *eos_json(const tess_model_config *config)
{
    if (config->n_eos <= 1)
        return token_json(config->n_eos == 1 ? config->eos_token_id[0] : -1);
    json_t *list = json_array();
    for (int i = 0; i < config->n_eos; i++)
        if (json_array_append_new(list, json_integer(config->eos_token_id[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Writes the label names as well, because transformers takes their number, and may warn if only num_labels is
 * present. */
static int write_outputs(const tess_model_config *config, json_t *out)
{
    json_t *names = json_object(), *ids = json_object();
    int failed = 0;
    for (int64_t i = 0; i < config->n_outputs; i++) {
        char id[24], name[32];
        snprintf(id, sizeof(id), "%lld", (long long)i);
        snprintf(name, sizeof(name), "LABEL_%s", id);
        failed |= json_object_set_new(names, id, json_string(name)) | json_object_set_new(ids, name, json_integer(i));
    }
    json_t *all =
        json_pack("{s:I, s:o, s:o}", "num_labels", (json_int_t)config->n_outputs, "id2label", names, "label2id", ids);
    return failed | json_object_update_new(out, all);
}

tess_status tess_model_config_to_json(const tess_model_config *config, tess_dtype dtype, json_t **json)
{
    *json = NULL;
    TESS_TRY(tess_model_config_check(config, "model"));
    const tess_family_row *row = tess_family_find(config->family);
    char class[TESS_FAMILY_CLASS];
    json_t *out = json_pack("{s:[s], s:s}", "architectures", tess_family_architecture(config, class), "model_type",
                            row->model_type);
    if (out == NULL || tess_family_write(row, config, out) != 0 ||
        (config->n_outputs > 0 && write_outputs(config, out) != 0) ||
        (config->max_length > 0 && json_object_set_new(out, max_length_key, json_integer(config->max_length)) != 0) ||
        (config->sum_leaves > 1 && json_object_set_new(out, sum_leaves_key, json_integer(config->sum_leaves)) != 0) ||
        json_object_update_new(out, json_pack("{s:f, s:b, s:o, s:o, s:o, s:s, s:b}", "initializer_range",
                                              config->initializer_range, "tie_word_embeddings", (int)config->tied,
                                              "bos_token_id", token_json(config->bos_token_id), "eos_token_id",
                                              eos_json(config), "pad_token_id", token_json(config->pad_token_id),
                                              "torch_dtype", tess_dtype_name(dtype), "use_cache", 1)) != 0) {
        json_decref(out);
        return TESS_FAIL(TESS_E_NOMEM, "config.json: out of memory");
    }
    if (config->n_eos > 0 && !config->eos_stated)
        json_object_del(out, "eos_token_id");
    *json = out;
    return TESS_OK;
}
