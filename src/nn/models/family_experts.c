/* The parameters of a layer's experts. Each projection of each expert is a parameter with the name that files have, so
 * that checkpoints, adapters and optimizers need nothing else. */
#include <stdio.h>

#include "nn/models/family.h"

void tess_family_experts(tess_model *model, int unit, const char *norm, const tess_family_mixture *mixture)
{
    const tess_model_config *c = &model->config;
    const int64_t n = c->parts.experts.n, C = c->hidden_size;
    const tess_cut stream = {C, 0}, channels = {c->parts.experts.size, 1};
    const char *layer = model->blocks[unit].name;
    tess_experts_params *p =
        tess_model_add_sized_part(model, unit, &tess_experts_part, sizeof(*p) + (size_t)n * sizeof(p->experts[0]));
    if (p == NULL)
        return;
    p->n_experts = n;
    p->top_k = c->parts.experts.top_k;
    p->normalize = c->parts.experts.normalize;
    p->balance = c->parts.experts.balances ? c->parts.experts.balance : 0;
    p->z = c->parts.experts.balances ? c->parts.experts.z : 0;
    p->norm = tess_family_add_norm(model, unit, layer, norm, C);
    p->router = (tess_linear){.bias = -1, .in = stream, .out = {n, 0}, .n_in = C, .n_out = n, .ld = C};
    p->router.weight = tess_model_add_param(model, unit, TESS_INIT_NORMAL, c->initializer_range, n, C,
                                            "%s.%s.gate.weight", layer, mixture->name);
    if (model->built == TESS_OK) /* Muon and 8-bit moments are for larger matrices */
        model->params[model->blocks[unit].first + p->router.weight].hidden = false;
    const int first = model->n_params;
    for (int64_t e = 0; e < n; e++) {
        char name[3][TESS_PARAM_NAME_SIZE];
        const char *const maps[] = {mixture->gate, mixture->up, mixture->down};
        for (int i = 0; i < 3; i++)
            snprintf(name[i], sizeof(name[i]), "%s.experts.%d.%s", mixture->name, (int)e, maps[i]);
        const tess_family_linear in = {.in = stream, .out = channels, .std = c->initializer_range},
                                 out = {.in = channels, .out = stream, .std = c->initializer_range};
        tess_expert *x = &p->experts[e];
        *x = (tess_expert){tess_family_add_linear(model, unit, name[0], &in),
                           tess_family_add_linear(model, unit, name[1], &in),
                           tess_family_add_linear(model, unit, name[2], &out)};
        x->down.in_leaf = x->gate.out_leaf = x->up.out_leaf = tess_leaf_of(channels.size, c->sum_leaves);
    }
    p->size = p->experts[0].down.n_in;
    for (int i = first; i < model->n_params; i++)
        model->params[i].idle = (float)(1 - (double)p->top_k / (double)n);
}
