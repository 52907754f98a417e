/* Selects the tensors of an export: their names and dtypes, and the scalars that PyTorch expects in addition. */
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "ckpt/formats/export_impl.h"
#include "ckpt/safetensors/safetensors.h"

enum { NAME_SIZE = EXPORT_NAME };

/* ---- The step ---- */
static bool find_int(const json_t *object, int64_t *value)
{
    static const char *const keys[] = {"step", "global_step", "global_steps", "iteration"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const json_t *found = json_object_get(object, keys[i]);
        if (json_is_integer(found)) {
            *value = json_integer_value(found);
            return true;
        }
    }
    return false;
}

static bool read_scalar(const tess_catalog *catalog, const char *name, int64_t *value)
{
    const tess_catalog_tensor *tensor = tess_catalog_find(catalog, name);
    const tess_box whole = {0};
    uint8_t data[8] = {0};
    int32_t narrow;
    if (tensor == NULL || tensor->n_dims != 0 || tensor->dtype[0] != 'I' ||
        tess_catalog_read(catalog, tensor, &whole, data) != TESS_OK)
        return false;
    memcpy(&narrow, data, sizeof(narrow));
    memcpy(value, data, sizeof(*value));
    if (tensor->element_bytes == sizeof(narrow))
        *value = narrow;
    return tensor->element_bytes >= (int)sizeof(narrow);
}

/* Returns the largest number of steps that PyTorch's optimizers count for a parameter, as a float32 scalar each; -1:
 * there is none. */
static int64_t read_optimizer_steps(const tess_catalog *catalog)
{
    const tess_box whole = {0};
    int64_t most = -1;
    export_place place;
    export_name read;
    if (export_find_place(catalog, NULL, &place) != TESS_OK)
        return most;
    for (int i = 0; i < catalog->n_tensors; i++) {
        const tess_catalog_tensor *tensor = &catalog->tensors[i];
        float value;
        export_read_name(tensor->name, &place, &read);
        if (read.suffix != NULL && strcmp(read.suffix, ".step") == 0 && tensor->n_dims == 0 &&
            tess_catalog_read_floats(catalog, tensor, &whole, &value) == TESS_OK && value >= 0 && value < 0x1p62f &&
            (int64_t)value > most)
            most = (int64_t)value;
    }
    tess_error_clear(); /* not an error: the step is only unknown then */
    return most;
}

int64_t tess_export_find_step(const tess_catalog *catalog)
{
    int64_t step;
    if (find_int(catalog->meta, &step) || find_int(json_object_get(catalog->meta, "meta"), &step) ||
        find_int(json_object_get(catalog->meta, "train_state"), &step) ||
        read_scalar(catalog, "train_state.step", &step))
        return step;
    return read_optimizer_steps(catalog);
}

/* ---- The list of tensors ---- */
typedef struct builder {
    tess_export *out;
    const tess_export_options *options;
    export_place place;
    size_t room;
    const json_t *settings; /* settings of the source's optimizer, borrowed; NULL: unknown */
} builder;

static tess_status add_tensor(builder *b, const char *name, tess_export_tensor **tensor)
{
    tess_export *out = b->out;
    TESS_TRY(tess_scope_make_room(tess_scope_of(out), (size_t)out->n_tensors, sizeof(**tensor), "export", &b->room,
                                  &out->tensors));
    tess_export_tensor *added = &out->tensors[out->n_tensors];
    *added = (tess_export_tensor){0};
    TESS_TRY(TESS_PART(out, strlen(name) + 1, "export", &added->name));
    strcpy(added->name, name);
    out->n_tensors++;
    *tensor = added;
    return TESS_OK;
}

/* Whether transformers keeps the weight in float32 whatever the dtype of the model is. */
static bool stays_f32(const char *name)
{
    return tess_text_ends_with(name, ".e_score_correction_bias");
}

static tess_status add_source(builder *b, const tess_catalog_tensor *source, const export_name *read, const char *name)
{
    tess_export_tensor *tensor;
    const char *dtype = source->dtype, *wanted = b->options->weights_dtype;
    if (wanted != NULL && read->kind == EXPORT_MODEL && tess_st_dtype_is_float(dtype))
        dtype = stays_f32(read->name) ? "F32" : wanted;
    TESS_TRY(add_tensor(b, name, &tensor));
    tensor->source = source;
    snprintf(tensor->dtype, sizeof(tensor->dtype), "%s", dtype);
    tensor->element_bytes = tess_st_dtype_bytes(dtype);
    tensor->n_dims = source->n_dims;
    memcpy(tensor->dim, source->dim, sizeof(tensor->dim));
    return TESS_OK;
}

static tess_status add_scalar(builder *b, const char *name, const char *dtype, const void *value)
{
    tess_export_tensor *tensor;
    if (tess_catalog_find(b->out->catalog, name) != NULL)
        return TESS_OK;
    TESS_TRY(add_tensor(b, name, &tensor));
    snprintf(tensor->dtype, sizeof(tensor->dtype), "%s", dtype);
    tensor->element_bytes = tess_st_dtype_bytes(dtype);
    memcpy(tensor->value, value, (size_t)tensor->element_bytes);
    return TESS_OK;
}

/* Adds what PyTorch's AdamW expects for a parameter in addition to its moments: the settings and, if the source does
 * not have it, the step. */
