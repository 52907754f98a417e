/* The parameters of a layer's experts. Each projection of each expert is a parameter with the name that files have, so
 * that checkpoints, adapters and optimizers need nothing else. */
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "nn/layers/expert_exchange.h"
#include "nn/models/family.h"

/* A router's method in DeepSeek's words. */
static const char *method_of(const tess_family_row *row, bool grouped)
{
    return row->mixture->sigmoid ? "noaux_tc" : grouped ? "group_limited_greedy" : "greedy";
}

static const char *scores_of(const tess_family_row *row)
{
    return row->mixture->sigmoid ? "sigmoid" : "softmax";
}

/* The keys of groups have no meaning if the method does not use groups. */
tess_status tess_router_parse(const json_t *json, const char *what, const tess_family_row *row,
                              tess_model_config *config)
{
    if (row->mixture == NULL || !row->mixture->grouped)
        return TESS_OK;
    const char *method = method_of(row, false), *scores = scores_of(row);
    TESS_TRY(tess_json_get_string(json, "topk_method", what, &method));
    TESS_TRY(tess_json_get_string(json, "scoring_func", what, &scores));
    const bool grouped = strcmp(method, method_of(row, true)) == 0;
    TESS_CHECK(grouped || strcmp(method, method_of(row, false)) == 0, TESS_E_UNSUPPORTED,
               "%s: topk_method is '%s'; supported: %s%s", what, method, method_of(row, false),
               row->mixture->sigmoid ? "" : ", group_limited_greedy");
    TESS_CHECK(strcmp(scores, scores_of(row)) == 0, TESS_E_UNSUPPORTED, "%s: scoring_func is '%s'; supported: %s", what,
               scores, scores_of(row));
    if (!grouped)
        config->parts.experts.groups = config->parts.experts.kept = 0;
    TESS_CHECK(!grouped || config->parts.experts.kept > 0, TESS_E_INVALID,
               "%s: topk_method is '%s', and topk_group null", what, method);
    return TESS_OK;
}

int tess_router_write(const tess_family_row *row, const tess_model_config *config, json_t *json)
{
    if (row->mixture == NULL || !row->mixture->grouped)
        return 0;
    return json_object_set_new(json, "topk_method", json_string(method_of(row, config->parts.experts.kept > 0))) |
           json_object_set_new(json, "scoring_func", json_string(scores_of(row)));
}

/* Adds a vector of C numbers for each of n outputs: a router, or the gate of the shared expert. Muon and 8-bit moments
 * are for larger matrices. */
static tess_linear add_gate(tess_model *model, int unit, int64_t n, const char *mixture, const char *name)
{
    const int64_t C = model->config.hidden_size;
    tess_linear gate = {.bias = -1, .in = {C, 0}, .out = {n, 0}, .n_in = C, .n_out = n, .ld = C};
    gate.weight = tess_model_add_param(model, unit, TESS_INIT_NORMAL, model->config.initializer_range, n, C,
                                       "%s.%s.%s.weight", model->blocks[unit].name, mixture, name);
    if (model->built == TESS_OK)
        model->params[model->blocks[unit].first + gate.weight].hidden = false;
    return gate;
}

/* Adds the bias that is added to the scores when experts are chosen. No gradient reaches it, and it stays float32: its
 * changes are too small for narrower types. */
static int add_choice_bias(tess_model *model, int unit, int64_t n, const tess_family_mixture *mixture)
{
    const int bias = tess_model_add_param(model, unit, TESS_INIT_ZERO, 0, n, 0, "%s.%s.%s", model->blocks[unit].name,
                                          mixture->name, mixture->bias);
    if (model->built == TESS_OK) {
        tess_param *param = &model->params[model->blocks[unit].first + bias];
        param->frozen = param->wide = true;
    }
    return bias;
}

