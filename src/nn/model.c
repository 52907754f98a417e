#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "nn/models/family.h"

tess_status tess_model_create(tess_mem *mem, const tess_model_config *config, tess_model **out)
{
    *out = NULL;
    TESS_TRY(tess_model_config_check(config, "model"));
    tess_status status;
    void *block = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_model), "model", &block));
    tess_model *model = block;
    model->mem = mem;
    model->config = *config;
    model->n_units = (int)config->n_layers + 2;
    size_t most = (size_t)config->n_layers * TESS_LAYER_MAX_PARAMS + 8, n_units = (size_t)model->n_units;
    TESS_GOTO(
        tess_mem_alloc_array(mem, TESS_POOL_MISC, most, sizeof(tess_param), "parameter table", (void **)&model->params),
        model);
    TESS_GOTO(
        tess_mem_alloc_array(mem, TESS_POOL_MISC, n_units + 1, sizeof(int), "unit table", (void **)&model->unit_first),
        model);
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, n_units, sizeof(model->unit_names[0]), "unit names",
                                   (void **)&model->unit_names),
              model);
    snprintf(model->unit_names[0], sizeof(model->unit_names[0]), "embed");
    snprintf(model->unit_names[n_units - 1], sizeof(model->unit_names[0]), "head");
    tess_family_find(config->family)->build(model);
    *out = model;
    return TESS_OK;
model:
    tess_model_destroy(&model);
    return status;
}

void tess_model_destroy(tess_model **model)
{
    if (*model == NULL)
        return;
    tess_mem *mem = (*model)->mem;
    tess_mem_free(mem, (*model)->unit_names);
    tess_mem_free(mem, (*model)->unit_first);
    tess_mem_free(mem, (*model)->params);
    tess_mem_free(mem, *model);
    *model = NULL;
}

const tess_model_config *tess_model_get_config(const tess_model *model)
{
    return &model->config;
}

int tess_model_n_params(const tess_model *model)
{
    return model->n_params;
}

const tess_param *tess_model_param(const tess_model *model, int index)
{
    return &model->params[index];
}

int tess_model_n_units(const tess_model *model)
{
    return model->n_units;
}

const char *tess_model_unit_name(const tess_model *model, int unit)
{
    return model->unit_names[unit];
}

void tess_model_unit_params(const tess_model *model, int unit, int *first, int *n)
{
    *first = model->unit_first[unit];
    *n = model->unit_first[unit + 1] - *first;
}

int64_t tess_model_count(const tess_model *model)
{
    int64_t count = 0;
    for (int i = 0; i < model->n_params; i++)
        count += tess_shape_count(&model->params[i].shape);
    return count;
}

/* 6 N + 12 L H D T as torchtitan counts (forward 2, backward 4 a weight; two T-long products a head, not halved for the
 * causal mask, but no longer than the layer's window): N are the weights of matrices that multiply each token, with the
 * head and without the embeddings' look-ups. */
double tess_model_flops_per_token(const tess_model *model, int64_t seq_len)
{
    const tess_model_config *c = &model->config;
    double n = (double)c->vocab_size * (double)c->hidden_size, attention = 0;
    for (int i = model->unit_first[1]; i < model->unit_first[model->n_units - 1]; i++)
        if (model->params[i].shape.n_dims == 2)
            n += (double)tess_shape_count(&model->params[i].shape);
    for (int64_t l = 0; l < c->n_layers; l++) {
        bool windowed = c->sliding_window > 0 && l >= c->full_layers && c->sliding_window < seq_len;
        attention += 12.0 * (double)(c->n_heads * c->head_size) * (double)(windowed ? c->sliding_window : seq_len);
    }
    return 6 * n + attention;
}

void tess_param_fill(const tess_param *param, uint64_t seed, int64_t row_begin, int64_t n_rows, float *dst)
{
    int64_t row = tess_shape_row_count(&param->shape), n = n_rows * row;
    if (param->init == TESS_INIT_NORMAL) {
        tess_rng_fill_normal(seed, TESS_RNG_INIT, tess_hash_text(param->name), (uint64_t)(row_begin * row), n, 0,
                             param->init_std, dst);
        return;
    }
    float value = param->init == TESS_INIT_ONE ? 1 : 0;
    for (int64_t i = 0; i < n; i++)
        dst[i] = value;
}
