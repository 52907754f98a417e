/* Finds the text model in a config.json of a model of images and text. On text alone it computes the same: all three
 * positions of Qwen2-VL's rotation (mrope) are then equal, so it is the ordinary one. */
#include <string.h>

#include "base/text/json.h"
#include "base/text/text.h"
#include "nn/models/family.h"

typedef struct pictured {
    const char *model_type; /* type of the whole model */
    const char *text;       /* type of its text model, if text_config states none */
    const char *absent;     /* values of absent keys that are not those of the text model's family */
    bool tied;              /* tie_word_embeddings if it is absent */
    bool renames;           /* the text model's own type has a name that no family has */
} pictured;

static const char qwen2_absent[] =
    "{\"num_key_value_heads\":8,\"rms_norm_eps\":1e-5,\"rope_theta\":1e6,\"max_window_layers\":80,"
    "\"bos_token_id\":151643,\"eos_token_id\":151645}";
static const pictured pictured_models[] = {
    {"llava", "llama", "{}", false, false},
    {"mistral3", "mistral", "{}", true, false},
    {"gemma3", "gemma3_text", "{}", true, false},
    {"qwen2_vl", "qwen2", qwen2_absent, false, true},
    {"qwen2_5_vl", "qwen2", qwen2_absent, false, true},
};

static const pictured *find(const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    for (size_t i = 0; type != NULL && i < sizeof(pictured_models) / sizeof(pictured_models[0]); i++)
        if (strcmp(type, pictured_models[i].model_type) == 0)
            return &pictured_models[i];
    return NULL;
}

/* Qwen2-VL's kind of scaling has other positions for images only. */
static void drop_mrope(json_t *text)
{
    static const char *const objects[] = {"rope_scaling", "rope_parameters"}, *const kinds[] = {"type", "rope_type"};
    for (int i = 0; i < 4; i++) {
        json_t *rope = json_object_get(text, objects[i / 2]);
        const char *kind = json_string_value(json_object_get(rope, kinds[i % 2]));
        if (kind != NULL && strcmp(kind, "mrope") == 0)
            json_object_del(rope, kinds[i % 2]);
    }
}

static tess_status choose_tied(const json_t *json, const char *what, const pictured *p, json_t *text)
{
    bool tied = p->tied, stated = false;
    TESS_TRY(tess_json_get_bool(json, "tie_word_embeddings", what, &tied));
    TESS_TRY(tess_json_get_bool(text, "tie_word_embeddings", what, &stated));
    (void)json_object_set_new(text, "tie_word_embeddings", json_boolean(tied || (stated && !p->tied)));
    return TESS_OK;
}

tess_status tess_text_part(const json_t *json, const char *what, json_t **text)
{
    static const char *const shared[] = {"bos_token_id", "eos_token_id", "pad_token_id", "quantization_config"};
    const pictured *p = find(json);
    *text = NULL;
    if (p == NULL)
        return TESS_OK;
    const char *class = json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    TESS_CHECK(class == NULL || tess_text_ends_with(class, "ForConditionalGeneration"), TESS_E_UNSUPPORTED,
               "%s: architectures is '%s'; supported for %s: a class of its own ...ForConditionalGeneration", what,
               class, p->model_type);
    const json_t *stated = json_object_get(json, "text_config");
    TESS_CHECK(json_is_object(stated) || (stated == NULL && p->renames), TESS_E_FORMAT,
               "%s: '%s' needs text_config, an object, for its text model", what, p->model_type);
    json_auto_t *absent = NULL, *made = json_deep_copy(stated != NULL ? stated : json);
    TESS_TRY(tess_json_parse(p->absent, strlen(p->absent), what, true, &absent));
    TESS_CHECK(made != NULL, TESS_E_NOMEM, "%s: no memory for its text model", what);
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
        if (json_object_get(made, shared[i]) == NULL && json_object_get(json, shared[i]) != NULL)
            (void)json_object_set(made, shared[i], json_object_get(json, shared[i]));
    json_object_del(made, "architectures");
    if (p->renames || !tess_json_has(made, "model_type"))
        (void)json_object_set_new(made, "model_type", json_string(p->text));
    drop_mrope(made);
    (void)json_object_update_missing(made, absent);
    TESS_TRY(choose_tied(json, what, p, made));
    *text = json_incref(made);
    return TESS_OK;
}
