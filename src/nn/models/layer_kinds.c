/* The differences between the layers of a model: some have the sliding window, some are rotated. Reads and writes
 * layer_types, no_rope_layers, and the keys that stand for them. */
#include <string.h>

#include "base/text/json.h"
#include "nn/models/family.h"

/* The name of a layer's attention in layer_types. */
static const char *attention_name(bool full)
{
    return full ? "full_attention" : "sliding_attention";
}

static tess_status parse_types(const json_t *types, const char *what, tess_model_config *config)
{
    TESS_CHECK(json_is_array(types) && (int64_t)json_array_size(types) == config->n_layers, TESS_E_FORMAT,
               "%s: 'layer_types' must list one name for each of the %lld layers", what, (long long)config->n_layers);
    bool slides = false;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool full = type != NULL && strcmp(type, attention_name(true)) == 0;
        TESS_CHECK(full || (type != NULL && strcmp(type, attention_name(false)) == 0), TESS_E_UNSUPPORTED,
                   "%s: layer_types[%zu] is '%s'; supported: full_attention, sliding_attention", what, i,
                   type != NULL ? type : "not a name");
        slides |= !full;
        config->layers[i] |= full ? TESS_LAYER_FULL : 0;
    }
    TESS_CHECK(!slides || config->sliding_window > 0, TESS_E_FORMAT,
               "%s: layer_types has sliding_attention but there is no sliding_window in use", what);
    return TESS_OK;
}

/* Marks the layers without experts. */
static tess_status parse_dense(const json_t *json, const char *what, tess_model_config *config)
{
    int64_t step = 1;
    const json_t *list = json_object_get(json, "mlp_only_layers");
    TESS_TRY(tess_json_get_int(json, "decoder_sparse_step", what, &step));
    TESS_CHECK(step >= 1, TESS_E_INVALID, "%s: decoder_sparse_step is %lld; it must be at least 1", what,
               (long long)step);
    TESS_CHECK(list == NULL || json_is_null(list) || json_is_array(list), TESS_E_FORMAT,
               "%s: mlp_only_layers is no list of layers", what);
    for (int64_t l = 0; l < config->n_layers; l++)
        config->layers[l] |= (l + 1) % step != 0 ? TESS_LAYER_DENSE : 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const int64_t l = json_is_integer(item) ? json_integer_value(item) : -1;
        TESS_CHECK(l >= 0, TESS_E_FORMAT, "%s: mlp_only_layers[%zu] is no layer", what, i);
        if (l < config->n_layers)
            config->layers[l] |= TESS_LAYER_DENSE;
    }
    return TESS_OK;
}

static tess_status parse_dense_first(const json_t *json, const char *what, tess_model_config *config)
{
    int64_t n = config->family == TESS_FAMILY_DEEPSEEK_V3 ? 3 : 0, step = 1;
    TESS_TRY(tess_json_get_int(json, "first_k_dense_replace", what, &n));
    TESS_TRY(tess_json_get_int(json, "moe_layer_freq", what, &step));
    TESS_CHECK(n >= 0, TESS_E_INVALID, "%s: first_k_dense_replace is %lld", what, (long long)n);
    TESS_CHECK(step == 1, TESS_E_UNSUPPORTED, "%s: moe_layer_freq is %lld; supported: 1", what, (long long)step);
    for (int64_t l = 0; l < config->n_layers && l < n; l++)
        config->layers[l] |= TESS_LAYER_DENSE;
    return TESS_OK;
}

/* Reads no_rope_layers, in which 0 marks a layer that is not rotated. */
static tess_status parse_rotated(const json_t *json, const char *what, tess_model_config *config)
{
    const json_t *list = json_object_get(json, "no_rope_layers");
    int64_t interval = 4;
    TESS_TRY(tess_json_get_int(json, "no_rope_layer_interval", what, &interval));
    TESS_CHECK(interval > 0, TESS_E_FORMAT, "%s: no_rope_layer_interval is %lld; it must be at least 1", what,
               (long long)interval);
    const bool listed = tess_json_has(json, "no_rope_layers");
    TESS_CHECK(!listed || (json_is_array(list) && (int64_t)json_array_size(list) >= config->n_layers), TESS_E_FORMAT,
               "%s: 'no_rope_layers' must list 0 or 1 for each of the %lld layers", what, (long long)config->n_layers);
    for (int64_t l = 0; l < config->n_layers; l++) {
        const json_t *item = json_array_get(list, (size_t)l);
        TESS_CHECK(!listed || (json_is_integer(item) && json_integer_value(item) >= 0 && json_integer_value(item) <= 1),
                   TESS_E_FORMAT, "%s: no_rope_layers[%lld] is neither 0 nor 1", what, (long long)l);
        if (listed ? json_integer_value(item) == 0 : (l + 1) % interval == 0)
            config->layers[l] |= TESS_LAYER_NO_ROPE;
    }
    return TESS_OK;
}

