/* The differences between the layers of a model: some have the sliding window. Reads and writes layer_types, and
 * the keys that stand for it. */
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
        config->layers[i] = full ? TESS_LAYER_FULL : 0;
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

tess_status tess_layer_kinds_parse(const json_t *json, const char *what, const tess_family_row *row,
                                   tess_model_config *config)
{
    const json_t *types = json_object_get(json, "layer_types");
    bool slides = row->windows != TESS_WINDOWS_SWITCHED;
    int64_t n_full = slides ? 0 : 28;
    if (!slides) {
        TESS_TRY(tess_json_get_bool(json, "use_sliding_window", what, &slides));
        TESS_TRY(tess_json_get_int(json, "max_window_layers", what, &n_full));
        TESS_CHECK(n_full >= 0, TESS_E_INVALID, "%s: max_window_layers is %lld", what, (long long)n_full);
    }
    if (!slides)
        config->sliding_window = 0;
    for (int64_t l = 0; l < n_full && l < config->n_layers; l++)
        config->layers[l] = TESS_LAYER_FULL;
    if (tess_json_has(json, "layer_types") && row->windows != TESS_WINDOWS_ALL)
        TESS_TRY(parse_types(types, what, config));
    if (config->sliding_window == 0)
        memset(config->layers, 0, sizeof(config->layers));
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

/* Omits layer_types if max_window_layers says the same. Older readers know only max_window_layers. */
int tess_layer_kinds_write(const tess_family_row *row, const tess_model_config *config, json_t *json)
{
    int64_t n_full = count_full(config);
    bool types = row->writes_types, used = config->sliding_window > 0;
    int failed = row->mixture != NULL && row->mixture->selects_layers ? write_dense(config, json) : 0;
    for (int64_t l = n_full; l < config->n_layers; l++)
        types |= tess_model_config_window(config, l) == 0;
    if (types) {
        json_t *list = json_array();
        for (int64_t l = 0; l < config->n_layers; l++)
            failed |=
                json_array_append_new(list, json_string(attention_name(tess_model_config_window(config, l) == 0)));
        failed |= json_object_set_new(json, "layer_types", list);
    }
    if (row->windows != TESS_WINDOWS_SWITCHED)
        return failed;
    failed |= json_object_set_new(json, "use_sliding_window", json_boolean(used));
    return failed | json_object_set_new(json, "max_window_layers", json_integer(n_full));
}
