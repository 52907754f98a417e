#include "train/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct tess_weights {
    tess_mem *mem;
    const tess_model *model;
    const char *folder;
    tess_reporter reporter;
    tess_st_reader *reader;
    const tess_st_tensor **tensors; /* (n_params) */
    int32_t *broken;                /* (n_params) 1: holds values that are no numbers */
    const void **whole;             /* (n_params), NULL until asked for */
    void **owned;                   /* (n_params), converted copies */
};

int tess_model_find(const tess_model *model, const char *name)
{
    for (int i = 0; i < tess_model_n_params(model); i++)
        if (strcmp(tess_model_param(model, i)->name, name) == 0)
            return i;
    return -1;
}

const char *tess_weights_base_name(const char *name)
{
    bool has_prefix = strncmp(name, "transformer.", 12) == 0 || strncmp(name, "model.", 6) == 0;
    return has_prefix ? strchr(name, '.') + 1 : name;
}

static const tess_st_tensor *find_tensor(const tess_st_reader *reader, const char *name)
{
    const tess_st_tensor *tensor = tess_st_find(reader, name);
    return tensor != NULL ? tensor : tess_st_find(reader, tess_weights_base_name(name));
}

static bool same_shape(const tess_st_tensor *tensor, const tess_shape *shape)
{
    if (tensor->n_dims != shape->n_dims)
        return false;
    for (int d = 0; d < shape->n_dims; d++)
        if (tensor->dim[d] != shape->dim[d])
            return false;
    return true;
}

static void format_dims(const tess_st_tensor *tensor, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < tensor->n_dims && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d > 0 ? ", " : "", (long long)tensor->dim[d]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static tess_status match(tess_weights *w)
{
    int n_missing = 0, n = tess_model_n_params(w->model);
    const char *missing = NULL;
    for (int i = 0; i < n; i++) {
        const tess_param *param = tess_model_param(w->model, i);
        const tess_st_tensor *tensor = find_tensor(w->reader, param->name);
        w->tensors[i] = tensor;
        if (tensor == NULL) {
            missing = missing == NULL ? param->name : missing;
            n_missing++;
            continue;
        }
        if (!same_shape(tensor, &param->shape)) {
            char expected[128], found[128];
            format_dims(tensor, found, sizeof(found));
            return TESS_FAIL(
                TESS_E_FORMAT,
                "%s: tensor '%s' has shape %s, but config.json asks for %s: the file and config.json are not of "
                "the same model",
                tensor->file, tensor->name, found, tess_shape_format(&param->shape, expected, sizeof(expected)));
        }
    }
    TESS_CHECK(n_missing == 0, TESS_E_NOT_FOUND,
               "%s: %d of the %d tensors that config.json asks for are missing, the first is '%s'", w->folder,
               n_missing, n, missing);
    return TESS_OK;
}

bool tess_weights_is_extra(const char *name)
{
    static const char *const endings[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t n = strlen(name), m = strlen(endings[i]);
        if (n > m && strcmp(name + n - m, endings[i]) == 0)
            return true;
    }
    return false;
}

static void report_unused(tess_weights *w)
{
    int n_unused = 0;
    const char *first = NULL;
    bool tied = tess_model_get_config(w->model)->tied;
    for (int i = 0; i < tess_st_count(w->reader); i++) {
        const tess_st_tensor *tensor = tess_st_tensor_at(w->reader, i);
        bool used = tess_weights_is_extra(tensor->name) || (tied && strcmp(tensor->name, "lm_head.weight") == 0);
        for (int p = 0; p < tess_model_n_params(w->model) && !used; p++)
            used = w->tensors[p] == tensor;
        if (!used) {
            first = first == NULL ? tensor->name : first;
            n_unused++;
        }
    }
    if (n_unused > 0 && w->reporter.line != NULL) {
        char text[512];
        snprintf(text, sizeof(text), "warning: %s: %d tensors are not used by this model, the first is '%s'", w->folder,
                 n_unused, first);
        w->reporter.line(w->reporter.self, text);
    }
}

tess_status tess_weights_open(tess_mem *mem, const char *folder, const tess_model *model, const tess_reporter *reporter,
                              tess_weights **out)
{
    tess_weights *w;
    size_t n = (size_t)tess_model_n_params(model);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*w), "weights", (void **)&w));
    *w = (tess_weights){.mem = mem, .model = model, .folder = folder};
    if (reporter != NULL)
        w->reporter = *reporter;
    tess_status status;
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(*w->tensors), "weights", (void **)&w->tensors),
              opened);
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(*w->broken), "weights", (void **)&w->broken), opened);
    TESS_GOTO(tess_st_open_model(mem, folder, &w->reader), opened);
    TESS_GOTO(match(w), opened);
    report_unused(w);
    *out = w;
    return TESS_OK;
opened:
    tess_weights_close(&w);
    return status;
}

void tess_weights_close(tess_weights **handle)
{
    tess_weights *w = *handle;
    if (w == NULL)
        return;
    for (int i = 0; w->owned != NULL && i < tess_model_n_params(w->model); i++)
        tess_mem_free(w->mem, w->owned[i]);
    tess_mem_free(w->mem, w->owned);
    tess_mem_free(w->mem, w->whole);
    tess_mem_free(w->mem, w->broken);
    tess_mem_free(w->mem, w->tensors);
    tess_st_close(&w->reader);
    tess_mem_free(w->mem, w);
    *handle = NULL;
}

