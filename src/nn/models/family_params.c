/* Adds parameters and blocks to a model, for the builder (family_build.c). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "nn/models/family.h"

static void grow(tess_model *model)
{
    int room = model->room < 64 ? 64 : 2 * model->room;
    model->built = tess_mem_grow(model->mem, TESS_POOL_MISC, (size_t)room * sizeof(tess_param), "parameter table",
                                 (void **)&model->params);
    if (model->built == TESS_OK)
        model->room = room;
}

int tess_model_add_param(tess_model *model, int unit, tess_init init, double std, int64_t rows, int64_t columns,
                         const char *name, ...)
{
    tess_block *block = &model->blocks[unit];
    if (model->built == TESS_OK && model->n_params == model->room)
        grow(model);
    if (model->built != TESS_OK)
        return 0;
    tess_param *param = &model->params[model->n_params];
    *param = (tess_param){
        .shape = columns > 0 ? (tess_shape){2, {rows, columns}} : (tess_shape){1, {rows}},
        .init = init,
        .init_std = (float)std,
        .decay = columns > 0,
        .hidden = columns > 0 && block->layer >= 0,
        .frozen = model->config.lora.rank > 0,
        .unit = unit,
    };
    param->slice = (tess_param_slice){.whole = param->shape};
    va_list args;
    va_start(args, name);
    vsnprintf(param->name, sizeof(param->name), name, args);
    va_end(args);
    if (block->n_params == 0)
        block->first = model->n_params;
    model->n_params++;
    return block->n_params++;
}

void *tess_model_add_part(tess_model *model, int unit, const tess_part *part)
{
    return tess_model_add_sized_part(model, unit, part, part->own_bytes);
}

void *tess_model_add_sized_part(tess_model *model, int unit, const tess_part *part, size_t own_bytes)
{
    tess_block *block = &model->blocks[unit];
    const size_t room = (size_t)(block->n_parts + 1) * sizeof(*block->parts);
    void *own = NULL;
    if (model->built == TESS_OK)
        model->built = tess_mem_grow(model->mem, TESS_POOL_MISC, room, "parts", (void **)&block->parts);
    if (model->built == TESS_OK)
        model->built = tess_mem_alloc(model->mem, TESS_POOL_MISC, own_bytes, "a part's parameters", &own);
    if (model->built != TESS_OK)
        return NULL;
    block->parts[block->n_parts++] = (tess_placed_part){.part = part, .own = own, .work = model->work_bytes};
    model->work_bytes += part->work_bytes;
    model->n_parts++;
    return own;
}

tess_norm tess_family_add_norm(tess_model *model, int unit, const char *prefix, const char *name, int64_t n)
{
    tess_norm norm = {.bias = -1};
    norm.weight = tess_model_add_param(model, unit, model->blocks[unit].one_plus ? TESS_INIT_ZERO : TESS_INIT_ONE, 0, n,
                                       0, "%s.%s.weight", prefix, name);
    if (model->blocks[unit].layer_norm && !tess_family_find(model->config.family)->shape->bare_norms)
        norm.bias = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, n, 0, "%s.%s.bias", prefix, name);
    return norm;
}

int64_t tess_family_share(const tess_model *model, tess_cut cut)
{
    int64_t begin, size;
    tess_cut_range(cut, model->part.tp_degree, model->part.tp_rank, &begin, &size);
    return size;
}

void tess_family_cut_param(tess_model *model, int unit, int index, int dim, tess_cut cut)
{
    if (model->built != TESS_OK || cut.unit == 0)
        return;
    tess_param *param = &model->params[model->blocks[unit].first + index];
    param->shape.dim[dim] = tess_family_share(model, cut);
    param->slice.dim = dim;
    param->slice.unit = cut.unit;
}

static int add_factor(tess_model *model, int unit, const char *map, const char *factor, tess_init init, double bound,
                      int64_t rows, int64_t columns)
{
    int index = tess_model_add_param(model, unit, init, bound, rows, columns, "%s.lora_%s.weight", map, factor);
    if (model->built == TESS_OK) {
        tess_param *param = &model->params[model->blocks[unit].first + index];
        param->adapter = true;
        param->frozen = false;
    }
    return index;
}

/* Adds an adapter with PEFT's initial values. A is uniform like a Linear's weight (kaiming_uniform_ with a =
 * sqrt(5): bound 1 / sqrt(in)). B is zero, so that the adapter changes nothing at first. Ranks that share the map's
 * inputs or outputs have their columns of A or rows of B. */
