/* Copies the files next to a model's weights: configuration, tokenizer, licence. They come from the source if it is a
 * model folder, from a folder that the user names, or from where jobs store their model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "ckpt/formats/formats.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/tools/rewrite_impl.h"

enum {
    MAX_DEPTH = 64,
    MAX_CONFIG = 64 << 20,
    LEVELS = 4 /* folders to search upwards: "job/checkpoint/step-00000012" is two levels below the job's folder */
};

/* ---- config.json */
/* Sets "dtype" (transformers 5) and "torch_dtype" (transformers 4), also in the sub-configurations of composite models.
 * Returns how many entries it set. */
static int set_dtype(json_t *config, const char *name, int depth)
{
    const char *key;
    json_t *value;
    void *next;
    int n_set = 0;
    json_object_foreach_safe (config, next, key, value) {
        if (json_is_object(value) && depth < 4)
            n_set += set_dtype(value, name, depth + 1);
        if (json_is_string(value) && (strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0)) {
            json_string_set(value, name);
            n_set++;
        }
    }
    return n_set;
}

/* Appends a number, a string or a constant. Numbers get their shortest text (1e-06), which jansson does not produce. */
static tess_status emit_scalar(tess_buffer *out, const json_t *value)
{
    char text[64];
    if (json_is_real(value)) {
        tess_format_double(json_real_value(value), text, sizeof(text));
        return tess_buffer_printf(out, "%s%s", text, strpbrk(text, ".en") == NULL ? ".0" : "");
    }
    TESS_AUTO(tess_malloc_drop) char *dumped = json_dumps(value, JSON_ENCODE_ANY);
    TESS_CHECK(dumped != NULL, TESS_E_NOMEM, "config.json");
    return tess_buffer_printf(out, "%s", dumped);
}

/* Appends a value in the format of Python's json.dumps(indent=2). */
static tess_status emit(tess_buffer *out, json_t *value, int depth)
{
    bool object = json_is_object(value);
    if (!object && !json_is_array(value))
        return emit_scalar(out, value);
    TESS_CHECK(depth < MAX_DEPTH, TESS_E_UNSUPPORTED, "config.json is nested deeper than %d", MAX_DEPTH);
    size_t n = object ? json_object_size(value) : json_array_size(value);
    void *member = json_object_iter(value);
    TESS_TRY(tess_buffer_printf(out, object ? "{" : "["));
    for (size_t i = 0; i < n; i++) {
        TESS_TRY(tess_buffer_printf(out, "%s\n%*s", i > 0 ? "," : "", 2 * depth + 2, ""));
        if (object) {
            json_t *key = json_string(json_object_iter_key(member));
            tess_status status = emit_scalar(out, key);
            json_decref(key);
            TESS_TRY(status);
            TESS_TRY(tess_buffer_printf(out, ": "));
        }
        TESS_TRY(emit(out, object ? json_object_iter_value(member) : json_array_get(value, i), depth + 1));
        member = json_object_iter_next(value, member);
    }
    if (n > 0)
        TESS_TRY(tess_buffer_printf(out, "\n%*s", 2 * depth, ""));
    return tess_buffer_printf(out, object ? "}" : "]");
}

/* Removes the description of MXFP4 unless the export has such blocks: reading widens the blocks of gpt-oss. Returns
 * whether it was there. */
static bool drop_mxfp4(const rewriting *r, json_t *config)
{
    const char *method =
        json_string_value(json_object_get(json_object_get(config, "quantization_config"), "quant_method"));
    if (method == NULL || strcmp(method, "mxfp4") != 0)
        return false;
    for (int i = 0; i < r->export->n_tensors; i++)
        if (tess_text_ends_with(r->export->tensors[i].name, "_blocks"))
            return false;
    return json_object_del(config, "quantization_config") == 0;
}

/* Copies config.json and changes its dtype; NULL: the dtype stays. */
static tess_status write_config(const rewriting *r, const char *from, const char *to, const char *dtype)
{
    json_auto_t *config = NULL;
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = r->mem};
    TESS_TRY(tess_json_load(from, MAX_CONFIG, &config));
    TESS_CHECK(json_is_object(config), TESS_E_FORMAT, "%s: not an object", from);
    if (!drop_mxfp4(r, config) && dtype == NULL)
        return tess_os_copy(from, to);
    if (dtype != NULL && set_dtype(config, dtype, 0) == 0)
        json_object_set_new(config, "torch_dtype", json_string(dtype));
    TESS_TRY(emit(&text, config, 0));
    TESS_TRY(tess_buffer_printf(&text, "\n"));
    return tess_os_write_atomic(to, text.data, text.size);
}

/* ---- Files next to it */
typedef enum companion { COPIED, IGNORED, LEFT_OUT } companion;

