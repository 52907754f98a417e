#include "engine/model/adapter.h"

#include "engine/model/exclude.h"
#include "engine/numbers/router_bias.h"

/* ---- The section "lora" ---- */
static tess_status check_section(const tess_config *c)
{
    bool states = c->lora.rank > 0 || c->lora.alpha > 0 || c->lora.targets.n > 0 || c->lora.use_rslora;
    bool from_folder = c->lora.path[0] != '\0';
    TESS_CHECK(c->lora.dropout == 0, TESS_E_UNSUPPORTED,
               "lora.dropout: %g; supported: 0, since a step is a function of configuration and data alone",
               c->lora.dropout);
    TESS_CHECK(!from_folder || !states, TESS_E_INVALID,
               "lora.path: %s says its rank, alpha, targets and use_rslora itself: leave them out", c->lora.path);
    TESS_CHECK(from_folder || c->lora.rank > 0 || !states, TESS_E_INVALID,
               "lora.rank: it is 0, which is no adapter, but lora.alpha, targets or use_rslora is set: set lora.rank");
    return TESS_OK;
}

static tess_status check_others(const tess_config *c)
{
    TESS_CHECK(c->model.path[0] != '\0', TESS_E_INVALID,
               "lora: an adapter belongs to a model with weights: name its folder with model.path");
    TESS_CHECK(c->training.freeze.n == 0, TESS_E_INVALID,
               "training.freeze: with lora all but the adapter is frozen: leave it out");
    return TESS_OK;
}

tess_status tess_config_load_lora(const tess_config *c, tess_lora *lora)
{
    *lora = (tess_lora){.rank = 0};
    TESS_TRY(check_section(c));
    if (c->lora.rank == 0 && c->lora.path[0] == '\0')
        return TESS_OK;
    TESS_TRY(check_others(c));
    if (c->lora.path[0] != '\0') {
        TESS_TRY_CTX(tess_lora_load(c->lora.path, lora), "lora.path");
        return TESS_OK;
    }
    lora->rank = c->lora.rank;
    lora->alpha = c->lora.alpha > 0 ? c->lora.alpha : (double)c->lora.rank;
    lora->rslora = c->lora.use_rslora;
    for (int i = 0; i < c->lora.targets.n; i++)
        TESS_TRY(tess_lora_add_target(lora, c->lora.targets.item[i], "lora.targets"));
    if (c->lora.targets.n == 0)
        TESS_TRY(tess_lora_add_target(lora, "all-linear", "lora.targets"));
    return tess_lora_check(lora, "lora");
}

/* ---- training.freeze ---- */
void tess_config_freeze(const tess_config *c, tess_model *model)
{
    for (int i = 0; i < tess_model_n_params(model); i++)
        for (int k = 0; k < c->training.freeze.n; k++)
            if (tess_matches_name(c->training.freeze.item[k], tess_model_param(model, i)->name))
                tess_model_freeze(model, i);
}

static tess_status check_freeze(const tess_config *c, const tess_model *model)
{
    int n = tess_model_n_params(model);
    for (int k = 0; k < c->training.freeze.n; k++) {
        const char *pattern = c->training.freeze.item[k];
        bool known = false;
        for (int i = 0; i < n && !known; i++)
            known = tess_matches_name(pattern, tess_model_param(model, i)->name);
        TESS_CHECK(known, TESS_E_INVALID,
                   "training.freeze: '%s' fits no parameter of the model: they are called like '%s' and '%s'; *, ? and "
                   "[0-9] stand for characters",
                   pattern, tess_model_param(model, 0)->name, tess_model_param(model, n / 2)->name);
    }
    TESS_CHECK(tess_model_first_trainable_unit(model) < tess_model_n_units(model), TESS_E_INVALID,
               "training.freeze: nothing is left that trains");
    return TESS_OK;
}

/* Checks that ranks can share all adapters, which not all maps allow: creates a part of the model with them. */
static tess_status check_shared(tess_mem *mem, const tess_config *c, const tess_model_config *config)
{
    const tess_model_part part = {.n_layers = config->n_layers,
                                  .embedding = true,
                                  .head = true,
                                  .tp_degree = (int)c->parallelism.tensor_parallel_degree};
    tess_model *model;
    if (config->lora.rank == 0)
        return TESS_OK;
    TESS_TRY(tess_model_create_part(mem, config, &part, &model));
    tess_model_destroy(&model);
    return TESS_OK;
}

tess_status tess_config_check_trainable(tess_mem *mem, const tess_config *c, const tess_model_config *config)
{
    tess_model *model;
    TESS_TRY(check_shared(mem, c, config));
    TESS_TRY(tess_model_create(mem, config, &model));
    tess_config_freeze(c, model);
    tess_status status = check_freeze(c, model);
    if (status == TESS_OK)
        status = tess_router_bias_check(c, model);
    tess_model_destroy(&model);
    return status;
}

int64_t tess_model_count_trainable(const tess_model *model)
{
    int64_t count = 0;
    for (int i = 0; i < tess_model_n_params(model); i++) {
        const tess_param *param = tess_model_param(model, i);
        count += param->frozen ? 0 : tess_shape_count(&param->shape);
    }
    return count;
}
