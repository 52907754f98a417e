#include "infer/generation_config.h"

#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "nn/model_config.h"

enum { FILE_LIMIT = 1 << 20 };

/* Whether a key is ignored without effect on the text, because it requests nothing (null, false, 0, an empty list),
 * describes the file, or says what transformers returns and keeps. The first eight keys are read below. */
static bool ignores(const char *key, const json_t *value)
{
    static const char *const known[] = {"do_sample",
                                        "eos_token_id",
                                        "max_new_tokens",
                                        "min_p",
                                        "repetition_penalty",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "_commit_hash",
                                        "_from_model_config",
                                        "bos_token_id",
                                        "chat_format",
                                        "cache_implementation",
                                        "pad_token_id",
                                        "return_dict_in_generate",
                                        "transformers_version",
                                        "use_cache"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], key) == 0)
            return false;
    return !json_is_null(value) && !json_is_false(value) && !(json_is_number(value) && json_number_value(value) == 0) &&
           !(json_is_array(value) && json_array_size(value) == 0);
}

static tess_status check_range(const json_t *json, const char *what, const char *key, double value, double least,
                               double most)
{
    TESS_CHECK(!tess_json_has(json, key) || (value >= least && value <= most), TESS_E_FORMAT,
               "%s: %s is %g; it must be in [%g, %g]", what, key, value, least, most);
    return TESS_OK;
}

static tess_status parse_sampling(const json_t *json, const char *what, tess_sampling *s)
{
    bool do_sample = tess_json_has(json, "temperature") || tess_json_has(json, "top_k") ||
                     tess_json_has(json, "top_p") || tess_json_has(json, "min_p");
    TESS_TRY(tess_json_get_bool(json, "do_sample", what, &do_sample));
    if (do_sample)
        *s = (tess_sampling){.temperature = 1, .top_k = 50, .top_p = 1, .min_p = -1, .repetition_penalty = -1};
    TESS_TRY(tess_json_get_double(json, "temperature", what, &s->temperature));
    TESS_TRY(tess_json_get_int(json, "top_k", what, &s->top_k));
    TESS_TRY(tess_json_get_double(json, "top_p", what, &s->top_p));
    TESS_TRY(tess_json_get_double(json, "min_p", what, &s->min_p));
    TESS_TRY(tess_json_get_double(json, "repetition_penalty", what, &s->repetition_penalty));
    TESS_TRY(check_range(json, what, "temperature", s->temperature, 0, 100));
    TESS_TRY(check_range(json, what, "top_k", (double)s->top_k, 0, INT32_MAX));
    TESS_TRY(check_range(json, what, "top_p", s->top_p, 0, 1));
    TESS_TRY(check_range(json, what, "min_p", s->min_p, 0, 1));
    TESS_TRY(check_range(json, what, "repetition_penalty", s->repetition_penalty, 0.01, 100));
    if (tess_json_has(json, "do_sample") && !do_sample)
        s->temperature = 0;
    return TESS_OK;
}

tess_status tess_generation_config_parse(const json_t *json, const char *what, tess_generation_config *config)
{
    const tess_sampling nothing = {.temperature = -1, .top_k = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1};
    *config = (tess_generation_config){.sampling = nothing, .max_new_tokens = -1};
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s: expected a JSON object", what);
    TESS_TRY(parse_sampling(json, what, &config->sampling));
    TESS_TRY(tess_json_get_int(json, "max_new_tokens", what, &config->max_new_tokens));
    TESS_TRY(check_range(json, what, "max_new_tokens", (double)config->max_new_tokens, 0, INT32_MAX));
    TESS_TRY(tess_model_eos_parse(json, what, config->end_tokens, &config->n_end));
    for (int i = 0; i < config->n_end; i++)
        TESS_TRY(check_range(json, what, "eos_token_id", (double)config->end_tokens[i], 0, INT32_MAX));
    const char *key;
    const json_t *value;
    size_t at = 0;
    json_object_foreach ((json_t *)json, key, value)
        if (ignores(key, value))
            at = tess_text_add(config->ignored, sizeof(config->ignored), at, "%s%s", at > 0 ? ", " : "", key);
    return TESS_OK;
}

tess_status tess_generation_config_load(const char *folder, tess_generation_config *config)
{
    char path[1024];
    json_t *json = NULL;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "generation_config.json"));
    if (tess_os_is_file(path))
        TESS_TRY(tess_json_load(path, FILE_LIMIT, &json));
    else
        json = json_object();
    tess_status status = tess_generation_config_parse(json, path, config);
    json_decref(json);
    return status;
}
