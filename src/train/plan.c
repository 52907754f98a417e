/* A step without its numbers: which collectives it will make, compared over all ranks before the first one.
 *
 * fsdp decides as it would in the step, from empty slots; the step itself begins with the slots that planning has made,
 * and where they rotate it may prefetch a unit sooner or later than planned, on all ranks alike. */
#include "comm/plan.h"
#include "inject/inject.h"
#include "train/engine.h"
#include "train/loss.h"

enum { MOST_MICRO_BATCHES = 2 }; /* the third is as the second */

/* The hooks in the order in which the executor calls them. With tied weights the head uses the embedding, whose
 * gradient stays open until the end. */
static tess_status plan_micro_batch(tess_engine *e)
{
    int last = tess_model_n_units(e->model) - 1;
    bool tied = tess_model_get_config(e->model)->tied;
    for (int u = 0; u <= last; u++) {
        TESS_TRY(tess_unit_pre_forward(e->units[u]));
        TESS_TRY(tess_unit_post_forward(e->units[u]));
    }
    TESS_TRY(tess_unit_pre_backward(e->units[last]));
    if (tied)
        TESS_TRY(tess_unit_pre_backward(e->units[0]));
    TESS_TRY(tess_unit_post_backward(e->units[last]));
    for (int u = last - 1; u >= 0; u--) {
        if (u > 0 || !tied)
            TESS_TRY(tess_unit_pre_backward(e->units[u]));
        TESS_TRY(tess_unit_post_backward(e->units[u]));
    }
    return TESS_OK;
}

static tess_status plan_step(tess_engine *e)
{
    const tess_config *c = e->config;
    int64_t n_local = c->training.global_batch_size / c->training.local_batch_size / e->world;
    tess_loss_sum sum = {0};
    n_local = tess_inject_micro_batches(e->runtime, e->step + 1, n_local);
    TESS_TRY(tess_plan_count(e->runtime, "a step's micro-batches", n_local));
    if (n_local == 0)
        return TESS_OK;
    int n = n_local < MOST_MICRO_BATCHES ? (int)n_local : MOST_MICRO_BATCHES;
    TESS_TRY(tess_fsdp_step_begin(e->fsdp, n));
    for (int s = 0; s < n; s++) {
        TESS_TRY(tess_fsdp_micro_begin(e->fsdp, s));
        TESS_TRY(plan_micro_batch(e));
    }
    TESS_TRY(tess_fsdp_step_end(e->fsdp));
    TESS_TRY(tess_loss_all_reduce(e->team, &sum));
    return tess_fsdp_params_changed(e->fsdp); /* gathered copies hold nothing */
}

tess_status tess_engine_check_plan(tess_engine *e)
{
    if (e->world == 1)
        return TESS_OK;
    TESS_TRY(tess_plan_begin(e->runtime));
    tess_status status = plan_step(e);
    if (status == TESS_OK)
        status = tess_plan_end(e->runtime);
    else
        tess_plan_drop(e->runtime);
    return status;
}
