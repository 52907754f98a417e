/* Going on with a run that was saved. */
#include "train/trainer_impl.h"

#include <string.h>

#include "base/text/json.h"
#include "ckpt/agree.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "tessera/comm.h"
#include "train/numbers/numbers.h"

/* Of checkpoints without: an empty window. */
static void restore_spikes(const json_t *values, tess_spikes *spikes)
{
    *spikes = (tess_spikes){.n = 0};
    for (size_t i = 0; i < json_array_size(values); i++)
        tess_spikes_add(spikes, json_number_value(json_array_get(values, i)));
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

/* Of a checkpoint that does not count. */
static void warn_of_damage(void *self, const char *text)
{
    tess_trainer_note(self, "warning: %s", text);
}

/* Rank 0 looks for all: hosts may see a shared folder at different ages. */
static tess_status newest_of_all(tess_trainer *t, const char *folder, int64_t *step)
{
    const tess_ckpt_listener listener = {t, warn_of_damage};
    tess_status status = t->rank == 0 ? tess_ckpt_latest(folder, &listener, step) : TESS_OK;
    TESS_TRY(tess_ckpt_agree(t->team, status));
    return tess_broadcast(t->team, step, 1, TESS_I64, 0, NULL);
}

static tess_status newest_of_hosts(tess_trainer *t, const char *folder, int64_t *step)
{
    int64_t newest;
    const tess_ckpt_listener listener = {t, warn_of_damage};
    TESS_TRY(tess_ckpt_latest_local(t->hosts, folder, &listener, step, &newest));
    if (newest != *step)
        tess_trainer_note(t, "warning: step %lld is not complete on every host: the run goes on from step %lld",
                          (long long)newest, (long long)*step);
    return TESS_OK;
}

static tess_status load_tensors(tess_trainer *t, const char *folder, int64_t step, json_t **meta)
{
    tess_ckpt_tensor *tensors;
    int n;
    const tess_ckpt_load_options options = {.hosts = t->hosts};
    TESS_TRY(tess_trainer_list_tensors(t, &tensors, &n));
    tess_status status = t->config.checkpoint.host_local
                             ? tess_ckpt_load_local(t->mem, t->hosts, folder, step, tensors, n, &options, meta)
                             : tess_ckpt_load(t->mem, t->team, folder, step, tensors, n, &options, meta);
    tess_mem_free(t->mem, tensors);
    return status;
}

tess_status tess_trainer_newest_checkpoint(tess_trainer *t, int64_t *step)
{
    char folder[1024];
    *step = -1;
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, folder, sizeof(folder)));
    tess_status status =
        t->config.checkpoint.host_local ? newest_of_hosts(t, folder, step) : newest_of_all(t, folder, step);
    if (status != TESS_E_NOT_FOUND)
        return status;
    tess_error_clear();
    return TESS_OK;
}

tess_status tess_trainer_resume(tess_trainer *t)
{
    char folder[1024];
    int64_t step = -1;
    json_t *meta = NULL;
    if (!t->config.checkpoint.enable || !t->config.checkpoint.resume)
        return TESS_OK;
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, folder, sizeof(folder)));
    TESS_TRY(tess_trainer_newest_checkpoint(t, &step));
    if (step < 0)
        return TESS_OK;
    tess_status status = load_tensors(t, folder, step, &meta);
    if (status == TESS_OK)
        status = apply_meta(t, meta);
    json_decref(meta);
    TESS_TRY_CTX(status, "resume from %s", folder);
    TESS_TRY(tess_fsdp_params_changed(t->engine->fsdp));
    tess_trainer_note(t, "resumed from step %lld of %s", (long long)t->engine->step, folder);
    return TESS_OK;
}
