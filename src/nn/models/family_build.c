/* Builds a model of any family from its row: parameters in forward order, named as in the files of transformers, and
 * the blocks that compute with them. */
#include <math.h>
#include <stdio.h>

#include "nn/layers/layers.h"
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

/* A factor of 1 needs no work. */
static float factor_of(double factor)
{
    return factor == 1 ? 0 : (float)factor;
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
    part.first = part.offset + first;
    part.offset = part.first * (fused->in_out ? 1 : fused->ld);
    part.out = out;
    part.stored_whole = true;
    return part;
}

static void add_qkv(const place *at, tess_attention_params *p)
{
    const tess_family_shape *s = at->shape;
    const tess_family_cuts cut = at->cut;
    const bool bias = at->model->config.parts.qkv_bias;
    if (s->per_head) { /* whole heads, with their q, k and v, are on one rank */
        const int64_t D = at->model->config.head_size;
        p->per_head = true;
        p->qkv = add_linear(at, s->qkv, cut.stream, (tess_cut){3 * cut.q.size, 3 * D}, at->std, bias);
        p->q = p->k = p->v = p->qkv;
        p->q.out = p->k.out = p->v.out = cut.kv;
        return;
    }
    p->qkv = add_linear(at, s->qkv, cut.stream, (tess_cut){cut.q.size + 2 * cut.kv.size, 0}, at->std, bias);
    if (s->qkv != NULL) {
        p->qkv.joined = true;
        p->q = part_of(at, &p->qkv, 0, cut.q);
        p->k = part_of(at, &p->qkv, cut.q.size, cut.kv);
        p->v = part_of(at, &p->qkv, cut.q.size + cut.kv.size, cut.kv);
        return;
    }
    p->q = add_linear(at, s->q, cut.stream, cut.q, at->std, bias);
    p->k = add_linear(at, s->k, cut.stream, cut.kv, at->std, bias);
    p->v = add_linear(at, s->v, cut.stream, cut.kv, at->std, bias);
}

/* Adds q, k and v that follow from latents. kv_a and the shared key are views of one matrix. Ranks that share the layer
 * divide its heads, and each has all maps to latents. */
static void add_latents(const place *at, tess_attention_params *p)
{
    const tess_family_latent *names = at->shape->latent;
    const tess_model_config *c = &at->model->config;
    const int64_t H = c->n_heads, V = c->parts.latent.value, L = c->parts.latent.kv, R = c->parts.latent.rotary;
    const tess_cut stream = at->cut.stream, rank = {c->parts.latent.q, 0}, heads = at->cut.q;
    const bool bias = c->parts.qkv_bias;
    tess_latent_params *l = &p->latent;
    l->plain = c->parts.latent.plain;
    l->value = V;
    p->interleaved = c->parts.latent.interleaved;
    if (rank.size > 0) {
        l->q_a = add_linear(at, names->q_a, stream, rank, at->std, bias);
        l->q_norm = add_norm(at, names->q_norm, rank.size);
    }
    p->q = rank.size > 0 ? add_linear(at, names->q_b, rank, heads, at->std, false)
                         : add_linear(at, at->shape->q, stream, heads, at->std, false);
    const tess_linear fused = add_linear(at, names->kv_a, stream, (tess_cut){L + R, 0}, at->std, bias);
    l->kv_a = part_of(at, &fused, 0, (tess_cut){L, 0});
    l->shared = part_of(at, &fused, L, (tess_cut){R, 0});
    l->norm = add_norm(at, names->norm, L);
    l->kv_b =
        add_linear(at, names->kv_b, (tess_cut){L, 0}, (tess_cut){H * (l->plain + V), l->plain + V}, at->std, false);
}

static void choose_rope(const place *at, tess_attention_params *p)
{
    const tess_model_config *c = &at->model->config;
    const bool local = c->local_theta > 0 && p->window > 0;
    if (at->shape->positions != NULL || c->layers[block_of(at)->layer] & TESS_LAYER_NO_ROPE)
        return;
    p->k_rope = local ? TESS_ROPE_LOCAL : TESS_ROPE_MAIN;
    p->q_rope = c->rope.query_beta > 0 ? TESS_ROPE_QUERY : p->k_rope;
}

