/* Restores a run from a checkpoint's description: counters, position in the data, newest losses and norms. */
#include "base/text/json.h"
#include "train/exclude.h"
#include "train/numbers/numbers.h"
#include "train/trainer_impl.h"

static const char *const what = "the checkpoint's description";

/* The window stays empty if the checkpoint has none. */
static void restore_spikes(const json_t *values, tess_spikes *spikes)
{
    *spikes = (tess_spikes){.n = 0};
    for (size_t i = 0; i < json_array_size(values); i++)
        tess_spikes_add(spikes, json_number_value(json_array_get(values, i)));
}

static tess_status check_same(const char *key, int64_t saved, int64_t now)
{
    TESS_CHECK(saved == now, TESS_E_INVALID,
               "the checkpoint was made with %s=%lld, now it is %lld: the data could not go on from the same sample; "
               "keep the value, or start the data anew with checkpoint.exclude_from_loading=data",
               key, (long long)saved, (long long)now);
    return TESS_OK;
}

static tess_status seek_data(tess_trainer *t, const json_t *meta)
{
    int64_t seed = 0, seq_len = 0, words[3] = {0};
    bool adds_bos = false; /* older checkpoints do not say: documents never began with a bos token */
    const json_t *cursor = json_object_get(meta, "data_cursor");
    TESS_TRY(tess_json_get_int(meta, "seed", what, &seed));
    TESS_TRY(tess_json_get_int(meta, "seq_len", what, &seq_len));
    TESS_TRY(tess_json_get_bool(meta, "adds_bos", what, &adds_bos));
    TESS_CHECK(json_array_size(cursor) == 3, TESS_E_FORMAT,
               "%s holds no place in the data: to begin with its weights use checkpoint.initial_load_path, to go on at "
               "the data's beginning checkpoint.exclude_from_loading=data",
               what);
    for (size_t i = 0; i < 3; i++) {
        words[i] = json_integer_value(json_array_get(cursor, i));
        TESS_CHECK(words[i] >= 0, TESS_E_FORMAT, "%s: data_cursor holds a negative number", what);
    }
    TESS_TRY(check_same("debug.seed", seed, t->config.debug.seed));
    TESS_TRY(check_same("training.seq_len", seq_len, t->config.training.seq_len));
    TESS_TRY(tess_trainer_check_data(t, json_object_get(meta, "data")));
    TESS_TRY(tess_trainer_keep_bos(t, adds_bos));
    tess_data_cursor position = {(uint64_t)words[0], (uint64_t)words[1], (uint64_t)words[2]};
    return tess_loader_seek(t->loader, &position);
}

/* exclude_from_loading=data was obeyed before, but the data has changed once more: it begins anew again. */
static tess_status place_data(tess_trainer *t, const json_t *meta)
{
    if (tess_excludes(&t->without, "data"))
        return TESS_OK;
    tess_status status = seek_data(t, meta);
    if (status != TESS_E_INVALID || !tess_excludes(&t->config.checkpoint.exclude_from_loading, "data"))
        return status;
    tess_trainer_note(t, "the data begins anew, as checkpoint.exclude_from_loading=data says: %s",
                      tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* Steps continue. An excluded schedule or optimizer begins at this step. */
static tess_status restore_counters(tess_engine *e, const tess_text_list *without, const json_t *meta)
{
    TESS_TRY(tess_json_get_int(meta, "step", what, &e->step));
    TESS_TRY(tess_json_get_int(meta, "n_tokens", what, &e->n_tokens));
    TESS_TRY(tess_json_get_int(meta, "schedule_begin", what, &e->schedule_begin));
    TESS_TRY(tess_json_get_int(meta, "optimizer_begin", what, &e->optimizer_begin));
    TESS_CHECK(e->step >= 0 && e->schedule_begin >= 0 && e->schedule_begin <= e->step && e->optimizer_begin >= 0 &&
                   e->optimizer_begin <= e->step,
               TESS_E_FORMAT, "%s: its steps do not fit together", what);
    if (tess_excludes(without, "lr_scheduler"))
        e->schedule_begin = e->step;
    if (tess_excludes(without, "optimizer"))
        e->optimizer_begin = e->step;
    return TESS_OK;
}

tess_status tess_trainer_restore_state(tess_trainer *t, const json_t *meta)
{
    const tess_text_list *without = &t->without;
    TESS_CHECK(json_is_object(meta), TESS_E_FORMAT, "%s is missing: it is not of a training run", what);
    TESS_TRY(restore_counters(t->engine, without, meta));
    int64_t saved = json_integer_value(json_object_get(meta, "global_batch_size"));
    int64_t now = t->config.training.global_batch_size;
    if (saved != 0 && saved != now)
        tess_trainer_warn(t, "a step was %lld rows until here, now it is %lld (training.global_batch_size)",
                          (long long)saved, (long long)now);
    TESS_TRY(place_data(t, meta));
    t->loader_position = t->engine->step * tess_config_micro_batches(&t->config);
    restore_spikes(json_object_get(meta, "newest_losses"), tess_numbers_losses(t->engine->numbers));
    restore_spikes(json_object_get(meta, "newest_grad_norms"), tess_numbers_norms(t->engine->numbers));
    return TESS_OK;
}
