#include "engine/model/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "ckpt/store/tensor.h"
#include "device/finite.h"

/* A checkpoint whose tensors are listed under the model's names. */
typedef struct weights_files {
    tess_catalog *catalog;
    tess_export *list;
} weights_files;

struct tess_weights {
    tess_mem *mem;
    const tess_model *model;
    tess_reporter reporter;
    weights_files files[2];         /* files[0]: of the model; files[1]: of its adapter */
    tess_catalog_request *requests; /* (n_params) requests for whole tensors */
    int32_t *broken;                /* (n_params) 1: the tensor has NaN or infinite values */
    const void **whole;             /* (n_params) whole parameters; NULL until requested */
    void **owned;                   /* (n_params) copies that must be freed */
};

static tess_status find_param(const tess_model *model, const char *name, int *index)
{
    *index = tess_model_find_param(model, name);
    TESS_CHECK(*index >= 0, TESS_E_INTERNAL, "the model has no parameter '%s'", name);
    return TESS_OK;
}

tess_status tess_weights_list(const tess_catalog *catalog, const tess_model *model, tess_export **list)
{
    return tess_export_create(catalog, &(tess_export_options){.names = TESS_NAMES_TESSERA, .model = model}, list);
}

const tess_catalog_tensor *tess_weights_find(const tess_export *list, const char *name)
{
    char stored[TESS_STORE_NAME];
    tess_store_tensor_name(NULL, name, stored);
    const tess_export_tensor *found = tess_export_find(list, stored);
    return found != NULL ? found->source : NULL;
}

static const weights_files *files_of(const tess_weights *w, int index)
{
    return &w->files[tess_model_param(w->model, index)->adapter];
}

/* Matches the parameters of the model, or of its adapter, with the tensors of the checkpoint. */
static tess_status match(tess_weights *w, bool adapter)
{
    const weights_files *files = &w->files[adapter];
    const char *described = adapter ? "adapter_config.json" : "config.json", *missing = NULL;
    int n_missing = 0, n_asked = 0;
    for (int i = 0; i < tess_model_n_params(w->model); i++) {
        const tess_param *param = tess_model_param(w->model, i);
        char expected[128], found[200];
        if (param->adapter != adapter)
            continue;
        n_asked++;
        const tess_catalog_tensor *tensor = tess_weights_find(files->list, param->name);
        if (tensor == NULL && param->beside)
            continue;
        if (tensor == NULL) {
            missing = n_missing++ == 0 ? param->name : missing;
            continue;
        }
        TESS_CHECK(tess_catalog_has_shape(tensor, &param->shape), TESS_E_FORMAT,
                   "%s: tensor '%s' has shape %s, but %s asks for %s: the file and %s are not of the same model",
                   tess_catalog_file_of(files->catalog, tensor), tensor->name,
                   tess_dims_format(tensor->n_dims, tensor->dim, found, sizeof(found)), described,
                   tess_shape_format(&param->shape, expected, sizeof(expected)),
                   adapter ? "the model's folder" : described);
        w->requests[i] = (tess_catalog_request){.tensor = tensor, .box = tess_catalog_whole(tensor)};
    }
    TESS_CHECK(n_missing == 0, TESS_E_NOT_FOUND,
               "%s: %d of the %d tensors that %s asks for are missing, the first is '%s'", files->catalog->path,
               n_missing, n_asked, described, missing);
    return TESS_OK;
}

int tess_weights_count_unused(const tess_export *list, const tess_catalog_request *requests, int n, bool tied,
                              const char **first)
{
    int n_unused = 0;
    const tess_catalog_tensor *head = tied ? tess_weights_find(list, "lm_head.weight") : NULL;
    for (int i = 0; i < list->n_tensors; i++) {
        const tess_export_tensor *t = &list->tensors[i];
        bool used = tess_export_is_no_weight(t->name) || strncmp(t->name, "optimizer.", 10) == 0 || t->source == head;
        for (int k = 0; k < n && !used; k++)
            used = requests[k].tensor == t->source;
        if (!used)
            *first = n_unused++ == 0 ? t->source->name : *first;
    }
    return n_unused;
}