/* Adds norms of q and k: one of all heads, or one of each head, whose parameters follow each other. */
static void add_head_norms(const place *at, tess_attention_params *p)
{
    const tess_family_shape *s = at->shape;
    const tess_family_cuts cut = at->cut;
    tess_model *model = at->model;
    const int64_t D = model->config.head_size;
    if (!model->config.parts.qk_norm || !s->head_norms) {
        p->q_norm = add_norm(at, model->config.parts.qk_norm ? s->q_norm : NULL, s->wide_norms ? cut.q.size : D);
        p->k_norm = add_norm(at, model->config.parts.qk_norm ? s->k_norm : NULL, s->wide_norms ? cut.kv.size : D);
        return;
    }
    p->q_norm = p->k_norm = (tess_norm){-1, -1};
    p->n_head_norms = (cut.q.size + cut.kv.size) / D;
    for (int64_t i = 0; i < p->n_head_norms; i++) {
        const int64_t head = i - cut.q.size / D;
        const int index =
            tess_model_add_param(model, at->unit, TESS_INIT_ONE, 0, D, 0, "%s.%s.%d.weight", block_of(at)->name,
                                 head < 0 ? s->q_norm : s->k_norm, (int)(head < 0 ? i : head));
        if (i == 0)
            p->q_norm.weight = index;
        if (head == 0)
            p->k_norm.weight = index;
    }
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
    p->scale = (float)(c->factors.attention > 0
                           ? c->factors.attention
                           : 1 / sqrt((double)(c->factors.query_scalar > 0 ? c->factors.query_scalar : p->head_size)));
    p->scale *= (float)tess_rope_score_scale(c);
    p->rotary = tess_model_config_rotary(c);
    p->interleaved = s->interleaved;
    p->soft_cap = (float)c->factors.attention_cap;
    p->clip = (float)c->parts.clip_qkv;
    p->beside = c->parts.parallel;
    p->lends_norm = p->beside && !s->own_feed_norm;
    choose_rope(at, p);
    p->norm = add_norm(at, s->attention_norm, c->hidden_size);
    p->qkv.weight = p->k.weight = p->v.weight = -1;
    p->latent = (tess_latent_params){.norm = {-1, -1},
                                     .q_norm = {-1, -1},
                                     .q_a.weight = -1,
                                     .kv_a.weight = -1,
                                     .shared.weight = -1,
                                     .kv_b.weight = -1};
    if (s->latent != NULL)
        add_latents(at, p);
    else
        add_qkv(at, p);
    p->sinks = -1;
    if (s->sinks != NULL) {
        const tess_cut heads = {at->cut.q.size / c->head_size, at->cut.q.unit / c->head_size};
        p->sinks = tess_model_add_param(at->model, at->unit, TESS_INIT_NORMAL, at->std, heads.size, 0, "%s.%s",
                                        block_of(at)->name, s->sinks);
        tess_family_cut_param(at->model, at->unit, p->sinks, 0, heads);
    }
    p->wide_norms = s->wide_norms;
    add_head_norms(at, p);
    const tess_cut out = {c->n_heads * p->latent.value, p->latent.value};
    p->o = add_linear(at, s->o, s->latent != NULL ? out : at->cut.q, at->cut.stream, at->out_std, c->parts.o_bias);
    p->end = (tess_branch_end){add_norm(at, s->attention_end, c->hidden_size), factor_of(c->factors.residual)};
}

static void add_feed_forward(const place *at)
{
    const tess_family_shape *s = at->shape;
    const tess_family_cuts cut = at->cut;
    const bool bias = at->model->config.parts.mlp_bias;
    tess_block *block = block_of(at);
    tess_feed_forward_params *p = tess_model_add_part(at->model, at->unit, &tess_feed_forward_part);
    if (p == NULL)
        return;
    p->size = tess_family_share(at->model, cut.mlp);
    p->scale.weight = -1;
    if (at->model->config.parts.parallel) {
        const tess_attention_params *attention = tess_block_find(block, &tess_attention_part);
        block->parts[block->n_parts - 1].parallel = true;
        p->shares_norm = !s->own_feed_norm;
        p->norm = attention->norm;
    }
    if (!p->shares_norm)
        p->norm = add_norm(at, s->feed_norm, at->model->config.hidden_size);
    if (s->gate_up != NULL) {
        const tess_linear fused =
            add_linear(at, s->gate_up, cut.stream, (tess_cut){2 * cut.mlp.size, 0}, at->std, bias);
        p->gate = part_of(at, &fused, 0, cut.mlp);
        p->up = part_of(at, &fused, cut.mlp.size, cut.mlp);
    } else {
        p->gate = add_linear(at, s->gate, cut.stream, cut.mlp, at->std, bias);
        p->up = add_linear(at, s->up, cut.stream, cut.mlp, at->std, bias);
    }
    p->down = add_linear(at, s->down, cut.mlp, cut.stream, at->out_std, bias);
    tess_family_sum_leaves(at->model, p);
    p->end = (tess_branch_end){add_norm(at, s->feed_end, at->model->config.hidden_size),
                               factor_of(at->model->config.factors.residual)};
}

void tess_family_build(tess_model *model)
{
    const tess_model_config *c = &model->config;
    const tess_family_shape *s = tess_family_find(c->family)->shape;
    tess_embedding_params *embedding = tess_family_embedding(model, s->table);
    place at = {model, s, 0, tess_family_cut(model), c->initializer_range, c->initializer_range};
    if (s->small_output)
        at.out_std /= sqrt(2.0 * (double)c->n_layers);
    if (embedding != NULL) {
        embedding->rounds = s->scales_embedding;
        embedding->factor = s->scales_embedding ? (float)sqrt((double)c->hidden_size) : factor_of(c->factors.embedding);
    }
    if (embedding != NULL && model->part.embedding && s->positions != NULL)
        embedding->positions = tess_family_add_table(model, 0, c->max_position, s->positions);
    for (int64_t i = 0; i < model->part.n_layers && model->built == TESS_OK; i++) {
        at.unit = tess_family_layer(model, i);
        tess_block *block = block_of(&at);
        snprintf(block->name, sizeof(block->name), "%s.%s.%d", s->prefix, s->layers, (int)block->layer);
        block->layer_norm = s->layer_norm;
        block->one_plus = s->one_plus;
        block->activation = tess_family_activation(c);
        add_attention(&at);
        if (tess_model_config_mixes(c, block->layer))
            tess_family_experts(model, at.unit, s->feed_norm, tess_family_find(c->family)->mixture);
        else
            add_feed_forward(&at);
    }
    tess_family_head(model, s);
}
