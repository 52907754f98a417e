#include "nn/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"

enum { CONFIG_LIMIT = 1 << 20 };
static const char all_linear[] = "all-linear";

double tess_lora_scale(const tess_lora *lora)
{
    return lora->alpha / (lora->rslora ? sqrt((double)lora->rank) : (double)lora->rank);
}

bool tess_lora_adapts(const tess_lora *lora, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < lora->n_targets; i++) {
        const char *target = lora->targets[i];
        size_t m = strlen(target);
        if (strcmp(target, all_linear) == 0)
            return true;
        if (m <= n && strcmp(name + n - m, target) == 0 && (m == n || name[n - m - 1] == '.'))
            return true;
    }
    return false;
}

tess_status tess_lora_add_target(tess_lora *lora, const char *target, const char *key)
{
    size_t n = strlen(target);
    TESS_CHECK(n > 0 && n<TESS_LORA_NAME, TESS_E_INVALID,
                          "%s: '%.40s%s' is no name of a linear map: such as q_proj, or all-linear", key, target, n> 40
                   ? "..."
                   : "");
    TESS_CHECK(lora->n_targets < TESS_LORA_TARGETS, TESS_E_INVALID, "%s: more than %d names; all-linear means all", key,
               TESS_LORA_TARGETS);
    snprintf(lora->targets[lora->n_targets++], TESS_LORA_NAME, "%s", target);
    snprintf(lora->source, sizeof(lora->source), "%s", key);
    return TESS_OK;
}

tess_status tess_lora_check(const tess_lora *lora, const char *what)
{
    TESS_CHECK(lora->rank >= 1 && lora->rank <= TESS_LORA_MAX_RANK, TESS_E_INVALID,
               "%s: rank %lld; 1 to %d are possible", what, (long long)lora->rank, TESS_LORA_MAX_RANK);
    TESS_CHECK(lora->alpha >= 1e-6 && lora->alpha <= 1e6, TESS_E_INVALID, "%s: alpha %g; 1e-6 to 1e6 are possible",
               what, lora->alpha);
    TESS_CHECK(lora->n_targets > 0, TESS_E_INVALID, "%s: no linear map is named", what);
    for (int i = 0; i < lora->n_targets; i++)
        TESS_CHECK(lora->n_targets == 1 || strcmp(lora->targets[i], all_linear) != 0, TESS_E_INVALID,
                   "%s: all-linear stands alone: it names all maps", what);
    return TESS_OK;
}

/* ---- adapter_config.json ---- */
/* Whether this is a value that PEFT writes if a feature is not used. */
static bool is_unused(const json_t *value)
{
    bool none = json_is_string(value) && strcmp(json_string_value(value), "none") == 0;
    bool empty = (json_is_object(value) && json_object_size(value) == 0) ||
                 (json_is_array(value) && json_array_size(value) == 0);
    return value == NULL || json_is_null(value) || json_is_false(value) || none || empty;
}

/* Refuses adapters with features other than A and B on whole linear maps of all layers. */
static tess_status refuse_features(const json_t *json, const char *what)
{
    static const char *const features[] = {"bias",
                                           "lora_bias",
                                           "use_dora",
                                           "use_qalora",
                                           "modules_to_save",
                                           "layers_to_transform",
                                           "layer_replication",
                                           "rank_pattern",
                                           "alpha_pattern",
                                           "exclude_modules",
                                           "target_parameters",
                                           "trainable_token_indices",
                                           "alora_invocation_tokens",
                                           "arrow_config",
                                           "kasa_config",
                                           "monteclora_config",
                                           "use_bdlora",
                                           "velora_config"};
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
        TESS_CHECK(is_unused(json_object_get(json, features[i])), TESS_E_UNSUPPORTED,
                   "%s: the adapter has '%s', which Tessera does not have: merge it into its model with PEFT "
                   "(merge_and_unload), or train one without",
                   what, features[i]);
    return TESS_OK;
}