/* Adds the expert that all tokens share. It reads the norm of the experts before it, and adds to their branch. */
static void add_shared(tess_model *model, int unit, tess_experts_params *experts, const tess_family_mixture *mixture)
{
    const tess_model_config *c = &model->config;
    const tess_cut stream = {c->hidden_size, 0}, channels = {c->parts.experts.shared, 1};
    const tess_family_linear in = {.in = stream, .out = channels, .std = c->initializer_range},
                             out = {.in = channels, .out = stream, .std = c->initializer_range};
    tess_feed_forward_params *p = tess_model_add_part(model, unit, &tess_feed_forward_part);
    char name[3][TESS_PARAM_NAME_SIZE];
    const char *const maps[] = {mixture->gate, mixture->up, mixture->down};
    if (p == NULL)
        return;
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof(name[i]), "%s.%s.%s", mixture->name, mixture->shared, maps[i]);
    experts->lends_norm = p->shares_norm = true;
    model->blocks[unit].parts[model->blocks[unit].n_parts - 1].parallel = true;
    p->norm = experts->norm;
    p->gate = tess_family_add_linear(model, unit, name[0], &in);
    p->up = tess_family_add_linear(model, unit, name[1], &in);
    p->down = tess_family_add_linear(model, unit, name[2], &out);
    p->size = p->down.n_in;
    p->down.in_leaf = p->gate.out_leaf = p->up.out_leaf = tess_leaf_of(channels.size, c->sum_leaves);
    p->end = (tess_branch_end){{-1, -1}, 0};
    p->scale.weight = -1;
    if (mixture->shared_gate != NULL)
        p->scale = add_gate(model, unit, 1, mixture->name, mixture->shared_gate);
}

/* Adds one tensor with the weights or the biases of all experts. columns 0: biases */
static int add_stack(tess_model *model, int unit, int64_t rows, int64_t columns, tess_cut cut, const char *mixture,
                     const char *name)
{
    const tess_model_config *c = &model->config;
    const bool bias = columns == 0;
    const int index = tess_model_add_param(
        model, unit, bias ? TESS_INIT_ZERO : TESS_INIT_NORMAL, bias ? 0 : c->initializer_range, c->parts.experts.n,
        rows, "%s.%s.experts.%s%s", model->blocks[unit].name, mixture, name, bias ? "_bias" : "");
    if (model->built != TESS_OK)
        return index;
    tess_param *param = &model->params[model->blocks[unit].first + index];
    if (!bias)
        param->shape = param->slice.whole = (tess_shape){3, {c->parts.experts.n, rows, columns}};
    param->decay = !bias;
    param->hidden = false;
    param->idle = (float)(1 - (double)c->parts.experts.top_k / (double)c->parts.experts.n);
    param->expert = param->stacked = true;
    tess_family_cut_param(model, unit, index, !bias && cut.size == columns && cut.unit == 2 ? 2 : 1, cut);
    if (model->part.ep_degree > 1) {
        param->shape.dim[0] /= model->part.ep_degree;
        param->slice.dim = 0;
        param->slice.unit = 1;
    }
    return index;
}

/* Adds experts whose maps are one tensor. */
static void add_joined(tess_model *model, int unit, tess_experts_params *p, const tess_family_mixture *mixture)
{
    const tess_model_config *c = &model->config;
    const int64_t C = c->hidden_size, F = c->parts.experts.size, leaf = tess_leaf_of(F, c->sum_leaves);
    const bool whole = model->part.ep_degree > 1;
    const tess_cut stream = {C, 0}, channels = {F, whole ? 0 : 1}, pairs = {2 * F, whole ? 0 : 2};
    tess_linear in = {.in = stream, .out = pairs, .n_in = C, .n_out = tess_family_share(model, pairs), .in_out = true},
                out = {.in = channels,
                       .out = stream,
                       .n_in = tess_family_share(model, channels),
                       .n_out = C,
                       .in_out = true};
    in.ld = in.n_out;
    in.out_leaf = 2 * leaf;
    out.ld = C;
    out.in_leaf = leaf;
    in.weight = add_stack(model, unit, C, 2 * F, pairs, mixture->name, mixture->gate_up);
    in.bias = add_stack(model, unit, 2 * F, 0, pairs, mixture->name, mixture->gate_up);
    out.weight = add_stack(model, unit, F, C, channels, mixture->name, mixture->down);
    out.bias = add_stack(model, unit, C, 0, stream, mixture->name, mixture->down);
    p->joined = true;
    p->alpha = (float)c->parts.experts.alpha;
    p->limit = (float)c->parts.experts.limit;
    p->size = out.n_in;
    for (int64_t e = 0; e < p->n_own; e++) {
        p->experts[e] = (tess_expert){.gate = in, .up = {.weight = -1, .bias = -1}, .down = out};
        tess_linear *gate = &p->experts[e].gate, *down = &p->experts[e].down;
        gate->offset = e * C * in.n_out;
        gate->first = e * in.n_out;
        down->offset = e * out.n_in * C;
        down->first = e * C;
    }
}