static void report_unused(const tess_weights *w)
{
    const char *first;
    char text[512];
    const tess_model_config *config = tess_model_get_config(w->model);
    int n = tess_weights_count_unused(w->files[0].list, w->requests, tess_model_n_params(w->model),
                                      config->tied || config->n_outputs > 0, &first);
    if (n == 0 || w->reporter.line == NULL)
        return;
    snprintf(text, sizeof(text),
             config->text_part
                 ? "note: %s: images are not read: the text model is loaded without the other %d tensors, "
                   "such as those of a vision tower; the first is '%s'"
                 : "warning: %s: %d tensors are not used by this model, the first is '%s'",
             w->files[0].catalog->path, n, first);
    w->reporter.line(w->reporter.self, text);
}

tess_status tess_weights_open(tess_mem *mem, const char *path, const tess_model *model, const tess_reporter *reporter,
                              tess_weights **out)
{
    TESS_AUTO(tess_weights_close) tess_weights *w = NULL;
    size_t n = (size_t)tess_model_n_params(model);
    TESS_TRY(TESS_NEW(mem, 1, "weights", &w));
    *w = (tess_weights){.mem = mem, .model = model};
    if (reporter != NULL)
        w->reporter = *reporter;
    TESS_TRY(TESS_PART(w, n, "weights", &w->requests));
    TESS_TRY(TESS_PART(w, n, "weights", &w->broken));
    TESS_TRY(tess_catalog_open(mem, path, &w->files[0].catalog));
    TESS_TRY(tess_weights_list(w->files[0].catalog, model, &w->files[0].list));
    TESS_TRY(match(w, false));
    report_unused(w);
    *out = TESS_GIVE(w);
    return TESS_OK;
}

tess_status tess_weights_add_adapter(tess_weights *w, const char *folder)
{
    weights_files *files = &w->files[1];
    char path[1024];
    const char *first;
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "adapter_model.safetensors"));
    TESS_CHECK(tess_os_is_file(path), TESS_E_NOT_FOUND, "%s: no such file: the adapter is not whole", path);
    TESS_TRY(tess_catalog_open(w->mem, path, &files->catalog));
    TESS_TRY(tess_weights_list(files->catalog, w->model, &files->list));
    TESS_TRY(match(w, true));
    int n = tess_weights_count_unused(files->list, w->requests, tess_model_n_params(w->model), false, &first);
    TESS_CHECK(n == 0, TESS_E_FORMAT,
               "%s: %d tensors fit nothing in this model, the first is '%s': it is an adapter of "
               "another model",
               path, n, first);
    return TESS_OK;
}

void tess_weights_close(tess_weights **handle)
{
    tess_weights *w = *handle;
    if (w == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        tess_export_destroy(&w->files[i].list);
        tess_catalog_destroy(&w->files[i].catalog);
    }
    tess_mem_drop(handle);
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
        snprintf(text, sizeof(text), "warning: %s: tensor '%s' holds NaN or infinite values",
                 tess_catalog_file_of(files_of(w, i)->catalog, w->requests[i].tensor), w->requests[i].tensor->name);
        w->reporter.line(w->reporter.self, text);
    }
}

tess_status tess_weights_fill(void *context, const char *name, TESS_UNUSED const tess_shape *shape, const tess_box *box,
                              float *dst)
{
    tess_weights *w = context;
    int index;
    TESS_TRY(find_param(w->model, name, &index));
    const tess_catalog_tensor *tensor = w->requests[index].tensor;
    const tess_catalog *catalog = files_of(w, index)->catalog;
    if (tensor == NULL && tess_model_param(w->model, index)->beside) {
        tess_param_fill(tess_model_param(w->model, index), 0, box, dst);
        return TESS_OK;
    }
    TESS_CHECK(tensor != NULL, TESS_E_NOT_FOUND, "%s: no tensor '%s'", w->files[0].catalog->path, name);
    TESS_TRY(tess_catalog_read_floats(catalog, tensor, box, dst));
    int64_t n = tess_box_count(tensor->n_dims, box);
    w->broken[index] |= !tess_all_finite(dst, TESS_F32, n);
    return TESS_OK;
}

tess_dtype tess_weights_dtype(const tess_weights *w)
{
    for (int i = 0; i < tess_model_n_params(w->model); i++)
        if (!tess_model_param(w->model, i)->adapter && !tess_model_param(w->model, i)->wide &&
            strcmp(w->requests[i].tensor->dtype, "BF16") != 0)
            return TESS_F32;
    return TESS_BF16;
}

static tess_status read_whole(tess_weights *w, tess_stream *stream, int index, bool floats, void *dst)
{
    tess_catalog_request *request = &w->requests[index];
    request->floats = floats;
    request->dst = dst;
    return tess_catalog_read_all(files_of(w, index)->catalog, tess_stream_threads(stream), request, 1);
}