/* Marks the layers that have no window if config.json does not name the layers that have one. */
static tess_status assume_windows(const json_t *json, const char *what, const tess_family_row *row,
                                  tess_model_config *config)
{
    const bool even = row->windows == TESS_WINDOWS_SWITCHED_EVEN;
    int64_t n_full = even || row->windows == TESS_WINDOWS_SWITCHED ? 28 : 0, pattern = row->pattern;
    if (n_full > 0)
        TESS_TRY(tess_json_get_int(json, "max_window_layers", what, &n_full));
    if (row->reads_pattern)
        TESS_TRY(tess_json_get_int(json, "sliding_window_pattern", what, &pattern));
    TESS_CHECK(n_full >= 0, TESS_E_INVALID, "%s: max_window_layers is %lld", what, (long long)n_full);
    TESS_CHECK(pattern >= (row->pattern > 0), TESS_E_INVALID, "%s: sliding_window_pattern is %lld", what,
               (long long)pattern);
    for (int64_t l = 0; l < config->n_layers; l++)
        if ((even ? l >= n_full : l < n_full) || (pattern > 0 && (l + 1) % pattern == 0) ||
            (row->windows == TESS_WINDOWS_NO_ROPE && !(config->layers[l] & TESS_LAYER_NO_ROPE)))
            config->layers[l] |= TESS_LAYER_FULL;
    return TESS_OK;
}

/* Whether the family has a window only if use_sliding_window is true. */
static bool is_switched(const tess_family_row *row)
{
    return row->windows >= TESS_WINDOWS_SWITCHED;
}

tess_status tess_layer_kinds_parse(const json_t *json, const char *what, const tess_family_row *row,
                                   tess_model_config *config)
{
    bool slides = !is_switched(row);
    if (!slides)
        TESS_TRY(tess_json_get_bool(json, "use_sliding_window", what, &slides));
    if (!slides)
        config->sliding_window = 0;
    if (row->rotated == TESS_ROTATED_LISTED)
        TESS_TRY(parse_rotated(json, what, config));
    if (tess_json_has(json, "layer_types") && row->windows != TESS_WINDOWS_ALL &&
        row->windows != TESS_WINDOWS_SWITCHED_ALL)
        TESS_TRY(parse_types(json_object_get(json, "layer_types"), what, config));
    else
        TESS_TRY(assume_windows(json, what, row, config));
    for (int64_t l = 0; l < config->n_layers; l++) {
        if (config->sliding_window == 0)
            config->layers[l] &= (uint8_t)~TESS_LAYER_FULL;
        if ((row->rotated == TESS_ROTATED_WINDOWED && config->layers[l] & TESS_LAYER_FULL) ||
            (row->rotated == TESS_ROTATED_ONLY_WINDOWED && tess_model_config_window(config, l) == 0))
            config->layers[l] |= TESS_LAYER_NO_ROPE;
    }
    if (row->mixture != NULL && row->mixture->dense_first)
        return parse_dense_first(json, what, config);
    return row->mixture != NULL && row->mixture->selects_layers ? parse_dense(json, what, config) : TESS_OK;
}

/* The number of layers before the first one with a window. */
static int64_t count_full(const tess_model_config *config)
{
    int64_t n = 0;
    while (n < config->n_layers && tess_model_config_window(config, n) == 0)
        n++;
    return n;
}

static int write_dense(const tess_model_config *config, json_t *json)
{
    json_t *list = json_array();
    int failed = json_object_set_new(json, "decoder_sparse_step", json_integer(1));
    for (int64_t l = 0; l < config->n_layers; l++)
        if (!tess_model_config_mixes(config, l))
            failed |= json_array_append_new(list, json_integer(l));
    return failed | json_object_set_new(json, "mlp_only_layers", list);
}

static int write_dense_first(const tess_model_config *config, json_t *json)
{
    int64_t n = 0;
    while (n < config->n_layers && !tess_model_config_mixes(config, n))
        n++;
    return json_object_set_new(json, "first_k_dense_replace", json_integer(n));
}

static json_t *types_json(const tess_model_config *config)
{
    json_t *list = json_array();
    for (int64_t l = 0; l < config->n_layers; l++)
        (void)json_array_append_new(list, json_string(attention_name(tess_model_config_window(config, l) == 0)));
    return list;
}

static json_t *rotated_json(const tess_model_config *config)
{
    json_t *list = json_array();
    for (int64_t l = 0; l < config->n_layers; l++)
        (void)json_array_append_new(list, json_integer(!(config->layers[l] & TESS_LAYER_NO_ROPE)));
    return list;
}

/* Qwen omits layer_types if max_window_layers says the same. Older readers know only max_window_layers. */
int tess_layer_kinds_write(const tess_family_row *row, const tess_model_config *config, json_t *json)
{
    int64_t n_full = count_full(config);
    bool types = row->writes_types;
    int failed = row->mixture != NULL && row->mixture->selects_layers ? write_dense(config, json) : 0;
    failed |= row->mixture != NULL && row->mixture->dense_first ? write_dense_first(config, json) : 0;
    for (int64_t l = n_full; l < config->n_layers; l++)
        types |= tess_model_config_window(config, l) == 0;
    if (types)
        failed |= json_object_set_new(json, "layer_types", types_json(config));
    if (is_switched(row))
        failed |= json_object_set_new(json, "use_sliding_window", json_boolean(config->sliding_window > 0));
    if (row->windows == TESS_WINDOWS_SWITCHED)
        failed |= json_object_set_new(json, "max_window_layers", json_integer(n_full));
    if (row->rotated == TESS_ROTATED_LISTED)
        failed |= json_object_set_new(json, "no_rope_layers", rotated_json(config));
    return failed;
}