static tess_low_rank add_adapter(tess_model *model, int unit, const char *map, tess_cut in, tess_cut out)
{
    const tess_lora *lora = &model->config.lora;
    double bound = 1 / sqrt((double)in.size);
    const tess_low_rank adapter = {
        .a = add_factor(model, unit, map, "A", TESS_INIT_UNIFORM, bound, lora->rank, in.size),
        .b = add_factor(model, unit, map, "B", TESS_INIT_ZERO, 0, out.size, lora->rank),
        .rank = lora->rank,
        .scale = (float)tess_lora_scale(lora),
    };
    tess_family_cut_param(model, unit, adapter.a, 1, in);
    tess_family_cut_param(model, unit, adapter.b, 0, out);
    return adapter;
}

tess_linear tess_family_add_linear(tess_model *model, int unit, const char *name, const tess_family_linear *map)
{
    const char *prefix = model->blocks[unit].name;
    char full[TESS_PARAM_NAME_SIZE];
    int64_t n_in = map->in.size, n_out = map->out.size;
    bool in_out = map->in_out;
    tess_linear linear = {.bias = -1, .in = map->in, .out = map->out, .in_out = in_out};
    linear.weight = tess_model_add_param(model, unit, TESS_INIT_NORMAL, map->std, in_out ? n_in : n_out,
                                         in_out ? n_out : n_in, "%s.%s.weight", prefix, name);
    tess_family_cut_param(model, unit, linear.weight, in_out ? 0 : 1, map->in);
    tess_family_cut_param(model, unit, linear.weight, in_out ? 1 : 0, map->out);
    if (map->bias) {
        linear.bias = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, n_out, 0, "%s.%s.bias", prefix, name);
        tess_family_cut_param(model, unit, linear.bias, 0, map->out);
    }
    linear.n_in = tess_family_share(model, map->in);
    linear.n_out = tess_family_share(model, map->out);
    linear.ld = in_out ? linear.n_out : linear.n_in;
    snprintf(full, sizeof(full), "%s.%s", prefix, name);
    if (tess_lora_adapts(&model->config.lora, full))
        linear.adapter = add_adapter(model, unit, full, map->in, map->out);
    return linear;
}

/* The number of query heads that stay on one rank: all those of a key head, unless more ranks share a layer than it
 * has key heads. */
static int64_t heads_together(const tess_model *model)
{
    const tess_model_config *c = &model->config;
    return model->part.tp_degree > c->n_kv_heads ? 1 : c->n_heads / c->n_kv_heads;
}

tess_family_cuts tess_family_cut(const tess_model *model)
{
    const tess_model_config *c = &model->config;
    int64_t D = c->head_size;
    return (tess_family_cuts){.stream = {c->hidden_size, 0},
                              .q = {c->n_heads * D, heads_together(model) * D},
                              .kv = {c->n_kv_heads * D, D},
                              .mlp = {c->intermediate_size, 1}};
}

int tess_family_layer(tess_model *model, int64_t i)
{
    const int unit = tess_family_has_table(model) + (int)i;
    tess_block *block = &model->blocks[unit];
    block->hidden_size = model->config.hidden_size;
    block->layer = model->part.layers != NULL ? model->part.layers[i] : model->part.first_layer + i;
    return unit;
}

void tess_family_sum_leaves(const tess_model *model, tess_feed_forward_params *p)
{
    int64_t leaf = tess_leaf_of(model->config.intermediate_size, model->config.sum_leaves);
    p->down.in_leaf = p->gate.out_leaf = p->up.out_leaf = leaf;
}

/* How ranks cut the C columns of tables. */
static tess_cut table_columns(const tess_model *model)
{
    return (tess_cut){model->config.hidden_size, 1};
}

