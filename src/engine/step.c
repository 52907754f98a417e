/* Runs one optimizer step: its micro-batches (step_gradients.c), the checks of its numbers, clipping, the update. */
#include "inject/inject.h"
#include "engine/foreign.h"
#include "engine/learning_rate.h"
#include "engine/numbers/numbers.h"
#include "engine/numbers/router_bias.h"
#include "engine/stages/rank_stage.h"

/* Tells the recorder that weights and moments of the latest step are complete. */
static void record_done(const tess_engine *e)
{
    if (e->recorder.done != NULL)
        e->recorder.done(e->recorder.self, e->step);
}

static tess_status update(tess_engine *e, tess_engine_report *report)
{
    double scale = 1.0 / report->divisor / report->loss_scale, max_norm = e->config->training.max_norm;
    if (max_norm > 0 && report->grad_norm > max_norm)
        scale *= max_norm / (report->grad_norm + 1e-6); /* the formula of torch.nn.utils.clip_grad_norm_ */
    if (!report->skipped) {
        report->lr = tess_config_lr(e->config, e->restarts.schedule, e->step + 1);
        TESS_TRY(tess_router_bias_choose(e));
    }
    if (e->recorder.committed != NULL)
        e->recorder.committed(e->recorder.self, e, report, (float)report->lr, (float)scale);
    if (report->skipped)
        return TESS_OK;
    TESS_TRY(tess_engine_clip_values(e, (float)scale));
    if (e->optimizer == NULL)
        return tess_foreign_update(e, (float)report->lr, (float)scale);
    TESS_TRY(tess_fsdp_optimizer_step(e->fsdp, e->optimizer, e->step + 1 - e->restarts.optimizer, (float)report->lr,
                                      (float)scale));
    TESS_TRY(tess_router_bias_update(e));
    return e->stage != NULL ? tess_stage_share_table(e->stage) : TESS_OK;
}

tess_status tess_engine_weights_changed(tess_engine *e)
{
    tess_router_bias_forget(e);
    TESS_TRY(tess_fsdp_params_changed(e->fsdp));
    return e->stage != NULL ? tess_stage_share_table(e->stage) : TESS_OK;
}

static tess_ring_traffic ring_traffic(const tess_engine *e)
{
    return e->ring != NULL ? tess_ring_get_traffic(e->ring) : (tess_ring_traffic){0};
}

static uint64_t exchanged(const tess_engine *e)
{
    return (e->tensor != NULL ? tess_tensor_received(e->tensor) : 0) +
           (e->context != NULL ? tess_tensor_received(e->context) : 0) + ring_traffic(e).bytes +
           (e->experts != NULL ? tess_expert_team_received(e->experts) : 0);
}

/* Sets the report's times, and publishes them on the job's board. */
static void report_times(tess_engine *e, const tess_fsdp_traffic *before, uint64_t exchanged_before,
                         tess_ring_traffic ring_before, tess_engine_report *report)
{
    _Static_assert((int)TESS_PHASE_COUNT == (int)TESS_PROGRESS_PHASES, "the board shows the phases of the clock");
    tess_fsdp_traffic now = tess_fsdp_get_traffic(e->fsdp);
    tess_phase_switch(&e->clock, TESS_PHASE_OTHER);
    tess_step_times *times = &report->times;
    *times = (tess_step_times){.hidden_s = (double)(now.hidden_ns - before->hidden_ns) * 1e-9,
                               .gathered_bytes = (double)(now.gathered_bytes - before->gathered_bytes),
                               .reduced_bytes = (double)(now.reduced_bytes - before->reduced_bytes),
                               .exchanged_bytes = (double)(exchanged(e) - exchanged_before),
                               .leaves = (double)(ring_traffic(e).leaves - ring_before.leaves),
                               .leaves_in_time = (double)(ring_traffic(e).in_time - ring_before.in_time)};
    tess_progress progress = {.n_steps = e->step, .n_tokens = e->n_tokens, .loss = report->loss};
    for (int phase = 0; phase < TESS_PHASE_COUNT; phase++) {
        times->phase_s[phase] = progress.phase_s[phase] = (double)e->clock.ns[phase] * 1e-9;
        times->total_s += times->phase_s[phase];
    }
    progress.step_s = times->total_s;
    if (!e->is_second)
        tess_runtime_progress(e->runtime, &progress);
}

tess_status tess_engine_kept(tess_engine *e)
{
    if (!e->compute.resident)
        return TESS_OK;
    TESS_TRY(tess_fsdp_kept(e->fsdp));
    record_done(e);
    return TESS_OK;
}

tess_batch_source tess_engine_source(const tess_engine *e, void *self,
                                     tess_status (*next)(void *self, int64_t index, tess_batch *batch))
{
    int64_t n_micro = tess_config_micro_batches(e->config);
    return (tess_batch_source){.self = self, .next = next, .first = e->step * n_micro, .n_micro = n_micro};
}

tess_status tess_engine_step(tess_engine *e, const tess_batch_source *source, tess_engine_report *report)
{
    tess_loss_sum own = {.flag = tess_runtime_stop_requested(e->runtime) ||
                                 tess_runtime_stops_after(e->runtime, e->step + 1),
                         .news = source->has_news,
                         .leave = tess_runtime_leave_requested(e->runtime)};
    tess_fsdp_traffic traffic = tess_fsdp_get_traffic(e->fsdp);
    uint64_t exchanged_before = exchanged(e);
    tess_ring_traffic ring_before = ring_traffic(e);
    tess_batch_source recorded = tess_numbers_record(e->numbers, source);
    tess_phase_start(&e->clock);
    TESS_TRY(tess_engine_gradients(e, &recorded, &own));
    /* Every rank completes its copy before the next collective. So once any rank has passed that collective, all ranks
     * have a copy of the newest step. */
    TESS_TRY(tess_engine_kept(e));
    tess_runtime_phase(e->runtime, "optimizer", e->step + 1, -1);
    TESS_TRY(tess_engine_measure(e, source, &own, report));
    TESS_TRY(tess_loss_scale_step(e, report));
    TESS_TRY(tess_numbers_check_step(e->numbers, &own, report));
    TESS_TRY(tess_numbers_compare_at_times(e->numbers));
    TESS_TRY(update(e, report));
    e->step++;
    e->n_tokens += report->n_tokens;
    if (!e->is_second)
        tess_inject_moment(e->runtime, "updated", -1);
    if (e->compute.resident)
        TESS_TRY(tess_fsdp_keep(e->fsdp, e->step));
    else
        record_done(e);
    report_times(e, &traffic, exchanged_before, ring_before, report);
    return TESS_OK;
}
