/* The parts of a step before its update: its micro-batches, and the sums over ranks. They run again to find a bad
 * number. */
#include "inject/inject.h"
#include "train/numbers/numbers.h"

/* Where the ranks do not share a step's micro-batches evenly, the last of some ranks hold no tokens. */
static tess_status next_batch(tess_engine *e, const tess_batch_source *source, int64_t s, int64_t n_micro,
                              tess_batch *batch)
{
    static const int32_t nothing[1] = {0};
    int64_t i = s * e->at.n_data + e->at.data;
    tess_runtime_phase(e->runtime, "data", e->step + 1, e->step * n_micro + i);
    *batch = (tess_batch){.ids = nothing, .pos = nothing, .targets = nothing, .cu_seqlens = nothing};
    return i < n_micro ? source->next(source->self, e->step * n_micro + i, batch) : TESS_OK;
}

static tess_status run_micro_batch(tess_engine *e, const tess_batch_source *source, int64_t s, int64_t n_micro,
                                   tess_loss_sum *own)
{
    tess_batch batch;
    tess_phase_switch(&e->clock, TESS_PHASE_DATA);
    TESS_TRY_CTX(next_batch(e, source, s, n_micro, &batch), "training data");
    tess_phase_switch(&e->clock, TESS_PHASE_OTHER);
    TESS_TRY(tess_fsdp_micro_begin(e->fsdp, (int)s));
    tess_numbers_micro_begin(e->numbers, s);
    TESS_TRY(tess_executor_train(e->executor, &batch, NULL, e->logprobs));
    tess_phase_switch(&e->clock, TESS_PHASE_OTHER);
    tess_loss_add(own, e->logprobs, batch.targets, batch.n_tokens);
    return TESS_OK;
}

tess_status tess_engine_gradients(tess_engine *e, const tess_batch_source *source, tess_loss_sum *own)
{
    int n_local;
    int64_t n_micro = tess_config_micro_batches(e->config);
    tess_numbers_pass_begin(e->numbers);
    TESS_TRY(
        tess_fsdp_step_begin_shared(e->fsdp, tess_inject_micro_batches(e->runtime, e->step + 1, n_micro), &n_local));
    for (int64_t s = 0; s < n_local; s++)
        TESS_TRY(run_micro_batch(e, source, s, n_micro, own));
    return tess_fsdp_step_end(e->fsdp);
}

tess_status tess_engine_measure(tess_engine *e, const tess_loss_sum *own, tess_engine_report *report)
{
    double norm_of_sum;
    tess_loss_sum sum = *own;
    tess_phase_switch(&e->clock, TESS_PHASE_WAIT); /* a few words: all of the time is waiting for the last rank */
    TESS_TRY(tess_loss_all_reduce(e->team, &sum));
    tess_phase_switch(&e->clock, TESS_PHASE_OPTIMIZER);
    TESS_TRY(tess_fsdp_grad_norm(e->fsdp, &norm_of_sum));
    TESS_CHECK(sum.n_tokens > 0, TESS_E_INVALID, "step %lld has no target tokens", (long long)e->step + 1);
    *report = (tess_engine_report){.loss = tess_exact_value(&sum.nll) / (double)sum.n_tokens,
                                   .grad_norm = norm_of_sum / (double)sum.n_tokens,
                                   .n_tokens = sum.n_tokens,
                                   .stop = sum.flag != 0,
                                   .news = sum.news != 0,
                                   .leave = sum.leave != 0};
    return TESS_OK;
}
