/* Creates a model's units and parameters, and computes what follows from them: initial values, counts, operations. */
#include <stdio.h>
#include <string.h>

#include "base/core/flat.h"
#include "base/core/rng.h"
#include "base/mem/scoped.h"
#include "base/text/text.h"
#include "device/device.h"
#include "nn/layers/transformer_layer.h"
#include "nn/models/family.h"

static tess_status check_layers(int64_t L, const tess_model_part *part)
{
    for (int64_t i = 0; i < part->n_layers; i++)
        TESS_CHECK(part->layers[i] >= 0 && part->layers[i] < L && (i == 0 || part->layers[i] > part->layers[i - 1]),
                   TESS_E_INVALID,
                   "part of a model: layer %lld at place %lld; the model has %lld, and a part names them "
                   "ascending",
                   (long long)part->layers[i], (long long)i, (long long)L);
    TESS_CHECK(part->n_layers > 0 && (!part->embedding || part->layers[0] == 0) &&
                   (!part->head || part->layers[part->n_layers - 1] == L - 1),
               TESS_E_INVALID, "part of a model: the embedding goes with the first layer, the head with the last");
    return TESS_OK;
}

static tess_status check_experts(const tess_model_config *config, const tess_model_part *part)
{
    const int64_t n = config->parts.experts.n;
    const int tp = part->tp_degree > 1 ? part->tp_degree : 1;
    if (part->ep_degree <= 1)
        return TESS_OK;
    TESS_CHECK(n > 0, TESS_E_INVALID,
               "expert parallelism over %d ranks: the model has no experts; set parallelism.expert_parallel_degree=1",
               part->ep_degree);
    TESS_CHECK(n % part->ep_degree == 0, TESS_E_INVALID,
               "expert parallelism over %d ranks: they cannot have as many of the %lld experts each; choose a "
               "parallelism.expert_parallel_degree that divides %lld",
               part->ep_degree, (long long)n, (long long)n);
    TESS_CHECK(part->ep_degree % tp == 0 && part->ep_rank >= 0 && part->ep_rank < part->ep_degree, TESS_E_INVALID,
               "part of a model: expert-parallel rank %d of %d, with %d tensor-parallel ranks", part->ep_rank,
               part->ep_degree, tp);
    return TESS_OK;
}

static tess_status check_part(const tess_model_config *config, const tess_model_part *part)
{
    int64_t L = config->n_layers, first = part->first_layer, n = part->n_layers;
    TESS_CHECK(part->tp_degree >= 0 && part->tp_rank >= 0 &&
                   part->tp_rank < (part->tp_degree > 1 ? part->tp_degree : 1),
               TESS_E_INVALID, "part of a model: tensor-parallel rank %d of %d", part->tp_rank, part->tp_degree);
    TESS_CHECK(part->tp_degree <= 1 || !config->value_head, TESS_E_UNSUPPORTED,
               "part of a model: a value head is not cut over tensor-parallel ranks: set "
               "parallelism.tensor_parallel_degree=1");
    TESS_CHECK(part->tp_degree <= 1 || config->n_outputs == 0, TESS_E_UNSUPPORTED,
               "part of a model: a head of %lld outputs (score.weight) is not cut over tensor-parallel ranks: set "
               "parallelism.tensor_parallel_degree=1",
               (long long)config->n_outputs);
    TESS_TRY(check_experts(config, part));
    if (part->layers != NULL)
        return check_layers(L, part);
    TESS_CHECK(first >= 0 && n >= 0 && first <= L && n <= L - first && (n > 0 || part->embedding || part->head),
               TESS_E_INVALID, "part of a model: %lld layers from %lld on; the model has %lld", (long long)n,
               (long long)first, (long long)L);
    TESS_CHECK(
        (!part->embedding || first == 0) && (!part->head || first + n == L), TESS_E_INVALID,
        "part of a model: layers %lld to %lld of %lld; the embedding goes with the first, the head with the last",
        (long long)first, (long long)(first + n), (long long)L);
    return TESS_OK;
}