static tess_status add_state(builder *b, const export_name *read, const tess_catalog_tensor *moment)
{
    char name[NAME_SIZE];
    float step = (float)b->out->step;
    TESS_TRY(export_describe_settings(b->out->meta, b->settings, read->name, moment->n_dims >= 2));
    export_name of_step = *read;
    of_step.kind = EXPORT_STEP;
    of_step.suffix = ".step";
    snprintf(name, sizeof(name), "%.*s.step", (int)(strlen(moment->name) - strlen(read->suffix)), moment->name);
    if (tess_catalog_find(b->out->catalog, name) != NULL)
        return TESS_OK;
    if (b->out->step < 0 || !export_write_name(&of_step, "", TESS_NAMES_TORCHTITAN, name, sizeof(name)))
        return TESS_OK;
    return add_scalar(b, name, "F32", &step);
}

/* Whether the tensor belongs to another model or to a value head. A checkpoint of `tessera rl` contains these next to
 * the policy; only the run needs them. */
static bool is_beside(const tess_catalog *catalog, const export_name *read)
{
    static const char *const prefixes[] = {"critic.", "reference.", "v_head."};
    bool beside = false;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        beside |= strncmp(read->name, prefixes[i], strlen(prefixes[i])) == 0;
    return beside && strcmp(catalog->format, "tessera") == 0;
}

static tess_status add_all(builder *b)
{
    char name[NAME_SIZE];
    export_name read;
    const tess_catalog *catalog = b->out->catalog;
    bool model_only = b->options->model_only, titan = b->options->names == TESS_NAMES_TORCHTITAN && !model_only;
    if (titan)
        TESS_TRY(export_move_settings(b->out->meta, &b->place));
    for (int i = 0; i < catalog->n_tensors; i++) {
        const tess_catalog_tensor *source = &catalog->tensors[i];
        export_read_name(source->name, &b->place, &read);
        if ((model_only && (read.kind != EXPORT_MODEL || is_beside(catalog, &read))) ||
            !export_write_name(&read, source->name, b->options->names, name, sizeof(name)))
            continue;
        TESS_TRY(add_source(b, source, &read, name));
        if (titan && read.kind == EXPORT_MOMENT && strcmp(read.suffix, ".exp_avg") == 0)
            TESS_TRY(add_state(b, &read, source));
    }
    if (!titan)
        return TESS_OK;
    int32_t step = (int32_t)b->out->step;
    if (b->out->step >= 0)
        TESS_TRY(add_scalar(b, "train_state.step", "I32", &step));
    const json_t *n_tokens = json_object_get(json_object_get(catalog->meta, "meta"), "n_tokens");
    int64_t n = json_integer_value(n_tokens);
    return json_is_integer(n_tokens) ? add_scalar(b, "train_state.ntokens_seen", "I64", &n) : TESS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tess_export_tensor *)a)->name, ((const tess_export_tensor *)b)->name);
}

const tess_export_tensor *tess_export_find(const tess_export *out, const char *name)
{
    tess_export_tensor key = {.name = (char *)name};
    return out->n_tensors == 0 ? NULL : bsearch(&key, out->tensors, (size_t)out->n_tensors, sizeof(key), by_name);
}

static tess_status build(tess_export *out, const tess_export_options *options)
{
    json_t *meta = json_object_get(out->catalog->meta, "meta");
    builder b = {.out = out, .options = options};
    b.settings = json_object_get(meta, "optimizer");
    const char *dtype = options->weights_dtype;
    TESS_CHECK(dtype == NULL || strcmp(dtype, "F32") == 0 || strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0,
               TESS_E_INVALID, "weights cannot be written as '%s': F32, BF16 and F16 are known", dtype);
    tess_status status = export_find_place(out->catalog, options->model, &b.place);
    if (status == TESS_OK)
        status = add_all(&b);
    tess_mem_drop(&b.place.params);
    TESS_TRY(status);
    if (options->names == TESS_NAMES_SAME || options->names == TESS_NAMES_TESSERA)
        snprintf(out->model_prefix, sizeof(out->model_prefix), "%.255s",
                 options->names == TESS_NAMES_TESSERA ? "model." : b.place.model);
    if (out->n_tensors > 0)
        qsort(out->tensors, (size_t)out->n_tensors, sizeof(out->tensors[0]), by_name);
    for (int i = 1; i < out->n_tensors; i++)
        TESS_CHECK(strcmp(out->tensors[i - 1].name, out->tensors[i].name) != 0, TESS_E_INVALID,
                   "%s: two tensors would be called '%s'", out->catalog->path, out->tensors[i].name);
    return TESS_OK;
}

tess_status tess_export_create(const tess_catalog *catalog, const tess_export_options *options, tess_export **out)
{
    TESS_AUTO(tess_export_destroy) tess_export *made = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(catalog->mem, 1, "export", &made));
    *made = (tess_export){.mem = catalog->mem, .catalog = catalog, .step = tess_export_find_step(catalog)};
    bool model_only = options->model_only || options->names == TESS_NAMES_BARE;
    made->meta = model_only ? json_object() : json_deep_copy(catalog->meta);
    json_object_del(made->meta, "model_prefix");
    TESS_TRY(build(made, options));
    *out = TESS_GIVE(made);
    return TESS_OK;
}

void tess_export_destroy(tess_export **out)
{
    tess_export *made = *out;
    if (made == NULL)
        return;
    json_decref(made->meta);
    tess_mem_drop(out);
}