int tess_family_add_table(tess_model *model, int unit, int64_t rows, const char *name)
{
    const tess_model_config *c = &model->config;
    int table =
        tess_model_add_param(model, unit, TESS_INIT_NORMAL, c->initializer_range, rows, c->hidden_size, "%s", name);
    tess_family_cut_param(model, unit, table, 1, table_columns(model));
    return table;
}

bool tess_family_has_table(const tess_model *model)
{
    return model->part.embedding || (model->config.tied && model->part.head);
}

tess_embedding_params *tess_family_embedding(tess_model *model, const char *table)
{
    tess_block *block = &model->blocks[0];
    tess_embedding_params *p;
    if (!tess_family_has_table(model) || (p = tess_model_add_part(model, 0, &tess_embedding_part)) == NULL)
        return NULL;
    block->hidden_size = model->config.hidden_size;
    block->layer = -1;
    snprintf(block->name, sizeof(block->name), "embed");
    *p = (tess_embedding_params){
        .positions = -1, .channels = table_columns(model), .tied = model->config.tied && model->part.head};
    model->table_unit = p->tied ? 0 : -1;
    block->width = tess_family_share(model, p->channels);
    block->table = tess_family_add_table(model, 0, model->config.vocab_size, table);
    if (model->built == TESS_OK)
        model->params[block->first + block->table].copy = model->config.tied && !model->part.head;
    return p;
}

/* Adds a value head. It starts at 0, so that all values of an untrained head are 0. */
static tess_linear add_value_head(tess_model *model, int unit)
{
    int64_t C = model->config.hidden_size;
    tess_linear value = {.in = {C, 0}, .out = {1, 0}, .n_in = C, .n_out = 1, .ld = C};
    value.weight = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, 1, C, "v_head.summary.weight");
    value.bias = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, 1, 0, "v_head.summary.bias");
    for (int i = value.weight; i <= value.bias && model->built == TESS_OK; i++)
        model->params[model->blocks[unit].first + i].beside = true;
    return value;
}

void tess_family_head(tess_model *model, const tess_family_shape *shape)
{
    const tess_model_config *c = &model->config;
    int unit = model->n_units - 1;
    tess_block *block = &model->blocks[unit];
    tess_head_params *p;
    if (!model->part.head || (p = tess_model_add_part(model, unit, &tess_head_part)) == NULL)
        return;
    block->hidden_size = c->hidden_size;
    block->layer = -1;
    snprintf(block->name, sizeof(block->name), "head");
    block->layer_norm = shape->layer_norm;
    block->one_plus = shape->one_plus;
    p->norm = tess_family_add_norm(model, unit, shape->prefix, shape->norm, c->hidden_size);
    p->value.weight = -1;
    if (c->value_head && c->n_outputs > 0) {
        p->head = p->value = add_value_head(model, unit);
        return;
    }
    const char *score = c->output_bias ? shape->token_head : "score";
    char name[TESS_PARAM_NAME_SIZE];
    snprintf(name, sizeof(name), "%s.weight", c->n_outputs > 0 ? score : shape->head != NULL ? shape->head : "lm_head");
    int64_t width = tess_family_share(model, table_columns(model)), rows = tess_model_config_outputs(c);
    p->head = (tess_linear){.in = table_columns(model),
                            .out = {rows, 0},
                            .weight = c->tied ? model->blocks[model->table_unit].table
                                              : tess_family_add_table(model, unit, rows, name),
                            .bias = -1,
                            .n_in = width,
                            .n_out = rows,
                            .ld = width};
    if (c->n_outputs == 0) {
        p->factor = c->factors.logits_divisor > 0 ? (float)(1 / c->factors.logits_divisor) : (float)c->factors.logits;
        p->soft_cap = (float)c->factors.logit_cap;
    }
    if (c->output_bias)
        p->head.bias = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, rows, 0, "%s.bias", score);
    if (c->n_outputs > 0)
        p->value = p->head;
    else if (c->value_head)
        p->value = add_value_head(model, unit);
}