/* Cuts a parameter's name down to its map: "model.layers.0.mlp.up_proj" for the weight and for the adapter's A and
 * B. */
static void name_of_map(const tess_param *param, char name[TESS_PARAM_NAME_SIZE])
{
    snprintf(name, TESS_PARAM_NAME_SIZE, "%s", param->name);
    char *end = strstr(name, param->adapter ? ".lora_" : ".weight");
    if (end != NULL)
        *end = '\0';
}

/* Lists the last component of the names of all maps that may have adapters, each once. */
static void list_maps(const tess_model *model, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < model->n_params; i++) {
        const tess_param *param = &model->params[i];
        char name[TESS_PARAM_NAME_SIZE];
        name_of_map(param, name);
        const char *dot = strrchr(name, '.');
        if (param->hidden && dot != NULL && strstr(text, dot + 1) == NULL)
            used = tess_text_add(text, size, used, "%s%s", used > 0 ? ", " : "", dot + 1);
    }
}

/* Checks that every target names at least one map. */
static tess_status check_targets(const tess_model *model)
{
    char known[256], name[TESS_PARAM_NAME_SIZE];
    list_maps(model, known, sizeof(known));
    for (int t = 0; t < model->config.lora.n_targets; t++) {
        tess_lora one = {.n_targets = 1};
        memcpy(one.targets[0], model->config.lora.targets[t], TESS_LORA_NAME);
        bool found = false;
        for (int i = 0; i < model->n_params && !found; i++) {
            name_of_map(&model->params[i], name);
            found = model->params[i].adapter && tess_lora_adapts(&one, name);
        }
        TESS_CHECK(found, TESS_E_INVALID,
                   "%s: '%s' is no linear map of this model's layers: they are %s; all-linear means all, and an "
                   "adapter of other maps is to be merged into its model with PEFT (merge_and_unload)",
                   model->config.lora.source, one.targets[0], known);
    }
    return TESS_OK;
}

tess_status tess_model_create(tess_mem *mem, const tess_model_config *config, tess_model **model)
{
    const tess_model_part all = {.n_layers = config->n_layers, .embedding = true, .head = true};
    TESS_TRY(tess_model_create_part(mem, config, &all, model));
    tess_status status = check_targets(*model);
    if (status != TESS_OK)
        tess_model_destroy(model);
    return status;
}

tess_status tess_model_lora(const tess_model *model, tess_lora *lora)
{
    *lora = model->config.lora;
    lora->n_targets = 0;
    for (int t = 0; t < model->config.lora.n_targets; t++)
        if (strcmp(model->config.lora.targets[t], "all-linear") != 0)
            TESS_TRY(tess_lora_add_target(lora, model->config.lora.targets[t], "lora.targets"));
    for (int i = 0; i < model->n_params; i++) {
        char name[TESS_PARAM_NAME_SIZE];
        name_of_map(&model->params[i], name);
        const char *dot = strrchr(name, '.');
        if (model->params[i].adapter && dot != NULL && !tess_lora_adapts(lora, name))
            TESS_TRY(tess_lora_add_target(lora, dot + 1, "lora.targets"));
    }
    return TESS_OK;
}

void tess_model_freeze(tess_model *model, int index)
{
    model->params[index].frozen = true;
}

int tess_model_first_trainable_unit(const tess_model *model)
{
    for (int i = 0; i < model->n_params; i++)
        if (!model->params[i].frozen)
            return model->params[i].unit;
    return model->n_units;
}

bool tess_model_trains_table(const tess_model *model)
{
    const tess_block *block = model->table_unit >= 0 ? &model->blocks[model->table_unit] : NULL;
    return block != NULL && !model->params[block->first + block->table].frozen;
}

