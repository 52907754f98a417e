#include "engine/foreign.h"

#include <stdio.h>
#include <string.h>

#include "engine/model/adapter.h"
#include "engine/numbers/numbers.h"
#include "base/core/abi.h"
#include "base/mem/scoped.h"

/* ---- The description of the model ---- */
static int count_params(const tess_program *p)
{
    int n = 0;
    for (int u = 0; u < p->n_units; u++)
        n += p->units[u].n_params;
    return n;
}

static tess_status check_unit(const tess_program *p, const tess_program_unit *unit)
{
    TESS_CHECK(unit->name != NULL && unit->name[0] != '\0' && strlen(unit->name) < TESS_UNIT_NAME_SIZE, TESS_E_INVALID,
               "program: unit %d has no name, or one of more than %d bytes", (int)(unit - p->units),
               TESS_UNIT_NAME_SIZE - 1);
    TESS_CHECK(unit->n_params > 0 && unit->params != NULL, TESS_E_INVALID, "program: unit '%s' has no parameters",
               unit->name);
    for (int i = 0; i < unit->n_params; i++) {
        const tess_param_desc *d = &unit->params[i];
        TESS_CHECK(d->name != NULL && d->name[0] != '\0' && strlen(d->name) < TESS_PARAM_NAME_SIZE, TESS_E_INVALID,
                   "program: parameter %d of unit '%s' has no name, or one of more than %d bytes", i, unit->name,
                   TESS_PARAM_NAME_SIZE - 1);
        TESS_CHECK(d->tp.kind == TESS_REPLICATE && !d->narrow && d->codes == 0 && !d->elsewhere, TESS_E_UNSUPPORTED,
                   "program: '%s' is cut by tp, narrow, codes or elsewhere; the loop trains whole float32 parameters",
                   d->name);
    }
    return TESS_OK;
}

/* Checks that no two parameters and no two units have the same name. */
static tess_status check_names(const tess_program *p, const tess_model *model)
{
    for (int i = 0; i < tess_model_n_params(model); i++)
        TESS_CHECK(tess_model_find_param(model, tess_model_param(model, i)->name) == i, TESS_E_INVALID,
                   "program: two parameters have the name '%s'", tess_model_param(model, i)->name);
    for (int u = 0; u < p->n_units; u++)
        for (int k = 0; k < u; k++)
            TESS_CHECK(strcmp(p->units[u].name, p->units[k].name) != 0, TESS_E_INVALID,
                       "program: two units have the name '%s'", p->units[u].name);
    return TESS_OK;
}

tess_status tess_foreign_check(const tess_program *p)
{
    TESS_TRY(TESS_CHECK_SIZE(tess_program, p));
    TESS_CHECK(p->fill != NULL && p->ready != NULL && p->forward_backward != NULL && p->batch != NULL, TESS_E_INVALID,
               "program: fill, ready, forward_backward and batch are needed");
    TESS_CHECK(p->name != NULL && p->name[0] != '\0', TESS_E_INVALID, "program: it has no name");
    TESS_CHECK(p->n_units > 0 && p->units != NULL && p->micro_batches > 0, TESS_E_INVALID,
               "program: %d units and %lld micro-batches; each takes 1 at least", p->n_units,
               (long long)p->micro_batches);
    TESS_CHECK(p->n_evaluations >= 0 && (p->evaluate != NULL) == (p->n_evaluations > 0), TESS_E_INVALID,
               "program: evaluate and n_evaluations go together");
    TESS_CHECK((p->save == NULL) == (p->load == NULL), TESS_E_INVALID, "program: save and load go together");
    for (int u = 0; u < p->n_units; u++)
        TESS_TRY(check_unit(p, &p->units[u]));
    return TESS_OK;
}

static void fill_params(const tess_program *p, const char **names, tess_param *params)
{
    for (int u = 0; u < p->n_units; u++) {
        names[u] = p->units[u].name;
        for (int i = 0; i < p->units[u].n_params; i++) {
            const tess_param_desc *d = &p->units[u].params[i];
            *params = (tess_param){.shape = d->shape,
                                   .slice = {.whole = d->shape},
                                   .decay = d->decay,
                                   .hidden = d->hidden,
                                   .frozen = !d->trainable,
                                   .unit = u};
            snprintf(params++->name, TESS_PARAM_NAME_SIZE, "%s", d->name);
        }
    }
}

tess_status tess_foreign_model(tess_mem *mem, const tess_program *p, tess_model **model)
{
    TESS_AUTO(tess_mem_drop) const char **names = NULL;
    TESS_AUTO(tess_mem_drop) tess_param *params = NULL;
    const int n_params = count_params(p);
    TESS_TRY(TESS_NEW(mem, p->n_units, "units", &names));
    TESS_TRY(TESS_NEW(mem, n_params, "parameters", &params));
    fill_params(p, names, params);
    TESS_TRY(tess_model_create_described(mem, names, p->n_units, params, n_params, model));
    tess_status status = check_names(p, *model);
    if (status != TESS_OK)
        tess_model_destroy(model);
    return status;
}

