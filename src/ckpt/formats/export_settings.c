/* Translates the settings of PyTorch's optimizers to one entry per parameter:
 * "optimizer.param_groups.<parameter>.lr". */
#include <stdlib.h>
#include <string.h>

#include "ckpt/formats/export_impl.h"

/* ---- Settings of Tessera's own optimizer ---- */
/* Returns the settings as torch.optim.AdamW stores them. Settings that Tessera does not have get PyTorch's defaults. */
static json_t *describe_group(const json_t *settings, bool decays)
{
    double beta1 = json_number_value(json_object_get(settings, "beta1"));
    double beta2 = json_number_value(json_object_get(settings, "beta2"));
    double decay = json_number_value(json_object_get(settings, "weight_decay"));
    return json_pack("{s:f, s:[f,f], s:f, s:f, s:b, s:b, s:n, s:b, s:b, s:n, s:b}", "lr",
                     json_number_value(json_object_get(settings, "lr")), "betas", beta1, beta2, "eps",
                     json_number_value(json_object_get(settings, "eps")), "weight_decay", decays ? decay : 0.0,
                     "amsgrad", 0, "maximize", 0, "foreach", "capturable", 0, "differentiable", 0, "fused",
                     "decoupled_weight_decay", 1);
}

/* Sets "optimizer.param_groups.<name>", unless it is set already. */
static void set(json_t *meta, const char *name, json_t *value)
{
    char text[2 * EXPORT_NAME + 32];
    snprintf(text, sizeof(text), "optimizer.param_groups.%s", name);
    if (json_object_get(meta, text) == NULL)
        json_object_set(meta, text, value);
}

tess_status export_describe_settings(json_t *meta, const json_t *settings, const char *parameter, bool decays)
{
    static const char *const keys[] = {"lr", "beta1", "beta2", "eps", "weight_decay"};
    char name[EXPORT_NAME + 32];
    const char *key;
    json_t *value;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!json_is_number(json_object_get(settings, keys[i])))
            return TESS_OK;
    json_t *group = describe_group(settings, decays);
    TESS_CHECK(group != NULL, TESS_E_NOMEM, "no memory for the optimizer's settings");
    json_object_foreach (group, key, value) {
        snprintf(name, sizeof(name), "%s.%s", parameter, key);
        set(meta, name, value);
    }
    json_decref(group);
    return TESS_OK;
}

/* ---- Settings of a source ---- */
/* Returns the part of a dotted name after "optimizer.param_groups.", inside any dicts; NULL: the name has no such
 * part. */
static const char *after_groups(const char *name)
{
    static const char *const begins[] = {"optimizer.param_groups.", "optim.param_groups."};
    for (const char *at = name; at != NULL; at = strchr(at, '.') != NULL ? strchr(at, '.') + 1 : NULL)
        for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
            if (strncmp(at, begins[i], strlen(begins[i])) == 0)
                return at + strlen(begins[i]);
    return NULL;
}

/* Moves the members of param_groups from `value` to `found`, under their dotted names there: "0.lr" and "0.params" for
 * a list of groups, "<parameter>.lr" for flattened settings. `path` ends in a dot, or is empty. Returns whether `value`
 * is empty now. */
static bool take(json_t *found, json_t *value, const char *path)
{
    char inner[EXPORT_NAME];
    const char *key, *rest = after_groups(path);
    json_t *member;
    void *next;
    size_t i;
    bool empty = false;
    if (json_is_object(value)) {
        json_object_foreach_safe (value, next, key, member)
            if (snprintf(inner, sizeof(inner), "%s%s.", path, key) < (int)sizeof(inner) && take(found, member, inner)) {
                json_object_del(value, key);
                empty = json_object_size(value) == 0;
            }
        return empty;
    }
    if (rest != NULL && rest[0] == '\0')
        json_array_foreach (value, i, member)
            if (snprintf(inner, sizeof(inner), "%s%zu.", path, i) < (int)sizeof(inner))
                take(found, member, inner);
    if (rest != NULL && rest[0] != '\0') {
        snprintf(inner, sizeof(inner), "%.*s", (int)strlen(rest) - 1, rest);
        json_object_set(found, inner, value);
    }
    return rest != NULL;
}

static bool are_texts(const json_t *list)
{
    json_t *member;
    size_t i;
    json_array_foreach (list, i, member)
        if (!json_is_string(member))
            return false;
    return json_is_array(list);
}

/* Sets one setting (".lr") for each parameter in a list. */
static void spread(json_t *meta, const json_t *params, const char *key, json_t *value, const export_place *place)
{
    char text[2 * EXPORT_NAME];
    export_name read;
    json_t *param;
    size_t i;
    json_array_foreach (params, i, param) {
        snprintf(text, sizeof(text), "optimizer.%s.step", json_string_value(param));
        export_read_name(text, place, &read);
        snprintf(text, sizeof(text), "%s%s", read.name, key);
        set(meta, text, value);
    }
}

tess_status export_move_settings(json_t *meta, const export_place *place)
{
    char text[EXPORT_NAME];
    const char *name;
    json_t *value, *found = json_object();
    TESS_CHECK(found != NULL, TESS_E_NOMEM, "no memory for the optimizer's settings");
    take(found, meta, "");
    json_object_foreach (found, name, value) {
        size_t digits = strspn(name, "0123456789");
        snprintf(text, sizeof(text), "%.*s.params", (int)digits, name);
        const json_t *params = json_object_get(found, text);
        if (!are_texts(params))
            set(meta, name, value);
        else if (strcmp(name, text) != 0)
            spread(meta, params, name + digits, value, place);
    }
    json_decref(found);
    return TESS_OK;
}
