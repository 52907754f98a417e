/* Builds a model of any family from its row: parameters in forward order, named as in the files of transformers, and
 * the blocks that compute with them. */
#include <math.h>
#include <stdio.h>

#include "nn/models/family.h"

/* The unit to which a part is added. */
typedef struct place {
    tess_model *model;
    const tess_family_shape *shape;
    int unit;
    tess_family_cuts cut;
    double std, out_std; /* standard deviations of matrices; out_std: of those that project into the residual stream */
} place;

static tess_block *block_of(const place *at)
{
    return &at->model->blocks[at->unit];
}

/* Adds a norm over n channels, or none. */
static tess_norm add_norm(const place *at, const char *name, int64_t n)
{
    return name != NULL ? tess_family_add_norm(at->model, at->unit, block_of(at)->name, name, n) : (tess_norm){-1, -1};
}

/* Adds a map, or none. */
static tess_linear add_linear(const place *at, const char *name, tess_cut in, tess_cut out, double std, bool bias)
{
    const tess_family_linear map = {.in = in, .out = out, .std = std, .bias = bias, .in_out = at->shape->in_out};
    return name != NULL ? tess_family_add_linear(at->model, at->unit, name, &map) : (tess_linear){.weight = -1};
}

/* This rank's outputs of the part of a fused map that begins at output `first` of the whole map. Each rank stores all
 * of the map: a rank's part would be several boxes of it. */
static tess_linear part_of(const place *at, const tess_linear *fused, int64_t first, tess_cut out)
{
    tess_linear part = *fused;
    tess_cut_range(out, at->model->part.tp_degree, at->model->part.tp_rank, &part.offset, &part.n_out);
    part.offset += first;
    part.out = out;
    part.stored_whole = true;
    return part;
}

/* Refuses an adapter on a fused map if ranks share it: its parts share one B. */
static void refuse_adapter(const place *at, const tess_linear *fused, const char *name)
{
    tess_model *model = at->model;
    if (model->built == TESS_OK && model->part.tp_degree > 1 && fused->adapter.rank > 0)
        model->built =
            TESS_FAIL(TESS_E_UNSUPPORTED,
                      "%s: ranks that share layers have no adapter of %s, which is several maps in one: name "
                      "the other maps alone, or set parallelism.tensor_parallel_degree=1",
                      model->config.lora.source, name);
}

static void add_qkv(const place *at, tess_attention_params *p)
{
    const tess_family_shape *s = at->shape;
    const tess_family_cuts cut = at->cut;
    const bool bias = at->model->config.parts.qkv_bias;
    p->qkv = add_linear(at, s->qkv, cut.stream, (tess_cut){cut.q.size + 2 * cut.kv.size, 0}, at->std, bias);
    if (s->qkv != NULL) {
        refuse_adapter(at, &p->qkv, s->qkv);
        p->q = part_of(at, &p->qkv, 0, cut.q);
        p->k = part_of(at, &p->qkv, cut.q.size, cut.kv);
        p->v = part_of(at, &p->qkv, cut.q.size + cut.kv.size, cut.kv);
        return;
    }
    p->q = add_linear(at, s->q, cut.stream, cut.q, at->std, bias);
    p->k = add_linear(at, s->k, cut.stream, cut.kv, at->std, bias);
    p->v = add_linear(at, s->v, cut.stream, cut.kv, at->std, bias);
}

static void add_attention(const place *at)
{
    const tess_family_shape *s = at->shape;
    const tess_model *model = at->model;
    const tess_model_config *c = &model->config;
    tess_attention_params *p = tess_model_add_part(at->model, at->unit, &tess_attention_part);
    if (p == NULL)
        return;
    p->head_size = c->head_size;
    p->n_heads = tess_family_share(model, at->cut.q) / c->head_size;
    p->n_kv_heads = tess_family_share(model, at->cut.kv) / c->head_size;
    p->window = tess_model_config_window(c, block_of(at)->layer);
    p->rope = s->positions == NULL;
    p->norm = add_norm(at, s->attention_norm, c->hidden_size);
    add_qkv(at, p);
    p->q_norm = add_norm(at, c->parts.qk_norm ? s->q_norm : NULL, c->head_size);
    p->k_norm = add_norm(at, c->parts.qk_norm ? s->k_norm : NULL, c->head_size);
    p->o = add_linear(at, s->o, at->cut.q, at->cut.stream, at->out_std, c->parts.o_bias);
}

static void add_feed_forward(const place *at)
{
    const tess_family_shape *s = at->shape;
    const tess_family_cuts cut = at->cut;
    const bool bias = at->model->config.parts.mlp_bias;
    tess_feed_forward_params *p = tess_model_add_part(at->model, at->unit, &tess_feed_forward_part);
    if (p == NULL)
        return;
    p->size = tess_family_share(at->model, cut.mlp);
    p->norm = add_norm(at, s->feed_norm, at->model->config.hidden_size);
    p->gate = add_linear(at, s->gate, cut.stream, cut.mlp, at->std, bias);
    p->up = add_linear(at, s->up, cut.stream, cut.mlp, at->std, bias);
    p->down = add_linear(at, s->down, cut.mlp, cut.stream, at->out_std, bias);
    tess_family_sum_leaves(at->model, p);
}

void tess_family_build(tess_model *model)
{
    const tess_model_config *c = &model->config;
    const tess_family_shape *s = tess_family_find(c->family)->shape;
    tess_embedding_params *embedding = tess_family_embedding(model, s->table);
    place at = {model, s, 0, tess_family_cut(model), c->initializer_range, c->initializer_range};
    if (s->small_output)
        at.out_std /= sqrt(2.0 * (double)c->n_layers);
    if (embedding != NULL && s->positions != NULL)
        embedding->positions = tess_family_add_table(model, 0, c->max_position, s->positions);
    for (int64_t i = 0; i < model->part.n_layers && model->built == TESS_OK; i++) {
        at.unit = tess_family_layer(model, i);
        tess_block *block = block_of(&at);
        snprintf(block->name, sizeof(block->name), "%s.%s.%d", s->prefix, s->layers, (int)block->layer);
        block->layer_norm = s->layer_norm;
        block->activation = s->activation;
        add_attention(&at);
        if (tess_model_config_mixes(c, block->layer))
            tess_family_experts(model, at.unit, s->feed_norm, tess_family_find(c->family)->mixture);
        else
            add_feed_forward(&at);
    }
    tess_family_head(model, s);
}
