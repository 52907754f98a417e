/* Saving a run and going on with it: weights, moments, the data's position, nothing else (randomness has no state). */
#include "train/trainer_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/agree.h"
#include "ckpt/store/store.h"
#include "tessera/comm.h"
#include "train/numbers/numbers.h"

/* Weights first, then both moments of the trainable ones. */
static tess_status list_tensors(tess_trainer *t, tess_ckpt_tensor **out, int *n_out)
{
    int n_shards = tess_fsdp_shards(t->engine->fsdp), n = 0;
    tess_ckpt_tensor *tensors;
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, 3 * (size_t)n_shards, sizeof(*tensors), "checkpoint",
                                  (void **)&tensors));
    tess_status status = TESS_OK;
    for (int i = 0; i < n_shards && status == TESS_OK; i++) {
        tess_shard shard;
        float *moments[2];
        status = tess_fsdp_shard(t->engine->fsdp, i, &shard);
        if (status != TESS_OK)
            break;
        tess_ckpt_tensor tensor = {.name = shard.name,
                                   .kind = TESS_CKPT_WEIGHT,
                                   .shape = shard.shape,
                                   .row_begin = shard.row_begin,
                                   .n_rows = shard.n_rows,
                                   .primary_begin = shard.primary_begin,
                                   .primary_rows = shard.primary_rows,
                                   .data = shard.master};
        tensors[n++] = tensor;
        if (!shard.trainable)
            continue;
        tess_adamw_moments(t->engine->adamw, i, &moments[0], &moments[1]);
        for (int k = 0; k < 2; k++) {
            tensor.kind = k == 0 ? TESS_CKPT_EXP_AVG : TESS_CKPT_EXP_AVG_SQ;
            tensor.data = moments[k];
            tensors[n++] = tensor;
        }
    }
    if (status != TESS_OK) {
        tess_mem_free(t->mem, tensors);
        return status;
    }
    *out = tensors;
    *n_out = n;
    return TESS_OK;
}

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

/* Of checkpoints without: an empty window. */
static void restore_spikes(const json_t *values, tess_spikes *spikes)
{
    *spikes = (tess_spikes){.n = 0};
    for (size_t i = 0; i < json_array_size(values); i++)
        tess_spikes_add(spikes, json_number_value(json_array_get(values, i)));
}

static json_t *describe(const tess_trainer *t, const int64_t cursor[3])
{
    json_t *files = json_array();
    for (int i = 0; i < t->config.data.files.n; i++)
        json_array_append_new(files, json_string(t->config.data.files.item[i]));
    return json_pack("{s:I, s:I, s:[I,I,I], s:I, s:I, s:o, s:i, s:o, s:o}", "step", (json_int_t)t->engine->step,
                     "n_tokens", (json_int_t)t->engine->n_tokens, "data_cursor", (json_int_t)cursor[0],
                     (json_int_t)cursor[1], (json_int_t)cursor[2], "seed", (json_int_t)t->config.debug.seed, "seq_len",
                     (json_int_t)t->config.training.seq_len, "data_files", files, "world_size", t->world,
                     "newest_losses", describe_spikes(tess_numbers_losses(t->engine->numbers)), "newest_grad_norms",
                     describe_spikes(tess_numbers_norms(t->engine->numbers)));
}

static tess_status save_tensors(tess_trainer *t, const char *folder, const json_t *meta,
                                const tess_ckpt_tensor *tensors, int n)
{
    return t->config.checkpoint.host_local
               ? tess_ckpt_save_local(t->mem, t->hosts, folder, t->engine->step, meta, tensors, n)
               : tess_ckpt_save(t->mem, t->team, folder, t->engine->step, meta, tensors, n);
}

/* Whether this rank looks after the folder. */
static bool is_keeper(const tess_trainer *t)
{
    return t->config.checkpoint.host_local ? tess_ckpt_hosts_is_first(t->hosts) : t->rank == 0;
}

tess_status tess_trainer_save(tess_trainer *t)
{
    char folder[1024];
    int64_t cursor[3];
    tess_ckpt_tensor *tensors;
    int n;
    double begin = tess_os_now_s();
    tess_runtime_phase(t->runtime, "checkpoint", t->engine->step, -1);
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, folder, sizeof(folder)));
    TESS_TRY(agree_on_cursor(t, cursor));
    TESS_TRY(list_tensors(t, &tensors, &n));
    json_t *meta = describe(t, cursor);
    tess_status status = meta != NULL ? save_tensors(t, folder, meta, tensors, n)
                                      : TESS_FAIL(TESS_E_NOMEM, "no memory to describe the checkpoint");
    json_decref(meta);
    tess_mem_free(t->mem, tensors);
    TESS_TRY(status);
    if (is_keeper(t))
        TESS_TRY(tess_ckpt_prune(folder, (int)t->config.checkpoint.keep_latest_k, t->engine->step));
    tess_trainer_note(t, "checkpoint: %s/step-%08lld (%.2f s)", folder, (long long)t->engine->step,
                      tess_os_now_s() - begin);
    return TESS_OK;
}

