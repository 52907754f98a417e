/* Computes the parts of a step before its update: the gradients of its micro-batches, and the sums over ranks. They
 * can run again to find a bad number. */
#include <math.h>

#include "base/core/rng.h"
#include "base/mem/dry_mem.h"
#include "inject/inject.h"
#include "engine/foreign.h"
#include "engine/numbers/expert_loads.h"
#include "engine/numbers/numbers.h"
#include "engine/stages/rank_stage.h"

/* Runs one pass of a micro-batch. fsdp adds up the gradients of the passes. */
static tess_status run_pass(tess_engine *e, const tess_batch *batch, int p, tess_loss_sum *own)
{
    tess_batch part = tess_passes_part(&e->passes, batch, p);
    TESS_TRY(tess_pieces_take(&e->pieces, 0, &part));
    if (p > 0)
        TESS_TRY(tess_fsdp_pass_begin(e->fsdp, p));
    tess_numbers_pass_begin(e->numbers, p);
    TESS_TRY(tess_executor_train(e->executor, &part, part.loss, e->meter.logprobs));
    tess_phase_switch(&e->clock, TESS_PHASE_OTHER);
    return tess_engine_add_loss(e, part.targets, part.n_tokens, own);
}

static tess_status run_micro_batch(tess_engine *e, const tess_batch_source *source, int64_t s, tess_loss_sum *own)
{
    tess_batch batch;
    tess_phase_switch(&e->clock, TESS_PHASE_DATA);
    TESS_TRY(tess_engine_next_batch(e, source, s, &batch));
    tess_phase_switch(&e->clock, TESS_PHASE_OTHER);
    const int n_passes = e->passes.n;
    TESS_CHECK(
        batch.loss == NULL || tess_loss_is_text(batch.loss) || n_passes == 1, TESS_E_INVALID,
        "micro-batch %lld has a loss of its own, which counts the rows of a whole micro-batch, but training.passes "
        "is %d: set training.passes=1",
        (long long)(source->first + tess_coordinates_micro(&e->at, s)), n_passes);
    TESS_TRY_CTX(tess_passes_cut(&e->passes, &batch), "micro-batch %lld",
                 (long long)(source->first + tess_coordinates_micro(&e->at, s)));
    TESS_TRY(tess_fsdp_micro_begin(e->fsdp, (int)s));
    TESS_TRY(tess_numbers_micro_begin(e->numbers, s, 0));
    for (int p = 0; p < n_passes; p++)
        TESS_TRY(run_pass(e, &batch, p, own));
    return TESS_OK;
}

/* A hash of the source's numbers. If ranks had different numbers, each would train another model, and nothing else
 * would show it. */
static uint64_t fingerprint(const tess_batch_source *source)
{
    const struct {
        int64_t n_micro;
        double divisor;
    } words = {source->n_micro, source->divisor};
    return tess_hash_bytes(&words, sizeof(words), 0);
}

tess_status tess_engine_gradients(tess_engine *e, const tess_batch_source *source, tess_loss_sum *own)
{
    int n_local;
    TESS_CHECK(source->n_micro > 0 && source->divisor >= 0 && isfinite(source->divisor), TESS_E_INVALID,
               "step %lld: %lld micro-batches and the divisor %g: give at least one micro-batch, and a finite divisor "
               "(0: the number of target tokens)",
               (long long)e->step + 1, (long long)source->n_micro, source->divisor);
    tess_numbers_run_begin(e->numbers);
    tess_loads_begin(e);
    if (e->program == NULL)
        TESS_TRY(tess_loss_begin(&e->meter));
    int64_t n_micro =
        e->is_second ? source->n_micro : tess_inject_micro_batches(e->runtime, e->step + 1, source->n_micro);
    if (e->stage != NULL)
        n_micro = tess_stage_fill_up(e->stage, n_micro);
    TESS_TRY(tess_fsdp_step_begin_shared(e->fsdp, n_micro * e->at.degree[TESS_AXIS_CP], &n_local));
    if (e->stage != NULL)
        TESS_TRY(tess_stage_run(e->stage, source, n_local, own));
    for (int64_t s = 0; s < n_local && e->stage == NULL; s++)
        TESS_TRY(e->program != NULL ? tess_foreign_micro_batch(e, source, s, own) : run_micro_batch(e, source, s, own));
    if (e->program == NULL)
        TESS_TRY(tess_loss_end(&e->meter, own));
    return tess_fsdp_step_end(e->fsdp);
}

static tess_status sum_loss(tess_engine *e, const tess_batch_source *source, tess_loss_sum *sum)
{
    tess_status status = tess_loss_all_reduce(e->team, sum, fingerprint(source));
    if (status != TESS_E_MISMATCH)
        return status;
    return tess_fail_context(status,
                             "step %lld: rank %d has %lld micro-batches and the divisor %g; if another rank has other "
                             "numbers, give all ranks the same",
                             (long long)e->step + 1, tess_runtime_rank(e->runtime), (long long)source->n_micro,
                             source->divisor);
}

tess_status tess_engine_measure(tess_engine *e, const tess_batch_source *source, const tess_loss_sum *own,
                                tess_engine_report *report)
{
    double norm_of_sum;
    tess_loss_sum sum = *own;
    /* A few bytes only: all of this time is waiting for the slowest rank */
    tess_phase_switch(&e->clock, TESS_PHASE_WAIT);
    TESS_TRY(sum_loss(e, source, &sum));
    tess_phase_switch(&e->clock, TESS_PHASE_OPTIMIZER);
    TESS_TRY(tess_fsdp_grad_norm(e->fsdp, &norm_of_sum));
    /* A dry rank knows its own tokens only, and it may have none. */
    TESS_CHECK(sum.n_tokens > 0 || tess_mem_is_dry(e->mem), TESS_E_INVALID, "step %lld has no target tokens",
               (long long)e->step + 1);
    double divisor = source->divisor > 0 ? source->divisor : (double)sum.n_tokens;
    *report = (tess_engine_report){.loss = tess_exact_value(&sum.nll) / divisor,
                                   .grad_norm = norm_of_sum / divisor / e->scaled.scaler.scale,
                                   .divisor = divisor,
                                   .n_micro = source->n_micro,
                                   .n_tokens = sum.n_tokens,
                                   .stop = sum.flag != 0,
                                   .news = sum.news != 0,
                                   .leave = sum.leave != 0};
    TESS_TRY(tess_loads_measure(e, divisor, &report->load));
    if (source->judge != NULL)
        TESS_TRY_CTX(source->judge(source->self, report), "step %lld", (long long)e->step + 1);
    return TESS_OK;
}

tess_status tess_engine_evaluate(tess_engine *e, tess_executor *executor, const tess_batch *batch,
                                 const tess_head_task *task)
{
    const tess_range all = {.end = tess_model_n_units(e->model), .batch = batch};
    return e->stage != NULL ? tess_stage_evaluate(e->stage, executor, batch, task)
                            : tess_executor_score(executor, &all, NULL, NULL, task);
}

tess_status tess_engine_score(tess_engine *e, const tess_batch *batch, tess_loss_sum *sum)
{
    const tess_head_task task = {.inv_temperature = 1, .logprob = e->meter.logprobs};
    tess_batch own = *batch;
    TESS_TRY(tess_pieces_take(&e->pieces, 0, &own));
    TESS_TRY(tess_engine_evaluate(e, e->executor, &own, &task));
    return tess_engine_add_loss(e, own.targets, own.n_tokens, sum);
}