static tess_status parse_targets(const json_t *targets, const char *what, tess_lora *lora)
{
    char key[600];
    snprintf(key, sizeof(key), "%.500s: target_modules", what);
    if (json_is_string(targets)) {
        TESS_CHECK(strcmp(json_string_value(targets), all_linear) == 0, TESS_E_UNSUPPORTED,
                   "%s: '%.80s' is a pattern; supported: a list of names, or all-linear", key,
                   json_string_value(targets));
        return tess_lora_add_target(lora, all_linear, key);
    }
    TESS_CHECK(json_is_array(targets), TESS_E_FORMAT, "%s must be a list of names, or all-linear", key);
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *name = json_string_value(json_array_get(targets, i));
        TESS_CHECK(name != NULL, TESS_E_FORMAT, "%s: entry %zu is no text", key, i);
        TESS_TRY(tess_lora_add_target(lora, name, key));
    }
    return TESS_OK;
}

tess_status tess_lora_parse(const json_t *json, const char *what, tess_lora *lora)
{
    const char *type = json_string_value(json_object_get(json, "peft_type"));
    *lora = (tess_lora){.rank = 8, .alpha = 8}; /* PEFT's defaults */
    TESS_CHECK(type != NULL, TESS_E_FORMAT, "%s: 'peft_type' is missing: it is no adapter's configuration", what);
    TESS_CHECK(strcmp(type, "LORA") == 0, TESS_E_UNSUPPORTED, "%s: peft_type is '%.40s'; supported: LORA", what, type);
    TESS_TRY(refuse_features(json, what));
    TESS_TRY(tess_json_get_int(json, "r", what, &lora->rank));
    TESS_TRY(tess_json_get_double(json, "lora_alpha", what, &lora->alpha));
    TESS_TRY(tess_json_get_bool(json, "use_rslora", what, &lora->rslora));
    TESS_TRY(parse_targets(json_object_get(json, "target_modules"), what, lora));
    return tess_lora_check(lora, what);
}

tess_status tess_lora_load(const char *folder, tess_lora *lora)
{
    char path[1024];
    json_auto_t *json = NULL;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "adapter_config.json"));
    TESS_CHECK(tess_os_is_file(path), TESS_E_NOT_FOUND,
               "%s: no such file: an adapter's folder holds adapter_config.json and adapter_model.safetensors, as PEFT "
               "and runs with lora.rank write them",
               path);
    TESS_TRY(tess_json_load(path, CONFIG_LIMIT, &json));
    return tess_lora_parse(json, path, lora);
}

tess_status tess_lora_to_json(const tess_lora *lora, const char *base, bool in_out, json_t **out)
{
    json_t *targets = json_array();
    int failed = 0;
    for (int i = 0; i < lora->n_targets; i++)
        failed |= json_array_append_new(targets, json_string(lora->targets[i]));
    /* PEFT uses the JSON number's type unchanged, and its own alpha is an integer. */
    json_t *alpha = lora->alpha == floor(lora->alpha) ? json_integer((json_int_t)lora->alpha) : json_real(lora->alpha);
    *out = json_pack("{s:s, s:s, s:I, s:o, s:f, s:b, s:o, s:s, s:b, s:b, s:b, s:o}", "peft_type", "LORA", "task_type",
                     "CAUSAL_LM", "r", (json_int_t)lora->rank, "lora_alpha", alpha, "lora_dropout", 0.0, "use_rslora",
                     (int)lora->rslora, "target_modules", targets, "bias", "none", "fan_in_fan_out", (int)in_out,
                     "init_lora_weights", 1, "inference_mode", 1, "base_model_name_or_path", tess_json_text(base));
    if (*out != NULL && failed == 0)
        return TESS_OK;
    json_decref(*out);
    *out = NULL;
    return TESS_FAIL(TESS_E_NOMEM, "no memory to describe the adapter");
}
