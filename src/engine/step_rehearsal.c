/* Rehearses a step without computing: compares over all ranks which collectives it will call, before the first one.
 *
 * The executor walks as in training, a rank of a pipeline follows its schedule, and fsdp makes the decisions of the
 * step, starting with empty slots. The step itself starts with the slots that the rehearsal leaves. If slots rotate,
 * it may prefetch a unit earlier or later than rehearsed, in the same way on all ranks. */
#include "inject/inject.h"
#include "comm/rehearsal/rehearsal.h"
#include "engine/engine.h"
#include "engine/loss.h"
#include "engine/stages/rank_stage.h"

enum { MOST_MICRO_BATCHES = 2 }; /* the third repeats the second */

/* The engine's hooks (engine_hooks.c) also read numbers, which a rehearsal does not have. */
static tess_status pre_forward(void *self, int unit, const void *const **w)
{
    (void)w;
    return tess_unit_pre_forward(((tess_engine *)self)->units[unit].unit);
}

static tess_status pre_backward(void *self, int unit, const void *const **w, float *const **dw)
{
    (void)w;
    (void)dw;
    return tess_unit_pre_backward(((tess_engine *)self)->units[unit].unit);
}

static tess_status post_backward(void *self, int unit)
{
    return tess_unit_post_backward(((tess_engine *)self)->units[unit].unit);
}

static tess_status rehearse_micro_batches(tess_engine *e, int n)
{
    const tess_hooks hooks = {e, pre_forward, tess_engine_hooks(e).post_forward, pre_backward, post_backward};
    if (e->stage != NULL)
        return tess_stage_rehearse(e->stage, &hooks, n);
    for (int s = 0; s < n; s++) {
        TESS_TRY(tess_fsdp_micro_begin(e->fsdp, s));
        for (int p = 0; p < e->config->training.passes; p++) {
            if (p > 0)
                TESS_TRY(tess_fsdp_pass_begin(e->fsdp, p));
            TESS_TRY(tess_executor_rehearse(e->executor, &hooks));
        }
    }
    return TESS_OK;
}

static tess_status rehearse_step(tess_engine *e, int64_t n_micro)
{
    n_micro = tess_inject_micro_batches(e->runtime, e->step + 1, n_micro);
    int64_t n_local = tess_coordinates_rounds(&e->at, n_micro);
    int n;
    tess_loss_sum sum = {0};
    TESS_TRY(tess_rehearsal_count(e->runtime, "a step's micro-batches", n_local));
    if (n_local == 0)
        return TESS_OK;
    int64_t most = e->stage != NULL ? tess_stage_rehearsed(e->stage, (int)n_local) : MOST_MICRO_BATCHES;
    if (n_local > most)
        n_micro = most * e->at.n_data;
    TESS_TRY(tess_fsdp_step_begin_shared(e->fsdp, n_micro, &n));
    TESS_TRY(rehearse_micro_batches(e, n));
    TESS_TRY(tess_fsdp_step_end(e->fsdp));
    TESS_TRY(tess_loss_all_reduce(e->team, &sum, 0));
    return tess_fsdp_params_changed(e->fsdp); /* the gathered copies hold no values */
}

tess_status tess_engine_rehearse(tess_engine *e, int64_t n_micro)
{
    if (e->at.world == 1 || e->program != NULL) /* only the program knows in which order it calls hooks */
        return TESS_OK;
    TESS_TRY(tess_rehearsal_begin(e->team));
    /* Only ranks of one group are compared: stages make different calls, and so do the ranks that share layers
     * unevenly. */
    tess_rehearsal_group(e->runtime, e->at.part);
    tess_status status = rehearse_step(e, n_micro);
    if (status == TESS_OK)
        status = tess_rehearsal_end(e->runtime);
    else
        tess_rehearsal_drop(e->runtime);
    return status;
}
