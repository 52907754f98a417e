/* Describes the parameters of a model that a program outside of the library computes. It has no parts to run. */
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "nn/block.h"

static void fill_blocks(tess_model *model, const char *const *units)
{
    for (int u = 0, at = 0; u < model->n_units; u++) {
        tess_block *block = &model->blocks[u];
        block->layer = u;
        block->first = at;
        snprintf(block->name, sizeof(block->name), "%s", units[u]);
        for (; at < model->n_params && model->params[at].unit == u; at++)
            block->n_params++;
    }
}

tess_status tess_model_create_described(tess_mem *mem, const char *const *units, int n_units, const tess_param *params,
                                        int n_params, tess_model **out)
{
    TESS_AUTO(tess_model_destroy) tess_model *model = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "model", &model));
    *model = (tess_model){.mem = mem,
                          .n_units = n_units,
                          .n_params = n_params,
                          .room = n_params,
                          .table_unit = -1,
                          .part = {.embedding = true, .head = true, .tp_degree = 1}};
    TESS_TRY(TESS_NEW(mem, n_units, "blocks", &model->blocks));
    TESS_TRY(TESS_NEW(mem, n_params, "parameter table", &model->params));
    memcpy(model->params, params, (size_t)n_params * sizeof(*params));
    fill_blocks(model, units);
    TESS_TRY(tess_model_index_names(model));
    *out = TESS_GIVE(model);
    return TESS_OK;
}
