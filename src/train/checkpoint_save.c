/* Saves a run: weights, moments and the position in the data. Random numbers need no state. A writer process saves
 * staged copies during training (ckpt/async); without it, training pauses for the save. */
#include "train/trainer_impl.h"

#include <stdio.h>

#include "base/os/os.h"
#include "comm/agree.h"
#include "ckpt/store/store.h"
#include "tessera/comm.h"
#include "engine/numbers/numbers.h"

enum { PRUNE_NOTE = 2048 };

/* Waits for the previous save are reported only if they last at least this many seconds. */
static const double report_wait_s = 0.05;

/* ---- The description ---- */
/* Converts the newest values to a JSON array, oldest first. */
static json_t *describe_spikes(const tess_spikes *spikes)
{
    json_t *values = json_array();
    int64_t n = spikes->n < TESS_SPIKE_WINDOW ? spikes->n : TESS_SPIKE_WINDOW;
    for (int64_t i = spikes->n - n; i < spikes->n; i++)
        json_array_append_new(values, json_real(spikes->value[i % TESS_SPIKE_WINDOW]));
    return values;
}

/* Describes the training position, the settings that a resumed run must share, and facts for readers. NULL: out of
 * memory. */
static json_t *describe(const tess_trainer *t)
{
    const tess_engine *e = t->engine;
    const tess_config *c = &t->config;
    json_t *optimizer = /* some formats store these settings with the moments (ckpt/formats) */
        json_pack("{s:f, s:f, s:f, s:f, s:f}", "lr", c->optimizer.lr, "beta1", c->optimizer.beta1, "beta2",
                  c->optimizer.beta2, "eps", c->optimizer.eps, "weight_decay", c->optimizer.weight_decay);
    const tess_lora *lora = &t->model_config.lora;
    json_t *adapter = json_pack("{s:I, s:f, s:b}", "rank", (json_int_t)lora->rank, "alpha", lora->alpha, "use_rslora",
                                (int)lora->rslora);
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:i, s:s, s:o, s:o, s:o}", "step",
        (json_int_t)e->step, "n_tokens", (json_int_t)e->n_tokens, "schedule_begin", (json_int_t)e->restarts.schedule,
        "optimizer_begin", (json_int_t)e->restarts.optimizer, "loss_scale", e->scaled.scaler.scale, "loss_scale_finite",
        (json_int_t)e->scaled.scaler.n_finite, "loss_scale_endured", (json_int_t)e->scaled.scaler.n_endured,
        "newest_losses", describe_spikes(tess_numbers_losses(e->numbers)), "newest_grad_norms",
        describe_spikes(tess_numbers_norms(e->numbers)), "seed", (json_int_t)c->debug.seed, "seq_len",
        (json_int_t)c->training.seq_len, "global_batch_size", (json_int_t)c->training.global_batch_size, "load_step",
        (json_int_t)c->checkpoint.load_step, "excluded", tess_text_list_to_json(&c->checkpoint.exclude_from_loading),
        "world_size", tess_team_size(t->team), "kernels", tess_stream_kernels(e->compute.stream)->name, "optimizer",
        optimizer, "adapter", adapter, "config", tess_config_to_json(c));
}

tess_status tess_trainer_list_tensors(tess_trainer *t, tess_ckpt_tensor **out, int *n_out)
{
    int n_shards = tess_model_n_params(t->engine->whole), n = 0;
    int n_task = t->task.n_tensors != NULL ? t->task.n_tensors(t->task.self) : 0;
    TESS_AUTO(tess_mem_drop) tess_ckpt_tensor *tensors = NULL;
    TESS_TRY(TESS_NEW(t->mem, (1 + TESS_OPTIMIZER_STATES) * (size_t)n_shards + (size_t)n_task, "checkpoint", &tensors));
    for (int i = 0; i < n_shards; i++) {
        tess_shard shard;
        tess_optimizer_state states[TESS_OPTIMIZER_STATES];
        TESS_TRY(tess_engine_shard(t->engine, i, &shard));
        if (t->model_config.lora.rank > 0 && !shard.trainable)
            continue; /* it is in model.path */
        const tess_ckpt_tensor weights = {.name = shard.name,
                                          .stored = tess_precision_dtype(t->config.checkpoint.weights_dtype),
                                          .shape = shard.shape,
                                          .box = shard.box,
                                          .primary = shard.primary,
                                          .data = shard.master};
        tensors[n++] = weights;
        for (int k = 0, n_states = tess_engine_states(t->engine, i, states); k < n_states; k++)
            tensors[n++] = tess_ckpt_state_tensor(&weights, &states[k]);
    }
    if (n_task > 0)
        TESS_TRY(t->task.tensors(t->task.self, tensors + n));
    *out = TESS_GIVE(tensors);
    *n_out = n + n_task;
    return TESS_OK;
}

