/* Text as a task: micro-batches by the loader, in the order of the data, and validation at intervals. */
#include <string.h>

#include "base/text/json.h"
#include "tessera/comm.h"
#include "engine/batches.h"
#include "engine/model/exclude.h"
#include "train/trainer_impl.h"

static const char *const what = "the checkpoint's description";

/* ---- Steps ---- */
static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    tess_trainer *t = self;
    tess_micro_batch data;
    bool end = false;
    TESS_TRY(tess_loader_next(t->loader, index - t->loader_position, &data, &end));
    TESS_CHECK(!end, TESS_E_INTERNAL, "the training data ended");
    t->loader_position = index + 1;
    *batch = tess_batch_of(&data);
    return TESS_OK;
}

static tess_status next_step(void *self, tess_batch_source *source)
{
    tess_trainer *t = self;
    *source = tess_engine_source(t->engine, t, next);
    return TESS_OK;
}

static bool evaluates(const void *self, bool last)
{
    const tess_trainer *t = self;
    return tess_trainer_can_validate(t) && (last || t->engine->step % t->config.validation.interval == 0);
}

/* The best model so far is kept, and the run ends when patience does. */
static tess_status judge(tess_trainer *t, const tess_validation_report *report)
{
    char folder[TESS_TEXT_SIZE];
    bool best = tess_early_stop_judge(&t->early_stop, report, t->config.validation.min_delta);
    t->ends_early = tess_early_stop_is_due(&t->early_stop, t->config.validation.patience);
    if (best)
        TESS_TRY(tess_trainer_export(t, "best", folder, sizeof(folder)));
    tess_trainer_place_evaluation(t);
    return TESS_OK;
}

static tess_status after_step(void *self, bool last, tess_validation_report *report)
{
    tess_trainer *t = self;
    if (!evaluates(t, last))
        return TESS_OK;
    TESS_TRY(tess_trainer_validate(t, report));
    return t->config.validation.patience > 0 ? judge(t, report) : TESS_OK;
}

/* Takes over the state of an earlier process. */
static void take_early_stop(tess_trainer *t, const tess_early_stop *stop)
{
    t->early_stop = *stop;
    t->ends_early = tess_early_stop_is_due(stop, t->config.validation.patience);
}

/* ---- The place of a rank ---- */
/* The first two words are the next micro-batch, and whether documents begin with a bos token. */
enum { PLACE_EARLY_STOP = 2, PLACE_CURSOR = PLACE_EARLY_STOP + TESS_EARLY_STOP_WORDS };
_Static_assert(PLACE_CURSOR * sizeof(int64_t) + sizeof(tess_data_cursor) <= sizeof(tess_task_place),
               "a place holds it");

static void place(const void *self, tess_task_place *at)
{
    const tess_trainer *t = self;
    tess_data_cursor cursor;
    tess_loader_cursor(t->loader, &cursor);
    *at = (tess_task_place){{t->loader_position, t->bos.n > 0}};
    tess_early_stop_pack(&t->early_stop, at->word + PLACE_EARLY_STOP);
    memcpy(at->word + PLACE_CURSOR, &cursor, sizeof(cursor));
}

static tess_status go_to(void *self, const tess_task_place *at, const tess_engine_report *newest)
{
    tess_trainer *t = self;
    (void)newest;
    tess_data_cursor cursor;
    memcpy(&cursor, at->word + PLACE_CURSOR, sizeof(cursor));
    const tess_early_stop stop = tess_early_stop_unpack(at->word + PLACE_EARLY_STOP);
    take_early_stop(t, &stop);
    TESS_TRY(tess_trainer_keep_bos(t, at->word[1] != 0));
    TESS_TRY(tess_loader_seek(t->loader, &cursor));
    t->loader_position = at->word[0];
    return TESS_OK;
}

/* ---- Checkpoints ---- */
/* A text has [epoch, window, row]; a mixture has a list of these, each with the rows taken. */
static json_t *cursor_to_json(const tess_trainer *t, const tess_data_cursor *cursor)
{
    const tess_source_cursor *at = cursor->source;
    bool mixes = t->config.data.weights.n > 0;
    json_t *list = mixes ? json_array() : NULL;
    if (!mixes)
        return json_pack("[I,I,I]", (json_int_t)at->epoch, (json_int_t)at->window, (json_int_t)at->row);
    for (int i = 0; i < cursor->n; i++, at++)
        json_array_append_new(list, json_pack("[I,I,I,I]", (json_int_t)at->epoch, (json_int_t)at->window,
                                              (json_int_t)at->row, (json_int_t)at->taken));
    return list;
}

/* The cursor of the rank that has read the step's last micro-batch is where the next step begins. */
static tess_status describe(void *self, json_t *meta)
{
    tess_trainer *t = self;
    tess_data_cursor cursor;
    tess_loader_cursor(t->loader, &cursor);
    const tess_coordinates *at = &t->engine->at;
    int last_reader = (int)((tess_config_micro_batches(&t->config) - 1) % at->n_data) * at->n_tp;
    TESS_TRY(tess_broadcast(t->team, &cursor, sizeof(cursor), TESS_U8, last_reader, NULL));
    json_t *mine = json_pack("{s:o, s:b, s:O, s:o}", "data_cursor", cursor_to_json(t, &cursor), "adds_bos",
                             t->bos.n > 0, "data", t->data, "early_stop", tess_early_stop_to_json(&t->early_stop));
    bool failed = mine == NULL || json_object_update(meta, mine) != 0;
    json_decref(mine);
    TESS_CHECK(!failed, TESS_E_NOMEM, "no memory to describe the checkpoint");
    return TESS_OK;
}

