#include "engine/numbers/router_bias.h"

#include <string.h>

#include "base/mem/dry_mem.h"
#include "base/mem/named.h"
#include "base/mem/scoped.h"
#include "engine/model/exclude.h"
#include "engine/numbers/expert_loads.h"
#include "parallel/fsdp/fsdp_values.h"

/* One layer's bias (E): this rank has the elements of its shard, and reads no others. */
typedef struct layer_bias {
    int param; /* its number in the whole model */
    int64_t layer;
    float *present, *next; /* (E) before and after the step */
} layer_bias;

struct tess_router_bias {
    float rate;
    bool fresh; /* `present` has the weights */
    int n_layers;
    layer_bias *layers;
    void *named; /* memory of all layers' `next` that outlives the process; NULL: it does not */
    size_t bytes;
};

static int count_biases(const tess_model *model)
{
    int n = 0;
    for (int i = 0; i < tess_model_n_params(model); i++)
        n += tess_model_param(model, i)->wide;
    return n;
}

tess_status tess_router_bias_check(const tess_config *config, const tess_model *model)
{
    if (config->training.router_bias_update_rate == 0)
        return TESS_OK;
    TESS_CHECK(count_biases(model) > 0, TESS_E_INVALID,
               "training.router_bias_update_rate: only routers of deepseek_v3 have a bias: leave it out "
               "(output_router_logits in config.json balances the experts of other families)");
    TESS_CHECK(tess_model_get_config(model)->lora.rank == 0, TESS_E_INVALID,
               "training.router_bias_update_rate: with lora all but the adapter is frozen: leave it out");
    for (int k = 0; k < config->training.freeze.n; k++)
        for (int i = 0; i < tess_model_n_params(model); i++) {
            const tess_param *param = tess_model_param(model, i);
            TESS_CHECK(!param->wide || !tess_matches_name(config->training.freeze.item[k], param->name), TESS_E_INVALID,
                       "training.freeze: '%s' freezes '%s', which training.router_bias_update_rate changes: leave one "
                       "of them out",
                       config->training.freeze.item[k], param->name);
        }
    return TESS_OK;
}

/* Allocates `next` of all layers. A second engine's memory does not outlive the process. */
static tess_status alloc_next(tess_engine *e, float **next)
{
    tess_router_bias *b = e->router_bias;
    bool found;
    if (e->is_second)
        return TESS_PART(e, b->bytes / sizeof(**next), "biases of routers", next);
    TESS_TRY(tess_mem_alloc_named(e->mem, TESS_POOL_MISC, "router biases", b->bytes, &b->named, &found));
    *next = b->named;
    return TESS_OK;
}

tess_status tess_router_bias_create(tess_engine *e)
{
    const int64_t E = tess_model_get_config(e->whole)->parts.experts.n;
    const int n = e->config->training.router_bias_update_rate > 0 ? count_biases(e->whole) : 0;
    float *present, *next;
    if (n == 0)
        return TESS_OK;
    TESS_TRY(TESS_PART(e, 1, "biases of routers", &e->router_bias));
    tess_router_bias *b = e->router_bias;
    *b = (tess_router_bias){.rate = (float)e->config->training.router_bias_update_rate,
                            .bytes = (size_t)(n * E) * sizeof(*next)};
    TESS_TRY(TESS_PART(e, n, "biases of routers", &b->layers));
    TESS_TRY(TESS_PART(e, n * E, "biases of routers", &present));
    TESS_TRY(alloc_next(e, &next));
    for (int i = 0; b->n_layers < n; i++) {
        const tess_param *param = tess_model_param(e->whole, i);
        const int64_t at = b->n_layers * E;
        if (param->wide)
            b->layers[b->n_layers++] =
                (layer_bias){i, tess_model_unit_layer(e->whole, param->unit), present + at, next + at};
    }
    return TESS_OK;
}

void tess_router_bias_free(tess_engine *e)
{
    if (e->router_bias != NULL)
        tess_mem_free_named(e->mem, TESS_POOL_MISC, e->router_bias->bytes, e->router_bias->named);
}

void tess_router_bias_forget(tess_engine *e)
{
    if (e->router_bias != NULL)
        e->router_bias->fresh = false;
}

/* Gets this rank's shard of a bias. *own: its number in fsdp; -1: another stage has it. */
static tess_status find(const tess_engine *e, const layer_bias *layer, int *own, tess_shard *shard)
{
    *own = tess_engine_own_param(e, layer->param);
    return *own < 0 ? TESS_OK : tess_fsdp_shard(e->fsdp, *own, shard);
}

static tess_status read_present(tess_engine *e)
{
    tess_router_bias *b = e->router_bias;
    for (int k = 0; k < b->n_layers && !b->fresh; k++) {
        const layer_bias *layer = &b->layers[k];
        tess_shard shard;
        int own;
        TESS_TRY(find(e, layer, &own, &shard));
        for (int64_t i = 0; own >= 0 && i < shard.box.size[0]; i++)
            layer->present[shard.box.begin[0] + i] = shard.master[i];
    }
    b->fresh = true;
    return TESS_OK;
}

tess_status tess_router_bias_choose(tess_engine *e)
{
    const tess_router_bias *b = e->router_bias;
    if (b == NULL || tess_mem_is_dry(e->mem))
        return TESS_OK;
    TESS_TRY(read_present(e));
    const int64_t E = tess_model_get_config(e->whole)->parts.experts.n;
    for (int k = 0; k < b->n_layers; k++) {
        const layer_bias *layer = &b->layers[k];
        const int64_t *counts = tess_loads_of_layer(e, layer->layer);
        int64_t all = 0;
        for (int64_t i = 0; i < E; i++)
            all += counts[i];
        for (int64_t i = 0; i < E; i++) {
            const int64_t missing = all - E * counts[i]; /* E times the tokens that the mean has more */
            layer->next[i] = layer->present[i] + (missing > 0 ? b->rate : missing < 0 ? -b->rate : 0);
        }
    }
    return TESS_OK;
}

tess_status tess_router_bias_write(tess_engine *e)
{
    tess_router_bias *b = e->router_bias;
    const size_t bytes =
        b != NULL ? (size_t)tess_model_get_config(e->whole)->parts.experts.n * sizeof(*b->layers->next) : 0;
    for (int k = 0; b != NULL && !tess_mem_is_dry(e->mem) && k < b->n_layers; k++) {
        const layer_bias *layer = &b->layers[k];
        const int own = tess_engine_own_param(e, layer->param);
        if (own >= 0)
            TESS_TRY(tess_fsdp_write_values(e->fsdp, own, layer->next));
        memcpy(layer->present, layer->next, bytes);
    }
    return TESS_OK;
}

tess_status tess_router_bias_update(tess_engine *e)
{
    if (e->router_bias == NULL)
        return TESS_OK;
    TESS_TRY(tess_fsdp_update_begin(e->fsdp));
    TESS_TRY(tess_router_bias_write(e));
    return tess_fsdp_update_end(e->fsdp);
}
