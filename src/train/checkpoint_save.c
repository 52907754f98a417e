/* Saving a run: weights, moments, the data's position, nothing else (randomness has no state). */
#include "train/trainer_impl.h"

#include <stdio.h>

#include "base/os/os.h"
#include "comm/agree.h"
#include "ckpt/store/store.h"
#include "tessera/comm.h"
#include "train/numbers/numbers.h"

enum { PRUNE_NOTE = 2048 };

/* For which ranks wait while one of them reads whole checkpoints: as long as it takes. One that dies is told all the
 * same. */
static const double reading_s = 86400;

/* Where the data stands after this step, on every rank: the rank that read the step's last micro-batch knows. */
static tess_status agree_on_cursor(tess_trainer *t, int64_t words[3])
{
    tess_data_cursor cursor;
    tess_loader_cursor(t->loader, &cursor);
    words[0] = (int64_t)cursor.epoch;
    words[1] = (int64_t)cursor.window;
    words[2] = (int64_t)cursor.row;
    return tess_broadcast(t->team, words, 3, TESS_I64, t->world - 1, NULL);
}

/* The newest values, oldest first. */
static json_t *describe_spikes(const tess_spikes *spikes)
{
    json_t *values = json_array();
    int64_t n = spikes->n < TESS_SPIKE_WINDOW ? spikes->n : TESS_SPIKE_WINDOW;
    for (int64_t i = spikes->n - n; i < spikes->n; i++)
        json_array_append_new(values, json_real(spikes->value[i % TESS_SPIKE_WINDOW]));
    return values;
}

/* For programs that keep such settings with the moments (ckpt/formats). */
static json_t *describe_optimizer(const tess_trainer *t)
{
    const tess_config *c = &t->config;
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "lr", c->optimizer.lr, "beta1", c->optimizer.beta1, "beta2",
                     c->optimizer.beta2, "eps", c->optimizer.eps, "weight_decay", c->optimizer.weight_decay);
}

/* Where training stands. */
static json_t *describe_progress(const tess_trainer *t, const int64_t cursor[3])
{
    const tess_engine *e = t->engine;
    return json_pack("{s:I, s:I, s:I, s:I, s:[I,I,I], s:o, s:o}", "step", (json_int_t)e->step, "n_tokens",
                     (json_int_t)e->n_tokens, "schedule_begin", (json_int_t)e->schedule_begin, "optimizer_begin",
                     (json_int_t)e->optimizer_begin, "data_cursor", (json_int_t)cursor[0], (json_int_t)cursor[1],
                     (json_int_t)cursor[2], "newest_losses", describe_spikes(tess_numbers_losses(e->numbers)),
                     "newest_grad_norms", describe_spikes(tess_numbers_norms(e->numbers)));
}

/* What it must go on with, and what else people want to know of it later. */
static json_t *describe_run(const tess_trainer *t)
{
    const tess_config *c = &t->config;
    return json_pack("{s:I, s:I, s:I, s:O, s:I, s:o, s:i, s:o, s:o}", "seed", (json_int_t)c->debug.seed, "seq_len",
                     (json_int_t)c->training.seq_len, "global_batch_size", (json_int_t)c->training.global_batch_size,
                     "data", t->data, "load_step", (json_int_t)c->checkpoint.load_step, "excluded",
                     tess_text_list_to_json(&c->checkpoint.exclude_from_loading), "world_size", t->world, "optimizer",
                     describe_optimizer(t), "config", tess_config_to_json(c));
}

/* NULL: no memory. */
static json_t *describe(const tess_trainer *t, const int64_t cursor[3])
{
    json_t *meta = describe_progress(t, cursor), *run = describe_run(t);
    if (run != NULL && json_object_update_new(meta, run) == 0)
        return meta;
    json_decref(meta);
    return NULL;
}