static tess_status check_same(const char *key, int64_t saved, int64_t now)
{
    TESS_CHECK(
        saved == now, TESS_E_INVALID,
        "the checkpoint was made with %s=%lld, now it is %lld: the data could not go on from the same sample; keep the "
        "value, or start anew with another job.dump_folder",
        key, (long long)saved, (long long)now);
    return TESS_OK;
}

static void warn_of_other_files(const tess_trainer *t, const json_t *saved)
{
    const tess_text_list *files = &t->config.data.files;
    bool same = json_array_size(saved) == (size_t)files->n;
    for (int i = 0; i < files->n && same; i++) {
        const char *name = json_string_value(json_array_get(saved, (size_t)i));
        same = name != NULL && strcmp(name, files->item[i]) == 0;
    }
    if (!same)
        tess_trainer_note(t, "warning: data.files are not those of the checkpoint: the run goes on at its position in "
                             "the new ones");
}

static tess_status apply_meta(tess_trainer *t, const json_t *meta)
{
    int64_t seed = 0, seq_len = 0, words[3] = {0};
    const json_t *cursor = json_object_get(meta, "data_cursor");
    TESS_TRY(tess_json_get_int(meta, "step", "meta.json", &t->engine->step));
    TESS_TRY(tess_json_get_int(meta, "n_tokens", "meta.json", &t->engine->n_tokens));
    TESS_TRY(tess_json_get_int(meta, "seed", "meta.json", &seed));
    TESS_TRY(tess_json_get_int(meta, "seq_len", "meta.json", &seq_len));
    TESS_CHECK(json_array_size(cursor) == 3, TESS_E_FORMAT, "meta.json: data_cursor is not a list of three numbers");
    for (size_t i = 0; i < 3; i++) {
        words[i] = json_integer_value(json_array_get(cursor, i));
        TESS_CHECK(words[i] >= 0, TESS_E_FORMAT, "meta.json: data_cursor holds a negative number");
    }
    TESS_TRY(check_same("debug.seed", seed, t->config.debug.seed));
    TESS_TRY(check_same("training.seq_len", seq_len, t->config.training.seq_len));
    warn_of_other_files(t, json_object_get(meta, "data_files"));
    restore_spikes(json_object_get(meta, "newest_losses"), tess_numbers_losses(t->engine->numbers));
    restore_spikes(json_object_get(meta, "newest_grad_norms"), tess_numbers_norms(t->engine->numbers));
    tess_data_cursor position = {(uint64_t)words[0], (uint64_t)words[1], (uint64_t)words[2]};
    TESS_TRY(tess_loader_seek(t->loader, &position));
    t->loader_position = t->engine->step * (t->config.training.global_batch_size / t->config.training.local_batch_size);
    return TESS_OK;
}

/* Rank 0 looks for all: hosts may see a shared folder at different ages. */
static tess_status newest_of_all(tess_trainer *t, const char *folder, int64_t *step)
{
    tess_status status = t->rank == 0 ? tess_ckpt_latest(folder, step) : TESS_OK;
    TESS_TRY(tess_ckpt_agree(t->team, status));
    return tess_broadcast(t->team, step, 1, TESS_I64, 0, NULL);
}

static tess_status newest_of_hosts(tess_trainer *t, const char *folder, int64_t *step)
{
    int64_t newest;
    TESS_TRY(tess_ckpt_latest_local(t->hosts, folder, step, &newest));
    if (newest != *step)
        tess_trainer_note(t, "warning: step %lld is not complete on every host: the run goes on from step %lld",
                          (long long)newest, (long long)*step);
    return TESS_OK;
}

static tess_status load_tensors(tess_trainer *t, const char *folder, int64_t step, json_t **meta)
{
    tess_ckpt_tensor *tensors;
    int n;
    TESS_TRY(list_tensors(t, &tensors, &n));
    tess_status status = t->config.checkpoint.host_local
                             ? tess_ckpt_load_local(t->mem, t->hosts, folder, step, tensors, n, meta)
                             : tess_ckpt_load(t->mem, t->team, folder, step, tensors, n, meta);
    tess_mem_free(t->mem, tensors);
    return status;
}

tess_status tess_trainer_resume(tess_trainer *t)
{
    char folder[1024];
    int64_t step = -1;
    json_t *meta = NULL;
    if (!t->config.checkpoint.enable || !t->config.checkpoint.resume)
        return TESS_OK;
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, folder, sizeof(folder)));
    tess_status status =
        t->config.checkpoint.host_local ? newest_of_hosts(t, folder, &step) : newest_of_all(t, folder, &step);
    if (status == TESS_E_NOT_FOUND) {
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    status = load_tensors(t, folder, step, &meta);
    if (status == TESS_OK)
        status = apply_meta(t, meta);
    json_decref(meta);
    TESS_TRY_CTX(status, "resume from %s", folder);
    TESS_TRY(tess_fsdp_params_changed(t->engine->fsdp));
    tess_trainer_note(t, "resumed from step %lld of %s", (long long)t->engine->step, folder);
    return TESS_OK;
}