static tess_status check_same(const char *key, int64_t saved, int64_t now)
{
    TESS_CHECK(saved == now, TESS_E_INVALID,
               "the checkpoint was made with %s=%lld, now it is %lld: the data could not go on from the same sample; "
               "keep the value, or start the data anew with checkpoint.exclude_from_loading=data",
               key, (long long)saved, (long long)now);
    return TESS_OK;
}

/* n words: [epoch, window, row, rows taken]. */
static tess_status read_cursor(const json_t *json, size_t n, tess_source_cursor *cursor)
{
    uint64_t *const words[] = {&cursor->epoch, &cursor->window, &cursor->row, &cursor->taken};
    TESS_CHECK(json_array_size(json) == n, TESS_E_FORMAT,
               "%s holds no place in the data: to begin with its weights use checkpoint.initial_load_path, to go on at "
               "the data's beginning checkpoint.exclude_from_loading=data",
               what);
    for (size_t i = 0; i < n; i++) {
        json_int_t word = json_integer_value(json_array_get(json, i));
        TESS_CHECK(word >= 0, TESS_E_FORMAT, "%s: data_cursor holds a negative number", what);
        *words[i] = (uint64_t)word;
    }
    return TESS_OK;
}

/* Each source goes on where it was, whatever the mixture is now; the shares count from here where it has changed. */
static tess_status read_mixture(tess_trainer *t, const json_t *meta, tess_data_cursor *cursor)
{
    const json_t *saved = json_object_get(meta, "data_cursor");
    int from[TESS_DATA_SOURCES], n_new = 0;
    bool same;
    TESS_TRY(tess_trainer_match_sources(t, json_object_get(meta, "data"), from, &same));
    for (int i = 0; i < cursor->n; i++) {
        cursor->source[i] = (tess_source_cursor){0};
        if (from[i] >= 0)
            TESS_TRY(read_cursor(json_array_get(saved, (size_t)from[i]), 4, &cursor->source[i]));
        cursor->source[i].taken = same ? cursor->source[i].taken : 0;
        n_new += from[i] < 0;
    }
    if (!same)
        tess_trainer_note(t, "the mixture has changed: %d source%s where %s, %d begin%s", cursor->n - n_new,
                          cursor->n - n_new == 1 ? " goes on" : "s go on",
                          cursor->n - n_new == 1 ? "it was" : "they were", n_new, n_new == 1 ? "s" : "");
    return TESS_OK;
}

static tess_status seek_data(tess_trainer *t, const json_t *meta)
{
    int64_t seed = 0, seq_len = 0;
    tess_data_cursor position;
    bool adds_bos = false; /* older checkpoints do not say: documents never began with a bos token */
    TESS_TRY(tess_json_get_int(meta, "seed", what, &seed));
    TESS_TRY(tess_json_get_int(meta, "seq_len", what, &seq_len));
    TESS_TRY(tess_json_get_bool(meta, "adds_bos", what, &adds_bos));
    TESS_TRY(check_same("debug.seed", seed, t->config.debug.seed));
    TESS_TRY(check_same("training.seq_len", seq_len, t->config.training.seq_len));
    TESS_TRY(tess_trainer_check_data(t, json_object_get(meta, "data")));
    TESS_TRY(tess_trainer_keep_bos(t, adds_bos));
    tess_loader_cursor(t->loader, &position);
    TESS_TRY(t->config.data.weights.n > 0 ? read_mixture(t, meta, &position)
                                          : read_cursor(json_object_get(meta, "data_cursor"), 3, &position.source[0]));
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

static tess_status restore(void *self, const json_t *meta)
{
    tess_trainer *t = self;
    const tess_early_stop stop = tess_early_stop_from_json(json_object_get(meta, "early_stop"));
    take_early_stop(t, &stop);
    TESS_TRY(place_data(t, meta));
    t->loader_position = t->engine->step * tess_config_micro_batches(&t->config);
    return TESS_OK;
}

/* ---- The kind ---- */
static tess_status open_text(tess_trainer *t, tess_task *task)
{
    *task = (tess_task){.self = t,
                        .next_step = next_step,
                        .place = place,
                        .go_to = go_to,
                        .describe = describe,
                        .restore = restore,
                        .evaluates = evaluates,
                        .after_step = after_step};
    t->early_stop = tess_early_stop_begin();
    TESS_TRY(tess_trainer_open_data(t));
    TESS_TRY(tess_trainer_open_validation(t));
    return tess_trainer_check_sample(t);
}

static void close_text(void *self)
{
    tess_trainer *t = self;
    tess_loader_destroy(&t->held_out);
    tess_loader_destroy(&t->loader);
}

static tess_status check_text(tess_config *config)
{
    TESS_CHECK(config->rollout.ranks == 0, TESS_E_INVALID,
               "rollout.ranks: text is not drawn: leave it out, or use `tessera rl`");
    TESS_CHECK(config->validation.patience == 0 ||
                   (config->validation.enable && (config->validation.files.n > 0 || config->validation.fraction > 0)),
               TESS_E_INVALID,
               "validation.patience: there is nothing to evaluate on: see validation.enable, files and fraction");
    return TESS_OK;
}

const tess_task_kind tess_text_task_kind = {
    .check = check_text, .open = open_text, .predict_memory = tess_memory_predict_rank, .close = close_text};
