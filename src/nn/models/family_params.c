/* Adds parameters, for the builders of all families. */
#include <stdarg.h>
#include <stdio.h>

#include "nn/models/family.h"

int tess_model_add_param(tess_model *model, int unit, tess_init init, double std, int64_t rows, int64_t columns,
                         const char *name, ...)
{
    tess_param *param = &model->params[model->n_params];
    va_list args;
    va_start(args, name);
    vsnprintf(param->name, sizeof(param->name), name, args);
    va_end(args);
    param->shape = columns > 0 ? (tess_shape){2, {rows, columns}} : (tess_shape){1, {rows}};
    param->init = init;
    param->init_std = (float)std;
    param->decay = columns > 0;
    param->unit = unit;
    if (model->unit_first[unit + 1] == 0)
        model->unit_first[unit] = model->n_params;
    model->unit_first[unit + 1] = ++model->n_params;
    return model->n_params - 1 - model->unit_first[unit];
}

tess_norm tess_family_add_norm(tess_model *model, int unit, const char *prefix, const char *name, int64_t n)
{
    tess_norm norm = {.bias = -1};
    norm.weight = tess_model_add_param(model, unit, TESS_INIT_ONE, 0, n, 0, "%s.%s.weight", prefix, name);
    if (model->block.layer_norm)
        norm.bias = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, n, 0, "%s.%s.bias", prefix, name);
    return norm;
}

void tess_family_add_head(tess_model *model)
{
    const tess_model_config *c = &model->config;
    tess_linear *head = &model->block.head;
    *head = (tess_linear){
        .weight = model->block.table, .bias = -1, .n_in = c->hidden_size, .n_out = c->vocab_size, .ld = c->hidden_size};
    if (!c->tied)
        head->weight = tess_model_add_param(model, model->n_units - 1, TESS_INIT_NORMAL, c->initializer_range,
                                            c->vocab_size, c->hidden_size, "lm_head.weight");
}