/* ---- A failure ---- */
/* Whether a failure is not that of a save: the job is about to end, or the other ranks do not know of the failure. */
static bool ends_the_job(tess_status status)
{
    return status == TESS_E_PEER_LOST || status == TESS_E_TIMEOUT || status == TESS_E_MISMATCH ||
           status == TESS_E_CANCELLED || status == TESS_E_INTERRUPTED;
}

/* Decides what a save's result means, the same on all ranks: TESS_OK after a warning, or the status itself. */
static tess_status handle_save_error(const tess_trainer *t, tess_status status, bool last)
{
    if (status == TESS_OK || ends_the_job(status) || last || t->config.checkpoint.on_error == TESS_SAVE_ERROR_STOP)
        return status;
    tess_trainer_warn(t, "%s; older checkpoints stand, and training goes on (checkpoint.on_error=warn)",
                      tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* ---- The writer ---- */
static void give_up(tess_trainer *t)
{
    tess_saver_destroy(&t->saver);
    tess_trainer_warn(t, "%s; training stands still while a checkpoint is written", tess_error_message());
    tess_error_clear();
}

tess_status tess_trainer_open_saver(tess_trainer *t)
{
    const tess_config *c = &t->config;
    tess_saver_options options = {.codec = (tess_codec)c->checkpoint.compress,
                                  .direct = c->checkpoint.direct_io,
                                  .host_local = c->checkpoint.host_local,
                                  .keep_latest_k = (int)c->checkpoint.keep_latest_k,
                                  .host_wait_s = c->comm.timeout_s,
                                  .fault = c->fault.spec,
                                  .fault_seed = (uint64_t)c->fault.seed};
    if (!c->checkpoint.enable || !c->checkpoint.async)
        return TESS_OK;
    TESS_TRY(tess_saver_create(t->runtime, t->hosts, tess_stream_threads(t->engine->stream), &options, &t->saver));
    if (t->saver == NULL)
        return TESS_OK;
    if (!t->goes_on) /* this process reads no checkpoint, so it need not wait for one */
        TESS_TRY(tess_saver_wait(t->saver));
    tess_ckpt_tensor *tensors;
    int n;
    tess_status status = tess_trainer_list_tensors(t, &tensors, &n);
    if (status == TESS_OK) {
        status = tess_saver_prepare(t->saver, tensors, n);
        tess_mem_free(t->mem, tensors);
    }
    if (status == TESS_OK || ends_the_job(status))
        return status;
    give_up(t);
    return TESS_OK;
}

/* Reports the result of the newest save by the writer. */
static tess_status report_save(tess_trainer *t, bool last)
{
    char bytes[32];
    tess_saver_outcome outcome;
    tess_status status = tess_saver_hear(t->saver, &outcome);
    if (outcome.warning[0] != '\0')
        tess_trainer_warn(t, "%s", outcome.warning);
    if (outcome.committed)
        tess_trainer_note(t, "checkpoint: %s/%s/step-%08lld written in %.2f s, %s/s", t->config.job.dump_folder,
                          t->config.checkpoint.folder, (long long)outcome.step, outcome.seconds,
                          tess_format_bytes((double)outcome.bytes / outcome.seconds, bytes, sizeof(bytes)));
    return handle_save_error(t, status, last);
}

tess_status tess_trainer_report_saves(tess_trainer *t)
{
    return t->saver != NULL ? report_save(t, false) : TESS_OK;
}

tess_status tess_trainer_finish_saves(tess_trainer *t)
{
    if (t->saver == NULL)
        return TESS_OK;
    tess_runtime_phase(t->runtime, "checkpoint", t->engine->step, -1);
    TESS_TRY(tess_saver_wait(t->saver));
    return report_save(t, true);
}

/* Hands the save to the writer. Sets *done to false if there is no writer. */
static tess_status stage(tess_trainer *t, const char *folder, const json_t *meta, const tess_ckpt_tensor *tensors,
                         int n, bool *done)
{
    char waited[64] = "";
    tess_saver_times times;
    *done = false;
    if (t->saver == NULL)
        return TESS_OK;
    if (t->stopping)
        tess_saver_hurry(t->saver);
    double begin_s = tess_os_now_s();
    TESS_TRY(tess_saver_wait(t->saver));
    double waited_s = tess_os_now_s() - begin_s;
    TESS_TRY(report_save(t, false)); /* the next save overwrites the result of this one */
    tess_status status = tess_saver_save(t->saver, folder, t->engine->step, meta, tensors, n, &times);
    if (status == TESS_E_UNSUPPORTED) {
        give_up(t);
        return TESS_OK;
    }
    TESS_TRY(status);
    *done = true;
    if (waited_s >= report_wait_s)
        snprintf(waited, sizeof(waited), ", after %.2f s of waiting for the one before", waited_s);
    tess_trainer_note(t, "checkpoint: step-%08lld staged in %.3f s%s", (long long)t->engine->step, times.staged_s,
                      waited);
    return TESS_OK;
}

/* ---- While training stands still ---- */
bool tess_trainer_manages_folder(const tess_trainer *t)
{
    return t->config.checkpoint.host_local ? tess_ckpt_hosts_is_first(t->hosts) : t->rank == 0;
}

/* Returns the same status on all ranks. Ranks wait while others read the folders. */
static tess_status prune(tess_trainer *t, const tess_io *io, const char *folder)
{
    char note[PRUNE_NOTE] = "";
    tess_ckpt_notes notes = {.text = note, .size = PRUNE_NOTE};
    const tess_ckpt_pruner pruner = {
        .mem = t->mem, .io = io, .findings = &t->findings, .self = &notes, .note = tess_ckpt_keep_note};
    int keep = (int)t->config.checkpoint.keep_latest_k;
    tess_status status = TESS_OK;
    if (t->stopping) /* there may be no time to read back */
        return TESS_OK;
    tess_team_set_timeout(t->team, TESS_READING_S);
    if (t->config.checkpoint.host_local)
        status = tess_ckpt_prune_local(&pruner, t->hosts, folder, keep, t->engine->step);
    else
        status =
            tess_team_agree(t->team, t->rank == 0 ? tess_ckpt_prune(&pruner, folder, keep, t->engine->step) : TESS_OK);
    tess_team_set_timeout(t->team, 0);
    TESS_TRY(status);
    status = tess_team_agree(t->team, note[0] != '\0' ? TESS_FAIL(TESS_E_FORMAT, "%s", note) : TESS_OK);
    if (status != TESS_E_FORMAT)
        return status;
    tess_trainer_warn(t, "%s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

static tess_status save_now(tess_trainer *t, const char *folder, const json_t *meta, const tess_ckpt_tensor *tensors,
                            int n)
{
    const tess_config *c = &t->config;
    int64_t step = t->engine->step;
    double begin_s = tess_os_now_s();
    tess_io_faults faults = {tess_inject_faults(t->runtime), step};
    const tess_io io = tess_io_with_faults(&faults);
    const tess_store_options options = {.codec = (tess_codec)c->checkpoint.compress,
                                        .direct = c->checkpoint.direct_io,
                                        .io = &io,
                                        .hosts = c->checkpoint.host_local ? t->hosts : NULL};
    TESS_TRY(tess_ckpt_save(t->mem, t->team, folder, step, meta, tensors, n, &options));
    TESS_TRY(prune(t, &io, folder));
    tess_trainer_note(t, "checkpoint: %s/step-%08lld (%.2f s)", folder, (long long)step, tess_os_now_s() - begin_s);
    return TESS_OK;
}

/* ---- A save ---- */
static tess_status save(tess_trainer *t, const json_t *meta)
{
    char folder[1024];
    TESS_AUTO(tess_mem_drop) tess_ckpt_tensor *tensors = NULL;
    int n;
    bool done = false;
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, folder, sizeof(folder)));
    TESS_TRY(tess_trainer_list_tensors(t, &tensors, &n));
    TESS_TRY(stage(t, folder, meta, tensors, n, &done));
    if (!done)
        TESS_TRY(save_now(t, folder, meta, tensors, n));
    return TESS_OK;
}

tess_status tess_trainer_save(tess_trainer *t, bool last)
{
    tess_runtime_phase(t->runtime, "checkpoint", t->engine->step, -1);
    TESS_TRY(tess_engine_kept(t->engine)); /* a saved step is never done again */
    TESS_TRY(tess_numbers_compare_for_save(t->engine->numbers));
    json_t *meta = describe(t);
    if (t->evaluation_due)
        json_object_set_new(meta, "evaluation_due", json_true()); /* the evaluation after this step: see trainer.c */
    tess_status status = meta != NULL ? t->task.describe(t->task.self, meta)
                                      : TESS_FAIL(TESS_E_NOMEM, "no memory to describe the checkpoint");
    status = tess_team_agree(t->team, status);
    const bool described = status == TESS_OK;
    if (described)
        status = save(t, meta);
    json_decref(meta);
    /* A program's callback that fails ends the run, whatever checkpoint.on_error is (tessera/loop_program.h). */
    return !described && tess_trainer_program(t) != NULL ? status : handle_save_error(t, status, last);
}