void tess_family_experts(tess_model *model, int unit, const char *norm, const tess_family_mixture *mixture)
{
    const tess_model_config *c = &model->config;
    const int64_t n = c->parts.experts.n, C = c->hidden_size;
    const int ranks = model->part.ep_degree, together = model->part.tp_degree;
    const tess_cut stream = {C, 0}, channels = {c->parts.experts.size, ranks > 1 ? 0 : 1};
    const char *layer = model->blocks[unit].name;
    tess_experts_params *p =
        tess_model_add_sized_part(model, unit, &tess_experts_part, sizeof(*p) + (size_t)n * sizeof(p->experts[0]));
    if (p == NULL)
        return;
    p->n_experts = n;
    p->n_own = n / ranks;
    p->sources = ranks > 1 ? ranks / together : 1;
    model->blocks[unit].parts[model->blocks[unit].n_parts - 1].host = model->host_bytes;
    model->host_bytes += tess_expert_ends_bytes(p);
    p->top_k = c->parts.experts.top_k;
    p->rule = (tess_route_rule){.n_groups = c->parts.experts.groups,
                                .n_kept = c->parts.experts.kept,
                                .scale = (float)c->parts.experts.scale,
                                .normalize = c->parts.experts.normalize,
                                .sigmoid = mixture->sigmoid,
                                .two_best = mixture->sigmoid};
    p->balance = c->parts.experts.balances ? c->parts.experts.balance : 0;
    p->z = c->parts.experts.balances ? c->parts.experts.z : 0;
    p->norm = tess_family_add_norm(model, unit, layer, norm, C);
    p->router = add_gate(model, unit, n, mixture->name, mixture->router != NULL ? mixture->router : "gate");
    p->bias = -1;
    if (mixture->bias != NULL)
        p->bias = add_choice_bias(model, unit, n, mixture);
    if (mixture->gate_up != NULL) {
        p->router.bias = tess_model_add_param(model, unit, TESS_INIT_NORMAL, c->initializer_range, n, 0,
                                              "%s.%s.%s.bias", layer, mixture->name, mixture->router);
        add_joined(model, unit, p, mixture);
        return;
    }
    const int first = model->n_params;
    for (int64_t i = 0; i < p->n_own; i++) {
        const int64_t e = model->part.ep_rank * p->n_own + i;
        char name[3][TESS_PARAM_NAME_SIZE];
        const char *const maps[] = {mixture->gate, mixture->up, mixture->down};
        for (int k = 0; k < 3; k++)
            snprintf(name[k], sizeof(name[k]), "%s.experts.%d.%s", mixture->name, (int)e, maps[k]);
        const tess_family_linear in = {.in = stream, .out = channels, .std = c->initializer_range},
                                 out = {.in = channels, .out = stream, .std = c->initializer_range};
        tess_expert *x = &p->experts[i];
        *x = (tess_expert){tess_family_add_linear(model, unit, name[0], &in),
                           tess_family_add_linear(model, unit, name[1], &in),
                           tess_family_add_linear(model, unit, name[2], &out)};
        x->down.in_leaf = x->gate.out_leaf = x->up.out_leaf = tess_leaf_of(channels.size, c->sum_leaves);
    }
    p->size = p->experts[0].down.n_in;
    for (int i = first; i < model->n_params; i++) {
        model->params[i].idle = (float)(1 - (double)p->top_k / (double)n);
        model->params[i].expert = true;
    }
    if (c->parts.experts.shared > 0)
        add_shared(model, unit, p, mixture);
}