static tess_status save_tensors(tess_trainer *t, const tess_io *io, const char *folder, const json_t *meta,
                                const tess_ckpt_tensor *tensors, int n)
{
    const tess_config *c = &t->config;
    const tess_store_options options = {
        .codec = (tess_codec)c->checkpoint.compress, .direct = c->checkpoint.direct_io, .io = io};
    return t->config.checkpoint.host_local
               ? tess_ckpt_save_local(t->mem, t->hosts, folder, t->engine->step, meta, tensors, n, &options)
               : tess_ckpt_save(t->mem, t->team, folder, t->engine->step, meta, tensors, n, &options);
}

bool tess_trainer_keeps_folder(const tess_trainer *t)
{
    return t->config.checkpoint.host_local ? tess_ckpt_hosts_is_first(t->hosts) : t->rank == 0;
}

/* One answer for all ranks, which wait for those that keep a folder. */
static tess_status prune_folder(const tess_trainer *t, const tess_ckpt_pruner *pruner, const char *folder)
{
    int keep = (int)t->config.checkpoint.keep_latest_k;
    if (t->config.checkpoint.host_local)
        return tess_ckpt_prune_local(pruner, t->hosts, folder, keep, t->engine->step);
    return tess_team_agree(t->team, t->rank == 0 ? tess_ckpt_prune(pruner, folder, keep, t->engine->step) : TESS_OK);
}

static tess_status prune_now(tess_trainer *t, const tess_io *io, const char *folder)
{
    char note[PRUNE_NOTE] = "";
    tess_ckpt_notes notes = {.text = note, .size = PRUNE_NOTE};
    const tess_ckpt_pruner pruner = {
        .mem = t->mem, .io = io, .findings = &t->findings, .self = &notes, .note = tess_ckpt_keep_note};
    tess_status status = TESS_OK;
    tess_team_set_timeout(t->team, reading_s);
    if (!t->stopping) /* then there may be no time to read back */
        status = prune_folder(t, &pruner, folder);
    tess_team_set_timeout(t->team, 0);
    TESS_TRY(status);
    status = tess_team_agree(t->team, note[0] != '\0' ? TESS_FAIL(TESS_E_FORMAT, "%s", note) : TESS_OK);
    if (status != TESS_E_FORMAT)
        return status;
    tess_trainer_warn(t, "%s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* While training stands still. */
static tess_status save_now(tess_trainer *t, const char *folder, const json_t *meta, const tess_ckpt_tensor *tensors,
                            int n)
{
    double begin_s = tess_os_now_s();
    tess_io_faults faults = {tess_inject_faults(t->runtime), t->engine->step};
    const tess_io io = tess_io_with_faults(&faults);
    TESS_TRY(save_tensors(t, &io, folder, meta, tensors, n));
    TESS_TRY(prune_now(t, &io, folder));
    tess_trainer_note(t, "checkpoint: %s/step-%08lld (%.2f s)", folder, (long long)t->engine->step,
                      tess_os_now_s() - begin_s);
    return TESS_OK;
}

static tess_status save(tess_trainer *t, const json_t *meta)
{
    char folder[1024];
    tess_ckpt_tensor *tensors;
    int n;
    bool done = false;
    TESS_CHECK(meta != NULL, TESS_E_NOMEM, "no memory to describe the checkpoint");
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, folder, sizeof(folder)));
    TESS_TRY(tess_trainer_list_tensors(t, &tensors, &n));
    tess_status status = tess_trainer_stage(t, folder, meta, tensors, n, &done);
    if (status == TESS_OK && !done)
        status = save_now(t, folder, meta, tensors, n);
    tess_mem_free(t->mem, tensors);
    return status;
}

tess_status tess_trainer_save(tess_trainer *t, bool last)
{
    int64_t cursor[3];
    tess_runtime_phase(t->runtime, "checkpoint", t->engine->step, -1);
    TESS_TRY(tess_numbers_compare_for_save(t->engine->numbers));
    TESS_TRY(agree_on_cursor(t, cursor));
    json_t *meta = describe(t, cursor);
    tess_status status = save(t, meta);
    json_decref(meta);
    return tess_trainer_judge_save(t, status, last);
}