/* ---- Units ---- */
static int number_of(const tess_engine *e, const tess_unit *unit)
{
    int u = 0;
    while (e->units[u].unit != unit)
        u++;
    return u;
}

/* Does what the engine's hooks do around a unit of its own models. */
static tess_status at_moment(void *self, tess_unit *unit, tess_unit_moment moment)
{
    tess_engine *e = self;
    const int u = number_of(e, unit);
    const bool backward = moment == TESS_BEFORE_BACKWARD;
    int first;
    if (moment == TESS_AFTER_FORWARD)
        return TESS_OK;
    if (moment == TESS_AFTER_BACKWARD)
        return tess_numbers_see_gradients(e->numbers, u);
    tess_runtime_phase(e->runtime, backward ? "backward" : "forward", e->step + 1, u);
    tess_phase_switch(&e->clock, backward ? TESS_PHASE_BACKWARD : TESS_PHASE_FORWARD);
    tess_block_params_open(&e->gathered, e->model, u, &e->units[u], backward, &first);
    return tess_numbers_see_params(e->numbers, u);
}

static tess_status add_unit(tess_engine *e, int u, tess_param_desc *descs)
{
    const tess_program_unit *unit = &e->program->units[u];
    int first, n;
    tess_model_unit_params(e->model, u, &first, &n);
    for (int i = 0; i < n; i++) {
        descs[i] = unit->params[i];
        descs[i].trainable = !tess_model_param(e->model, first + i)->frozen;
    }
    return tess_fsdp_add_unit(e->fsdp, unit->name, descs, n, &e->units[u].unit);
}

tess_status tess_foreign_add_units(tess_engine *e)
{
    TESS_AUTO(tess_mem_drop) tess_param_desc *descs = NULL;
    TESS_TRY(TESS_NEW(e->mem, count_params(e->program), "units", &descs));
    for (int u = 0; u < e->program->n_units; u++)
        TESS_TRY(add_unit(e, u, descs));
    return tess_fsdp_add_hook(e->fsdp, at_moment, e);
}

tess_status tess_foreign_ready(tess_engine *e)
{
    TESS_AUTO(tess_mem_drop) tess_unit **units = NULL;
    TESS_TRY(TESS_NEW(e->mem, e->program->n_units, "units", &units));
    for (int u = 0; u < e->program->n_units; u++)
        units[u] = e->units[u].unit;
    TESS_TRY_CTX(e->program->ready(e->program->self, e->fsdp, units), "program: ready");
    return TESS_OK;
}

/* ---- A step ---- */
tess_status tess_foreign_add_loss(tess_loss_sum *sum, const tess_program_loss *loss)
{
    TESS_CHECK(loss->n_items >= 0, TESS_E_INVALID, "program: a loss over %lld items", (long long)loss->n_items);
    tess_exact_add(&sum->nll, loss->sum);
    sum->n_tokens += loss->n_items;
    return TESS_OK;
}

tess_status tess_foreign_micro_batch(tess_engine *e, const tess_batch_source *source, int64_t s, tess_loss_sum *own)
{
    const tess_program *p = e->program;
    const int64_t i = tess_coordinates_micro(&e->at, s), index = source->first + i;
    tess_program_loss loss = {0};
    if (i < source->n_micro) {
        tess_phase_switch(&e->clock, TESS_PHASE_DATA);
        tess_runtime_phase(e->runtime, "data", e->step + 1, index);
        TESS_TRY_CTX(p->batch(p->self, index), "program: batch %lld", (long long)index);
    }
    tess_phase_switch(&e->clock, TESS_PHASE_OTHER);
    TESS_TRY(tess_fsdp_micro_begin(e->fsdp, (int)s));
    TESS_TRY(tess_numbers_micro_begin(e->numbers, s, 0));
    TESS_TRY_CTX(p->forward_backward(p->self, &loss), "program: micro-batch %lld", (long long)index);
    tess_phase_switch(&e->clock, TESS_PHASE_OTHER);
    return i < source->n_micro ? tess_foreign_add_loss(own, &loss) : TESS_OK;
}

tess_status tess_foreign_update(tess_engine *e, float lr, float scale)
{
    const tess_program *p = e->program;
    TESS_TRY_CTX(p->update(p->self, e->fsdp, e->step + 1 - e->restarts.optimizer, lr, scale), "program: update");
    return tess_fsdp_params_changed(e->fsdp);
}
