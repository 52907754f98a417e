/* One optimizer step: micro-batches, the sums over ranks, clipping, the update. */
#include "train/trainer_impl.h"

#include <math.h>

#include "tessera/comm.h"

static tess_status next_batch(tess_trainer *t, int64_t global_index, tess_micro_batch *batch)
{
    bool end = false;
    tess_runtime_phase(t->runtime, "data", t->step + 1, global_index);
    TESS_TRY_CTX(tess_loader_next(t->loader, global_index - t->loader_position, batch, &end), "training data");
    TESS_CHECK(!end, TESS_E_INTERNAL, "the training data ended");
    t->loader_position = global_index + 1;
    return TESS_OK;
}

static tess_status run_micro_batch(tess_trainer *t, int64_t s, int64_t n_micro, tess_loss_sum *sum)
{
    tess_micro_batch data;
    TESS_TRY(next_batch(t, t->step * n_micro + s * t->world + t->rank, &data));
    tess_batch batch = {.n_tokens = data.n_tokens,
                        .n_seqs = data.n_seqs,
                        .ids = data.ids,
                        .pos = data.pos,
                        .targets = data.targets,
                        .cu_seqlens = data.cu_seqlens};
    tess_runtime_phase(t->runtime, "forward/backward", t->step + 1, s);
    TESS_TRY(tess_fsdp_micro_begin(t->fsdp, (int)s));
    TESS_TRY(tess_executor_train(t->executor, &batch, t->logprobs));
    tess_loss_add(sum, t->logprobs, data.targets, data.n_tokens);
    return TESS_OK;
}

static tess_schedule schedule_of(const tess_config *config)
{
    static const tess_schedule_kind kinds[] = {[TESS_DECAY_COSINE] = TESS_SCHEDULE_COSINE,
                                               [TESS_DECAY_LINEAR] = TESS_SCHEDULE_LINEAR,
                                               [TESS_DECAY_CONSTANT] = TESS_SCHEDULE_CONSTANT,
                                               [TESS_DECAY_WSD] = TESS_SCHEDULE_WSD};
    return (tess_schedule){
        .kind = kinds[config->lr_scheduler.decay_type],
        .lr = config->optimizer.lr,
        .min_lr_factor = config->lr_scheduler.min_lr_factor,
        .warmup_steps = config->lr_scheduler.warmup_steps,
        .steps = config->training.steps,
        .decay_steps = (int64_t)llround(config->lr_scheduler.decay_ratio * (double)config->training.steps),
    };
}

tess_status tess_trainer_step(tess_trainer *t, double *loss, double *grad_norm, double *lr)
{
    int64_t n_micro = t->config.training.global_batch_size / t->config.training.local_batch_size;
    int64_t n_local = n_micro / t->world;
    tess_loss_sum sum = {.flag = tess_runtime_stop_requested(t->runtime)};
    TESS_TRY(tess_fsdp_step_begin(t->fsdp, (int)n_local));
    for (int64_t s = 0; s < n_local; s++)
        TESS_TRY(run_micro_batch(t, s, n_micro, &sum));
    TESS_TRY(tess_fsdp_step_end(t->fsdp));

    double norm_of_sum;
    tess_runtime_phase(t->runtime, "optimizer", t->step + 1, -1);
    TESS_TRY(tess_loss_all_reduce(t->team, &sum));
    TESS_TRY(tess_fsdp_grad_norm(t->fsdp, &norm_of_sum));
    t->stopping = sum.flag != 0; /* one answer for all ranks */
    TESS_CHECK(sum.n_tokens > 0, TESS_E_INVALID, "step %lld has no target tokens", (long long)t->step + 1);
    *loss = tess_exact_value(&sum.nll) / (double)sum.n_tokens;
    *grad_norm = norm_of_sum / (double)sum.n_tokens;
    TESS_CHECK(
        isfinite(*loss) && isfinite(*grad_norm), TESS_E_INVALID,
        "step %lld: loss %g, gradient norm %g: training has diverged (lower optimizer.lr, or check the weights and "
        "data); the last checkpoint is untouched",
        (long long)t->step + 1, *loss, *grad_norm);

    double scale = 1.0 / (double)sum.n_tokens, max_norm = t->config.training.max_norm;
    if (max_norm > 0 && *grad_norm > max_norm)
        scale *= max_norm / (*grad_norm + 1e-6); /* as torch.nn.utils.clip_grad_norm_ */
    tess_schedule schedule = schedule_of(&t->config);
    *lr = tess_schedule_lr(&schedule, t->step + 1);
    TESS_TRY(tess_adamw_step(t->adamw, t->step + 1, (float)*lr, (float)scale));
    t->step++;
    t->n_tokens += sum.n_tokens;
    return TESS_OK;
}