static companion classify(const char *name)
{
    static const char *const suffixes[] = {".json", ".txt", ".model", ".jinja", ".md", ".tiktoken", ".py"};
    static const char *const papers[] = {"LICENSE", "LICENCE", "NOTICE", "README", "USE_POLICY"};
    if (name[0] == '.' || strcmp(name, "config.json") == 0 || tess_text_ends_with(name, ".safetensors") ||
        tess_text_ends_with(name, ".safetensors.index.json"))
        return IGNORED; /* IGNORED: hidden, or written by the conversion itself */
    if (tess_text_ends_with(name, ".index.json"))
        return LEFT_OUT;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (tess_text_ends_with(name, suffixes[i]))
            return COPIED;
    for (size_t i = 0; i < sizeof(papers) / sizeof(papers[0]); i++)
        if (strncmp(name, papers[i], strlen(papers[i])) == 0)
            return COPIED;
    return LEFT_OUT;
}

typedef struct copying {
    const rewriting *r;
    const char *from, *to; /* source folder and target folder */
} copying;

static tess_status copy_companion(void *context, const char *name)
{
    const copying *c = context;
    char from[TESS_REWRITE_PATH], to[TESS_REWRITE_PATH];
    companion what = classify(name);
    TESS_TRY(tess_os_join(from, sizeof(from), c->from, name));
    TESS_TRY(tess_os_join(to, sizeof(to), c->to, name));
    if (what == IGNORED)
        return TESS_OK;
    if (what == COPIED && tess_os_is_file(from))
        return tess_os_copy(from, to);
    rewrite_report(c->r, "%s is left out: neither safetensors nor a file that a model needs", from);
    return TESS_OK;
}

/* Finds config.json in the source's folder, in the folders above it, or in their "model" folders, where jobs store
 * their model. */
static bool find_assets(const rewriting *r, char folder[TESS_REWRITE_PATH])
{
    char above[TESS_REWRITE_PATH], next[TESS_REWRITE_PATH];
    char *slash = snprintf(above, sizeof(above), "%s", r->in) > 0 ? strrchr(above, '/') : NULL;
    if (tess_os_is_file(r->in))
        snprintf(slash != NULL ? slash : above, 2, "%s", slash != NULL ? "" : ".");
    for (int level = 0; level < LEVELS; level++) {
        bool fits = tess_os_join(folder, TESS_REWRITE_PATH, above, "model") == TESS_OK;
        if (fits && tess_folder_holds(folder, "config.json"))
            return true;
        snprintf(folder, TESS_REWRITE_PATH, "%s", above);
        if (tess_folder_holds(folder, "config.json"))
            return true;
        if (tess_os_join(next, sizeof(next), above, "..") != TESS_OK || !tess_os_is_dir(next))
            break;
        snprintf(above, sizeof(above), "%s", next);
    }
    tess_error_clear();
    return false;
}

/* Returns the dtype that config.json must state: the one that the user asked for, or the one that all floating-point
 * tensors have. NULL: config.json stays unchanged. */
static const char *config_dtype(const rewriting *r)
{
    const tess_export *e = r->export;
    const char *text = r->same_model ? r->options->weights_dtype : NULL;
    for (int i = 0; i < e->n_tensors && !r->same_model; i++) {
        const char *dtype = e->tensors[i].dtype;
        if (text != NULL && dtype[0] != 'I' && strcmp(dtype, text) != 0)
            return NULL;
        text = dtype[0] != 'I' ? dtype : text;
    }
    bool known = text != NULL && tess_st_dtype_is_float(text) && tess_st_dtype_parse(text) != TESS_DTYPE_COUNT;
    return known ? tess_dtype_name(tess_st_dtype_parse(text)) : NULL;
}

tess_status rewrite_find_assets(rewriting *r)
{
    const char *named = r->same_model ? r->in : r->options->assets;
    TESS_CHECK(named == NULL || r->same_model || tess_folder_holds(named, "config.json"), TESS_E_NOT_FOUND,
               "%s: there is no config.json in it", named);
    if (named != NULL)
        snprintf(r->assets, sizeof(r->assets), "%s", named);
    else if (!find_assets(r, r->assets))
        r->assets[0] = '\0';
    return TESS_OK;
}

tess_status rewrite_assets(const rewriting *r, const char *folder)
{
    char from[TESS_REWRITE_PATH], to[TESS_REWRITE_PATH];
    if (r->assets[0] == '\0') {
        rewrite_report(r,
                       "no config.json beside %s or above it: the new folder holds weights alone; "
                       "--assets FOLDER says where configuration and tokenizer are",
                       r->in);
        return TESS_OK;
    }
    copying c = {.r = r, .from = r->assets, .to = folder};
    TESS_TRY(tess_os_list(r->assets, copy_companion, &c));
    TESS_TRY(tess_os_join(from, sizeof(from), r->assets, "config.json"));
    TESS_TRY(tess_os_join(to, sizeof(to), folder, "config.json"));
    if (!tess_os_is_file(from)) {
        rewrite_report(r, "%s is missing: the new folder has none either", from);
        return TESS_OK;
    }
    return write_config(r, from, to, config_dtype(r));
}