bool tess_model_copies_table(const tess_model *model)
{
    for (int i = 0; i < model->n_params && model->part.embedding; i++)
        if (model->params[i].copy)
            return !model->params[i].frozen;
    return false;
}

bool tess_model_unit_trains(const tess_model *model, int unit)
{
    const tess_block *block = &model->blocks[unit];
    for (int i = block->first; i < block->first + block->n_params; i++)
        if (!model->params[i].frozen && !model->params[i].copy)
            return true;
    return false;
}

tess_status tess_model_create_part(tess_mem *mem, const tess_model_config *config, const tess_model_part *part,
                                   tess_model **out)
{
    *out = NULL;
    TESS_TRY(tess_model_config_check(config, "model"));
    TESS_TRY(check_part(config, part));
    TESS_AUTO(tess_model_destroy) tess_model *model = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "model", &model));
    model->mem = mem;
    model->config = *config;
    model->part = *part;
    model->part.tp_degree = part->tp_degree > 1 ? part->tp_degree : 1;
    model->part.ep_degree = part->ep_degree > 1 ? part->ep_degree : 1;
    model->table_unit = -1;
    model->n_units = tess_family_has_table(model) + (int)part->n_layers + part->head;
    TESS_TRY(TESS_NEW(mem, model->n_units, "blocks", &model->blocks));
    tess_family_build(model);
    model->part.layers = NULL; /* the blocks store the layers' numbers now */
    TESS_TRY(model->built);
    TESS_TRY(tess_model_index_names(model));
    *out = TESS_GIVE(model);
    return TESS_OK;
}

tess_status tess_model_index_names(tess_model *model)
{
    int first;
    for (int i = 0; i < model->n_params; i++)
        TESS_TRY(tess_name_index_add(&model->names, model->mem, model->params[i].name, &first));
    return TESS_OK;
}

void tess_model_destroy(tess_model **model)
{
    if (*model == NULL)
        return;
    tess_mem *mem = (*model)->mem;
    for (int unit = 0; (*model)->blocks != NULL && unit < (*model)->n_units; unit++) {
        for (int i = 0; i < (*model)->blocks[unit].n_parts; i++)
            tess_mem_free(mem, (*model)->blocks[unit].parts[i].own);
        tess_mem_free(mem, (*model)->blocks[unit].parts);
    }
    tess_mem_free(mem, (*model)->blocks);
    tess_mem_free(mem, (*model)->params);
    tess_name_index_free(&(*model)->names, mem);
    tess_mem_free(mem, *model);
    *model = NULL;
}

const tess_model_config *tess_model_get_config(const tess_model *model)
{
    return &model->config;
}

const tess_model_part *tess_model_get_part(const tess_model *model)
{
    return &model->part;
}

/* Looks at the first layer only: all layers have the same heads. */
int64_t tess_model_cached_row(const tess_model *model)
{
    const tess_attention_params *p = NULL;
    for (int unit = 0; unit < model->n_units && p == NULL; unit++)
        p = tess_block_find(&model->blocks[unit], &tess_attention_part);
    return p != NULL ? tess_cached_row(p) : 0;
}

int tess_model_n_params(const tess_model *model)
{
    return model->n_params;
}

const tess_param *tess_model_param(const tess_model *model, int index)
{
    return &model->params[index];
}

int tess_model_find_param(const tess_model *model, const char *name)
{
    return tess_name_index_find(&model->names, name);
}

int tess_model_n_units(const tess_model *model)
{
    return model->n_units;
}

const char *tess_model_unit_name(const tess_model *model, int unit)
{
    return model->blocks[unit].name;
}

int64_t tess_model_unit_layer(const tess_model *model, int unit)
{
    return model->blocks[unit].layer;
}

bool tess_model_owns_rows(const tess_model *model, int index)
{
    const tess_block *block = &model->blocks[model->params[index].unit];
    return tess_block_owns_rows(block, index - block->first);
}

