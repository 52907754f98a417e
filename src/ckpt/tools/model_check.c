/* Checks that what is written into a model folder is the model that its config.json describes. transformers initialises
 * parameters that it does not find, and only warns. */
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "ckpt/tools/rewrite_impl.h"
#include "nn/models/family.h"

enum { MAX_CONFIG = 16 << 20, N_LISTED = 10 };

static tess_status parse_config(const json_t *json, const char *path, tess_model_config *config)
{
    TESS_TRY(tess_model_config_parse(json, path, config));
    if (config->text_part)
        return TESS_OK;
    char class[TESS_FAMILY_CLASS];
    const char *of = tess_family_architecture(config, class);
    const char *asked = json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    TESS_CHECK(asked == NULL || strcmp(asked, of) == 0, TESS_E_UNSUPPORTED, "%s: architectures is '%s'; known is '%s'",
               path, asked, of);
    return TESS_OK;
}

tess_status rewrite_read_model(rewriting *r)
{
    char path[TESS_REWRITE_PATH];
    json_t *json;
    tess_model_config config;
    TESS_TRY(tess_os_join(path, sizeof(path), r->assets, "config.json"));
    TESS_TRY(tess_json_load(path, MAX_CONFIG, &json));
    tess_status status = parse_config(json, path, &config);
    json_decref(json);
    if (status == TESS_OK && config.text_part)
        rewrite_report(r, "names and shapes of tensors are not checked: %s: it describes a model of images and text",
                       path);
    if (status == TESS_OK)
        return tess_model_create(r->mem, &config, &r->model);
    rewrite_report(r, "names and shapes of tensors are not checked: %s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* A list of mismatches: the first ones as text, and their number. */
typedef struct misfits {
    char text[1400];
    size_t n_text;
    int n;
} misfits;

static void note_misfit(misfits *m, const char *name, const char *what)
{
    if (m->n < N_LISTED)
        m->n_text =
            tess_text_add(m->text, sizeof(m->text), m->n_text, "%s'%.64s' %s", m->n > 0 ? ", " : "", name, what);
    m->n++;
}

static void check_param(const rewriting *r, const tess_param *param, misfits *m)
{
    char what[96], asked[32], found[32];
    const tess_export_tensor *t = tess_export_find(r->export, param->name);
    if (t == NULL) {
        note_misfit(m, param->name, "is missing");
    } else if (!tess_catalog_has_shape(t->source, &param->shape)) {
        snprintf(what, sizeof(what), "has shape %s, not %s", tess_dims_format(t->n_dims, t->dim, found, sizeof(found)),
                 tess_shape_format(&param->shape, asked, sizeof(asked)));
        note_misfit(m, param->name, what);
    }
}

static bool is_known(const tess_model *model, const char *name)
{
    bool tied_head = tess_model_get_config(model)->tied && strcmp(name, "lm_head.weight") == 0;
    return tess_model_find_param(model, name) >= 0 || tied_head || tess_export_is_no_weight(name);
}

/* A model of images and text has other tensors next to those of its text model. */
static tess_status check_images(const rewriting *r)
{
    int i = 0;
    while (i < r->export->n_tensors && is_known(r->model, r->export->tensors[i].name))
        i++;
    TESS_CHECK(i < r->export->n_tensors, TESS_E_INVALID,
               "%.200s holds a text model alone, but %.200s/config.json describes a model of images and text: name the "
               "folder of the text model's own config.json with --assets (a run leaves it in 'model')",
               r->in, r->assets);
    return TESS_OK;
}

tess_status rewrite_check_model(const rewriting *r)
{
    misfits m = {.n = 0};
    if (tess_model_get_config(r->model)->text_part)
        return check_images(r);
    for (int i = 0; i < tess_model_n_params(r->model); i++)
        check_param(r, tess_model_param(r->model, i), &m);
    for (int i = 0; i < r->export->n_tensors; i++)
        if (!is_known(r->model, r->export->tensors[i].name))
            note_misfit(&m, r->export->tensors[i].name, "is none of its tensors");
    TESS_CHECK(m.n == 0, TESS_E_INVALID,
               "%.200s does not hold the model of %.200s/config.json: %d misfits: %s%s; name the folder of the right "
               "config.json with --assets, or save the model's own state_dict()",
               r->in, r->assets, m.n, m.text, m.n > N_LISTED ? ", ..." : "");
    return TESS_OK;
}
