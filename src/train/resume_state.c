/* Restores a run's state from a checkpoint's description: counters, the task's part, newest losses and gradient
 * norms. */
#include <string.h>

#include "base/text/json.h"
#include "engine/model/exclude.h"
#include "engine/numbers/numbers.h"
#include "train/trainer_impl.h"

static const char *const what = "the checkpoint's description";

/* Reads a window of numbers; it stays empty if the checkpoint has none. */
static void restore_spikes(const json_t *values, tess_spikes *spikes)
{
    *spikes = (tess_spikes){.n = 0};
    for (size_t i = 0; i < json_array_size(values); i++)
        tess_spikes_add(spikes, json_number_value(json_array_get(values, i)));
}

/* Step numbers continue. If the schedule or the optimizer is excluded from loading, it begins at this step. */
static tess_status restore_counters(tess_engine *e, const tess_text_list *without, const json_t *meta)
{
    TESS_TRY(tess_json_get_int(meta, "step", what, &e->step));
    TESS_TRY(tess_json_get_int(meta, "n_tokens", what, &e->n_tokens));
    TESS_TRY(tess_restarts_read(meta, what, e->step, &e->restarts));
    const json_t *scale = json_object_get(meta, "loss_scale"); /* older checkpoints have none */
    if (scale != NULL && e->config->training.loss_scale == 0) {
        e->scaled.scaler.scale = json_number_value(scale);
        TESS_TRY(tess_json_get_int(meta, "loss_scale_finite", what, &e->scaled.scaler.n_finite));
        if (json_object_get(meta, "loss_scale_endured") != NULL)
            TESS_TRY(tess_json_get_int(meta, "loss_scale_endured", what, &e->scaled.scaler.n_endured));
        TESS_CHECK(e->scaled.scaler.scale > 0 && e->scaled.scaler.n_finite >= 0 && e->scaled.scaler.n_endured >= 0,
                   TESS_E_FORMAT, "%s: a loss scale of %g", what, e->scaled.scaler.scale);
    }
    if (tess_excludes(without, "lr_scheduler"))
        e->restarts.schedule = e->step;
    if (tess_excludes(without, "optimizer"))
        e->restarts.optimizer = e->step;
    return TESS_OK;
}

/* Older checkpoints do not record the number of leaves of a sum; they used one. */
static tess_status check_sum(const json_t *meta, const char *section, const char *key, int64_t now)
{
    int64_t saved = 1;
    const json_t *values = json_object_get(json_object_get(meta, "config"), section);
    if (json_object_get(values, key) != NULL)
        TESS_TRY(tess_json_get_int(values, key, what, &saved));
    TESS_CHECK(saved == now, TESS_E_INVALID,
               "the checkpoint was made with %s.%s=%lld, now it is %lld: it would go on as another model; keep "
               "the value, or start another run from its weights with checkpoint.initial_load_path",
               section, key, (long long)saved, (long long)now);
    return TESS_OK;
}

static tess_status check_sums(const tess_trainer *t, const json_t *meta)
{
    static const char key[] = "context_parallel_load_balancer";
    const json_t *section = json_object_get(json_object_get(meta, "config"), "parallelism");
    const char *saved = json_string_value(json_object_get(section, key)),
               *now = t->config.parallelism.context_parallel_load_balancer == TESS_BALANCER_ZIGZAG ? "zigzag"
                                                                                                   : "contiguous";
    TESS_TRY(check_sum(meta, "model", "sum_leaves", t->model_config.sum_leaves));
    TESS_TRY(check_sum(meta, "training", "context_leaves", t->config.training.context_leaves));
    TESS_CHECK(
        t->config.training.context_leaves <= 2 || saved == NULL || strcmp(saved, now) == 0, TESS_E_INVALID,
        "the checkpoint was made with parallelism.%s=%s, now it is %s: sums over tokens would have another order; "
        "keep the value",
        key, saved, now);
    return TESS_OK;
}