void tess_model_name_unit(const tess_model *model, int unit, tess_stream *stream)
{
    const tess_block *block = &model->blocks[unit];
    tess_stream_set_unit(stream, block->layer >= 0 ? "layer" : block->parts[0].part->name, (int)block->layer);
}

void tess_model_unit_params(const tess_model *model, int unit, int *first, int *n)
{
    *first = model->blocks[unit].first;
    *n = model->blocks[unit].n_params;
}

int64_t tess_model_count(const tess_model *model)
{
    int64_t count = 0;
    for (int i = 0; i < model->n_params; i++)
        count += tess_shape_count(&model->params[i].shape);
    return count;
}

double tess_model_count_active(const tess_model *model)
{
    double count = 0;
    for (int i = 0; i < model->n_params; i++)
        count += (1 - (double)model->params[i].idle) * (double)tess_shape_count(&model->params[i].shape);
    return count;
}

/* 6 N + 12 L H D T, as torchtitan counts. Each weight takes 2 operations in forward and 4 in backward (2 if frozen).
 * N counts the weights of matrices that multiply each token: the head is included, the embeddings' look-ups are not.
 * The parts count what else they compute. */
double tess_model_unit_flops_per_token(const tess_model *model, int unit, int64_t seq_len)
{
    const tess_block *block = &model->blocks[unit];
    double n = 0;
    for (int i = block->first; i < block->first + block->n_params; i++)
        if (block->layer >= 0 && model->params[i].shape.n_dims >= 2 && model->params[i].decay)
            n += (model->params[i].frozen ? 4.0 : 6.0) * (1 - (double)model->params[i].idle) *
                 (double)tess_shape_count(&model->params[i].shape);
    for (int i = 0; i < block->n_parts; i++)
        n += block->parts[i].part->flops != NULL ? block->parts[i].part->flops(block->parts[i].own, seq_len) : 0;
    return n;
}

double tess_model_flops_per_token(const tess_model *model, int64_t seq_len)
{
    double sum = 0;
    for (int unit = 0; unit < model->n_units; unit++)
        sum += tess_model_unit_flops_per_token(model, unit, seq_len);
    return sum;
}

/* Writes n elements, from `first` on, of the random stream that belongs to the parameter's name. */
static void fill_run(const tess_param *param, uint64_t seed, uint64_t stream, uint64_t first, int64_t n, float *dst)
{
    if (param->init == TESS_INIT_NORMAL) {
        tess_rng_fill_normal(seed, TESS_RNG_INIT, stream, first, n, 0, param->init_std, dst);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        dst[i] = param->init_std * (2 * tess_rng_uniform(seed, TESS_RNG_INIT, stream, first + (uint64_t)i) - 1);
}

static void fill_random(const tess_param *param, uint64_t seed, const tess_box *box, float *dst)
{
    const tess_shape shape = tess_shape_atleast_1d(&param->shape);
    const tess_box whole = tess_box_whole(&shape);
    uint64_t stream = tess_hash_text(param->name);
    int64_t n = tess_box_count(shape.n_dims, box), run = tess_flat_run(shape.n_dims, shape.dim, box->size);
    for (int64_t at = 0; at < n; at += run) {
        tess_box slice;
        tess_flat_slice(shape.n_dims, box, at, run, &slice);
        int64_t first = tess_flat_offset(shape.n_dims, &whole, &slice);
        fill_run(param, seed, stream, (uint64_t)first, run, dst + at);
    }
}

void tess_param_fill(const tess_param *param, uint64_t seed, const tess_box *box, float *dst)
{
    if (param->init == TESS_INIT_NORMAL || param->init == TESS_INIT_UNIFORM) {
        fill_random(param, seed, box, dst);
        return;
    }
    float value = param->init == TESS_INIT_ONE ? 1 : 0;
    int64_t n = tess_box_count(tess_shape_atleast_1d(&param->shape).n_dims, box);
    for (int64_t i = 0; i < n; i++)
        dst[i] = value;
}