/* Reads float32 and converts it to `dtype` in w->owned. */
static tess_status read_converted(tess_weights *w, tess_stream *stream, tess_dtype dtype, int index, int64_t n)
{
    TESS_AUTO(tess_mem_drop) float *wide = NULL;
    TESS_TRY(tess_mem_alloc_array(w->mem, TESS_POOL_MISC, (size_t)n, sizeof(float), "weights", (void **)&wide));
    TESS_TRY(read_whole(w, stream, index, true, wide));
    w->broken[index] = !tess_all_finite(wide, TESS_F32, n);
    return tess_stream_kernels(stream)->convert(
        stream, &(tess_convert_args){.x = wide, .from = TESS_F32, .y = w->owned[index], .to = dtype, .n = n});
}

static bool is_stored_as(const tess_catalog_tensor *tensor, tess_dtype dtype)
{
    return strcmp(tensor->dtype, dtype == TESS_BF16 ? "BF16" : "F32") == 0;
}

tess_status tess_weights_map(tess_weights *w, tess_dtype dtype, int index, const void **data)
{
    const tess_catalog_tensor *tensor = w->requests[index].tensor;
    dtype = tess_param_dtype(tess_model_param(w->model, index), dtype);
    *data = NULL;
    return tensor != NULL && is_stored_as(tensor, dtype) ? tess_catalog_map(files_of(w, index)->catalog, tensor, data)
                                                         : TESS_OK;
}

/* Maps a tensor if kernels can read it in place, else reads it into memory. */
static tess_status make_whole(tess_weights *w, tess_stream *stream, tess_dtype dtype, int index)
{
    const tess_param *param = tess_model_param(w->model, index);
    int64_t n = tess_shape_count(&param->shape);
    TESS_CHECK(w->requests[index].tensor != NULL, TESS_E_NOT_FOUND, "no tensor '%s'", param->name);
    dtype = tess_param_dtype(param, dtype);
    bool same = is_stored_as(w->requests[index].tensor, dtype);
    TESS_TRY(tess_weights_map(w, dtype, index, &w->whole[index]));
    if (w->whole[index] == NULL) {
        TESS_TRY(tess_scope_alloc(tess_scope_of(w), TESS_POOL_PARAMS, (size_t)n, tess_dtype_size(dtype), "weights",
                                  &w->owned[index]));
        w->whole[index] = w->owned[index];
        if (!same && dtype != TESS_F32)
            return read_converted(w, stream, dtype, index, n);
        TESS_TRY(read_whole(w, stream, index, !same, w->owned[index]));
    }
    w->broken[index] = !tess_all_finite(w->whole[index], dtype, n);
    return TESS_OK;
}

tess_status tess_weights_whole(tess_weights *w, tess_stream *stream, tess_dtype dtype, const void *const **out)
{
    size_t n = (size_t)tess_model_n_params(w->model);
    TESS_TRY(TESS_PART(w, n, "weights", &w->whole));
    TESS_TRY(TESS_PART(w, n, "weights", &w->owned));
    for (size_t i = 0; i < n; i++)
        TESS_TRY_CTX(make_whole(w, stream, dtype, (int)i), "load %s", w->files[0].catalog->path);
    tess_weights_report_broken(w);
    *out = w->whole;
    return TESS_OK;
}

typedef struct random_box {
    const tess_param *param;
    uint64_t seed;
    const tess_box *box;
    float *dst;
} random_box;

static void fill_random_rows(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const random_box *whole = context;
    tess_box rows = *whole->box;
    rows.begin[0] += begin;
    rows.size[0] = 1;
    int64_t row = tess_box_count(tess_shape_atleast_1d(&whole->param->shape).n_dims, &rows);
    rows.size[0] = end - begin;
    tess_param_fill(whole->param, whole->seed, &rows, whole->dst + begin * row);
}

tess_status tess_random_weights_fill(void *context, const char *name, TESS_UNUSED const tess_shape *shape,
                                     const tess_box *box, float *dst)
{
    const tess_random_weights *random = context;
    int index;
    TESS_TRY(find_param(random->model, name, &index));
    const tess_param *param = tess_model_param(random->model, index);
    random_box whole = {param, random->seed, box, dst};
    tess_threads_run(random->threads, fill_random_rows, &whole, box->size[0], 64);
    return TESS_OK;
}