/* Tensor shapes are compared later, when tensors are read. */
static tess_status check_adapter(const tess_trainer *t, const json_t *meta)
{
    const tess_lora *now = &t->model_config.lora;
    const json_t *saved = json_object_get(meta, "adapter");
    double alpha = now->alpha;
    bool rslora = now->rslora;
    if (saved == NULL)
        return TESS_OK;
    TESS_TRY(tess_json_get_double(saved, "alpha", what, &alpha));
    TESS_TRY(tess_json_get_bool(saved, "use_rslora", what, &rslora));
    TESS_CHECK(alpha == now->alpha && rslora == now->rslora, TESS_E_INVALID,
               "the checkpoint's adapter was trained with lora.alpha=%g lora.use_rslora=%s, now it is %g and %s: it "
               "would go on as another; keep the values",
               alpha, rslora ? "true" : "false", now->alpha, now->rslora ? "true" : "false");
    return TESS_OK;
}

void tess_trainer_compare_kernels(const tess_trainer *t, const char *saved)
{
    const char *now = tess_stream_kernels(t->engine->compute.stream)->name;
    if (saved != NULL && strcmp(saved, now) != 0 && t->config.training.mixed_precision_param == TESS_PRECISION_BF16)
        tess_trainer_warn(t, "kernels '%s' computed until here, now '%s': bits in bfloat16 are others from here on",
                          saved, now);
}

void tess_trainer_compare_lr(const tess_trainer *t, const tess_lr_settings *before)
{
    char text[1024];
    tess_config_compare_lr(&t->config, before, t->engine->restarts.schedule, t->engine->step, text, sizeof(text));
    if (text[0] != '\0')
        tess_trainer_note(t, "%s", text);
}

/* A micro-batch is a leaf of the tree that sums gradients. A program has batches of its own. */
static void compare_micro_batch(const tess_trainer *t, const json_t *meta)
{
    const json_t *training = json_object_get(json_object_get(meta, "config"), "training");
    const int64_t saved = json_integer_value(json_object_get(training, "local_batch_size"));
    const int64_t now = t->config.training.local_batch_size;
    if (t->kind->program == NULL && saved > 0 && saved != now)
        tess_trainer_warn(t,
                          "a micro-batch had %lld row%s until here, now it has %lld (training.local_batch_size): sums "
                          "of gradients are rounded in another order from here on",
                          (long long)saved, saved == 1 ? "" : "s", (long long)now);
}

tess_status tess_trainer_restore_state(tess_trainer *t, const json_t *meta)
{
    const tess_text_list *without = &t->without;
    TESS_CHECK(json_is_object(meta), TESS_E_FORMAT, "%s is missing: it is not of a training run", what);
    TESS_TRY(check_sums(t, meta));
    TESS_TRY(check_adapter(t, meta));
    tess_trainer_compare_kernels(t, json_string_value(json_object_get(meta, "kernels")));
    TESS_TRY(restore_counters(t->engine, without, meta));
    const tess_lr_settings before = tess_lr_settings_read(&t->config, json_object_get(meta, "config"));
    if (!tess_excludes(without, "lr_scheduler"))
        tess_trainer_compare_lr(t, &before);
    int64_t saved = json_integer_value(json_object_get(meta, "global_batch_size"));
    int64_t now = t->config.training.global_batch_size;
    if (!t->kind->has_own_batches && saved != 0 && saved != now)
        tess_trainer_warn(t, "a step was %lld rows until here, now it is %lld (training.global_batch_size)",
                          (long long)saved, (long long)now);
    compare_micro_batch(t, meta);
    t->evaluation_due = json_is_true(json_object_get(meta, "evaluation_due"));
    TESS_TRY(t->task.restore(t->task.self, meta));
    if (t->task.loaded != NULL)
        TESS_TRY(t->task.loaded(t->task.self, meta));
    restore_spikes(json_object_get(meta, "newest_losses"), tess_numbers_losses(t->engine->numbers));
    restore_spikes(json_object_get(meta, "newest_grad_norms"), tess_numbers_norms(t->engine->numbers));
    return TESS_OK;
}
