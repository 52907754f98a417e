#include "engine/model/adapter_merge.h"

#include <stdio.h>
#include <string.h>

#include "engine/model/model_file.h"
#include "engine/model/tied_head.h"
#include "base/mem/scoped.h"

struct tess_adapter_merge {
    tess_mem *mem;
    tess_model_config config;
    tess_model *model; /* the model with the adapter */
    tess_weights *weights;
    int newest;   /* index of the parameter A whose factors are loaded; -1: none */
    float *a, *b; /* the loaded factors A (rank, in) and B (out, rank) */
    double *row;  /* (in) one row of B A */
    int64_t n_in, n_out;
};

/* Finds the indices of A and B. Returns false if the parameter has no adapter. */
static bool find_factors(const tess_adapter_merge *m, const char *name, int *a, int *b)
{
    static const char suffix[] = ".weight";
    char text[TESS_PARAM_NAME_SIZE + 16];
    size_t n = strlen(name), k = strlen(suffix);
    if (n <= k || strcmp(name + n - k, suffix) != 0)
        return false;
    snprintf(text, sizeof(text), "%.*s.lora_A.weight", (int)(n - k), name);
    *a = tess_model_find_param(m->model, text);
    snprintf(text, sizeof(text), "%.*s.lora_B.weight", (int)(n - k), name);
    *b = tess_model_find_param(m->model, text);
    return *a >= 0 && *b >= 0;
}

static bool concerns(void *self, const char *name)
{
    int a, b;
    return find_factors(self, name, &a, &b);
}

static tess_status read_factor(tess_adapter_merge *m, int index, float **values)
{
    const tess_param *param = tess_model_param(m->model, index);
    const tess_box whole = tess_box_whole(&param->shape);
    TESS_TRY(tess_mem_alloc_array(m->mem, TESS_POOL_MISC, (size_t)tess_shape_count(&param->shape), sizeof(float),
                                  "adapter", (void **)values));
    return tess_weights_fill(m->weights, param->name, &param->shape, &whole, *values);
}

static void drop_factors(tess_adapter_merge *m)
{
    tess_mem_free(m->mem, m->a);
    tess_mem_free(m->mem, m->b);
    tess_mem_free(m->mem, m->row);
    m->a = m->b = NULL;
    m->row = NULL;
    m->newest = -1;
}

/* Loads A and B unless they are already loaded: consecutive calls are about slices of one tensor. */
static tess_status take_factors(tess_adapter_merge *m, int a, int b)
{
    if (m->newest == a)
        return TESS_OK;
    drop_factors(m);
    m->n_in = tess_model_param(m->model, a)->shape.dim[1];
    m->n_out = tess_model_param(m->model, b)->shape.dim[0];
    TESS_TRY(read_factor(m, a, &m->a));
    TESS_TRY(read_factor(m, b, &m->b));
    TESS_TRY(
        tess_mem_alloc_array(m->mem, TESS_POOL_MISC, (size_t)m->n_in, sizeof(double), "adapter", (void **)&m->row));
    m->newest = a;
    return TESS_OK;
}

/* row = (B A)[o, begin .. begin + n) */
static void product_row(const tess_adapter_merge *m, int64_t o, int64_t begin, int64_t n)
{
    int64_t rank = m->config.lora.rank;
    memset(m->row, 0, (size_t)n * sizeof(double));
    for (int64_t r = 0; r < rank; r++) {
        double factor = m->b[o * rank + r];
        const float *a = m->a + r * m->n_in + begin;
        for (int64_t i = 0; i < n; i++)
            m->row[i] += factor * (double)a[i];
    }
}

/* Adds the adapter's product to a slice. GPT-2 stores (in, out), the other families (out, in). */
static tess_status apply(void *self, const char *name, const tess_box *slice, float *values)
{
    tess_adapter_merge *m = self;
    int a, b, out = m->config.family == TESS_FAMILY_GPT2 ? 1 : 0, in = 1 - out;
    double scale = tess_lora_scale(&m->config.lora);
    if (!find_factors(m, name, &a, &b))
        return TESS_OK;
    TESS_TRY(take_factors(m, a, b));
    for (int64_t o = 0; o < slice->size[out]; o++) {
        product_row(m, slice->begin[out] + o, slice->begin[in], slice->size[in]);
        for (int64_t i = 0; i < slice->size[in]; i++) {
            float *value = &values[out == 0 ? o * slice->size[1] + i : i * slice->size[1] + o];
            *value = (float)((double)*value + scale * m->row[i]);
        }
    }
    return TESS_OK;
}

tess_status tess_adapter_merge_open(tess_mem *mem, const char *model, const char *config, const char *adapter,
                                    const tess_reporter *reporter, tess_adapter_merge **out)
{
    char path[1024];
    TESS_AUTO(tess_adapter_merge_close) tess_adapter_merge *m = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "merge", &m));
    *m = (tess_adapter_merge){.mem = mem, .newest = -1};
    TESS_TRY(tess_model_folder_file(config, "config.json", path, sizeof(path)));
    TESS_TRY(tess_model_config_load(path, &m->config));
    tess_untie_head(model, reporter, &m->config);
    TESS_TRY(tess_lora_load(adapter, &m->config.lora));
    TESS_TRY(tess_model_create(mem, &m->config, &m->model));
    TESS_TRY(tess_weights_open(mem, model, m->model, reporter, &m->weights));
    TESS_TRY(tess_weights_add_adapter(m->weights, adapter));
    *out = TESS_GIVE(m);
    return TESS_OK;
}

void tess_adapter_merge_close(tess_adapter_merge **handle)
{
    tess_adapter_merge *m = *handle;
    if (m == NULL)
        return;
    drop_factors(m);
    if (m->weights != NULL)
        tess_weights_report_broken(m->weights);
    tess_weights_close(&m->weights);
    tess_model_destroy(&m->model);
    tess_mem_drop(handle);
}

tess_rewrite_change tess_adapter_merge_change(tess_adapter_merge *merge)
{
    return (tess_rewrite_change){merge, concerns, apply};
}