/* Whether any exponent is all ones. The loops are plain so that the compiler vectorises them. */
static bool any_broken_f32(const float *values, int64_t n)
{
    int broken = 0;
    for (int64_t i = 0; i < n; i++)
        broken |= !isfinite(values[i]);
    return broken != 0;
}

static bool any_broken_bf16(const uint16_t *values, int64_t n)
{
    int broken = 0;
    for (int64_t i = 0; i < n; i++)
        broken |= (values[i] & 0x7f80) == 0x7f80;
    return broken != 0;
}

int32_t *tess_weights_broken(tess_weights *w)
{
    return w->broken;
}

void tess_weights_report_broken(const tess_weights *w)
{
    for (int i = 0; i < tess_model_n_params(w->model) && w->reporter.line != NULL; i++) {
        char text[512];
        if (!w->broken[i])
            continue;
        snprintf(text, sizeof(text), "warning: %s: tensor '%s' holds NaN or infinite values", w->tensors[i]->file,
                 w->tensors[i]->name);
        w->reporter.line(w->reporter.self, text);
    }
}

tess_status tess_weights_fill(void *context, const char *name, int64_t row_begin, int64_t n_rows, float *dst)
{
    tess_weights *w = context;
    int index = tess_model_find(w->model, name);
    TESS_CHECK(index >= 0, TESS_E_INTERNAL, "the model has no parameter '%s'", name);
    TESS_TRY(tess_st_read_rows(w->tensors[index], row_begin, n_rows, dst));
    w->broken[index] |= any_broken_f32(dst, n_rows * tess_shape_row_count(&tess_model_param(w->model, index)->shape));
    return TESS_OK;
}

tess_dtype tess_weights_dtype(const tess_weights *w)
{
    for (int i = 0; i < tess_model_n_params(w->model); i++)
        if (strcmp(w->tensors[i]->dtype_text, "BF16") != 0)
            return TESS_F32;
    return TESS_BF16;
}

/* The file's own bytes when they are what the kernels read. */
static const void *mapped_as(const tess_st_tensor *tensor, tess_dtype dtype)
{
    const char *text = dtype == TESS_BF16 ? "BF16" : "F32";
    bool same = strcmp(tensor->dtype_text, text) == 0 && (uintptr_t)tensor->data % tess_dtype_size(dtype) == 0;
    return same ? tensor->data : NULL;
}

static tess_status make_whole(tess_weights *w, tess_stream *stream, tess_dtype dtype, int index)
{
    const tess_shape *shape = &tess_model_param(w->model, index)->shape;
    int64_t n = tess_shape_count(shape);
    float *wide;
    w->whole[index] = mapped_as(w->tensors[index], dtype);
    if (w->whole[index] != NULL) {
        w->broken[index] =
            dtype == TESS_BF16 ? any_broken_bf16(w->whole[index], n) : any_broken_f32(w->whole[index], n);
        return TESS_OK;
    }
    TESS_TRY(
        tess_mem_alloc_array(w->mem, TESS_POOL_PARAMS, (size_t)n, tess_dtype_size(dtype), "weights", &w->owned[index]));
    w->whole[index] = w->owned[index];
    if (dtype == TESS_F32)
        return tess_weights_fill(w, tess_model_param(w->model, index)->name, 0, tess_shape_rows(shape),
                                 w->owned[index]);
    TESS_TRY(tess_mem_alloc_array(w->mem, TESS_POOL_MISC, (size_t)n, sizeof(float), "weights", (void **)&wide));
    tess_status status = tess_weights_fill(w, tess_model_param(w->model, index)->name, 0, tess_shape_rows(shape), wide);
    if (status == TESS_OK)
        status = stream->kernels->convert(stream, wide, TESS_F32, w->owned[index], dtype, n);
    tess_mem_free(w->mem, wide);
    return status;
}

tess_status tess_weights_whole(tess_weights *w, tess_stream *stream, tess_dtype dtype, const void *const **out)
{
    size_t n = (size_t)tess_model_n_params(w->model);
    TESS_TRY(tess_mem_alloc_array(w->mem, TESS_POOL_MISC, n, sizeof(void *), "weights", (void **)&w->whole));
    TESS_TRY(tess_mem_alloc_array(w->mem, TESS_POOL_MISC, n, sizeof(void *), "weights", (void **)&w->owned));
    for (size_t i = 0; i < n; i++)
        TESS_TRY_CTX(make_whole(w, stream, dtype, (int)i), "load %s", w->folder);
    tess_weights_report_broken(w);
    *out = w->whole;
    return TESS_OK;
}

typedef struct random_rows {
    const tess_param *param;
    uint64_t seed;
    int64_t row_begin, row;
    float *dst;
} random_rows;

static void fill_random_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const random_rows *rows = context;
    (void)worker;
    tess_param_fill(rows->param, rows->seed, rows->row_begin + begin, end - begin, rows->dst + begin * rows->row);
}

tess_status tess_random_weights_fill(void *context, const char *name, int64_t row_begin, int64_t n_rows, float *dst)
{
    const tess_random_weights *random = context;
    int index = tess_model_find(random->model, name);
    TESS_CHECK(index >= 0, TESS_E_INTERNAL, "the model has no parameter '%s'", name);
    const tess_param *param = tess_model_param(random->model, index);
    random_rows rows = {param, random->seed, row_begin, tess_shape_row_count(&param->shape), dst};
    tess_threads_run(random->threads, fill_random_rows, &rows, n_rows, 64);
    return TESS_OK;
}
