/* Implements training on text as a task: takes micro-batches from the loader in the order of the data, and validates
 * at intervals. */
#include <string.h>

#include "base/text/json.h"
#include "tessera/comm.h"
#include "engine/batches.h"
#include "engine/model/exclude.h"
#include "train/text/text_impl.h"
#include "train/text/text_task.h"
#include "base/mem/scoped.h"

static const char *const what = "the checkpoint's description";

/* ---- Steps ---- */
static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    text_task *t = self;
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
    text_task *t = self;
    *source = tess_engine_source(t->engine, t, next);
    return TESS_OK;
}

static bool evaluates(const void *self, bool last)
{
    const text_task *t = self;
    return text_can_validate(t->text.config) && (last || t->engine->step % t->text.config->validation.interval == 0);
}

/* Exports the best model so far, and ends the run when validation.patience is used up. */
static tess_status judge(text_task *t, const tess_validation_report *report)
{
    char folder[TESS_TEXT_SIZE];
    bool best = tess_early_stop_judge(&t->early_stop, report, t->text.config->validation.min_delta);
    if (best)
        TESS_TRY(tess_trainer_export(t->text.trainer, "best", folder, sizeof(folder)));
    tess_trainer_place_evaluation(t->text.trainer);
    return TESS_OK;
}

static tess_status after_step(void *self, bool last, tess_validation_report *report)
{
    text_task *t = self;
    if (!evaluates(t, last))
        return TESS_OK;
    TESS_TRY(text_validate(t, report));
    return t->text.config->validation.patience > 0 ? judge(t, report) : TESS_OK;
}

static bool is_done(const void *self)
{
    const text_task *t = self;
    return tess_early_stop_is_due(&t->early_stop, t->text.config->validation.patience);
}

/* ---- The place of a rank ---- */
/* The first two words of a place are the next micro-batch, and whether documents begin with a bos token. */
enum { PLACE_EARLY_STOP = 2, PLACE_CURSOR = PLACE_EARLY_STOP + TESS_EARLY_STOP_WORDS };
_Static_assert(PLACE_CURSOR * sizeof(int64_t) + sizeof(tess_data_cursor) <= sizeof(tess_task_place),
               "a place holds it");

static void place(const void *self, tess_task_place *at)
{
    const text_task *t = self;
    tess_data_cursor cursor;
    tess_loader_cursor(t->loader, &cursor);
    *at = (tess_task_place){{t->loader_position, t->bos.n > 0}};
    tess_early_stop_pack(&t->early_stop, at->word + PLACE_EARLY_STOP);
    memcpy(at->word + PLACE_CURSOR, &cursor, sizeof(cursor));
}

static tess_status go_to(void *self, const tess_task_place *at, TESS_UNUSED const tess_engine_report *newest)
{
    text_task *t = self;
    tess_data_cursor cursor;
    memcpy(&cursor, at->word + PLACE_CURSOR, sizeof(cursor));
    t->early_stop = tess_early_stop_unpack(at->word + PLACE_EARLY_STOP);
    TESS_TRY(text_keep_bos(t, at->word[1] != 0));
    TESS_TRY(tess_loader_seek(t->loader, &cursor));
    t->loader_position = at->word[0];
    return TESS_OK;
}

/* ---- Checkpoints ---- */
/* A position in one text is [epoch, window, row]. A mixture has a list of these, each with the number of rows taken. */
static json_t *cursor_to_json(const text_task *t, const tess_data_cursor *cursor)
{
    const tess_source_cursor *at = cursor->source;
    bool mixes = t->text.config->data.weights.n > 0;
    json_t *list = mixes ? json_array() : NULL;
    if (!mixes)
        return json_pack("[I,I,I]", (json_int_t)at->epoch, (json_int_t)at->window, (json_int_t)at->row);
    for (int i = 0; i < cursor->n; i++, at++)
        json_array_append_new(list, json_pack("[I,I,I,I]", (json_int_t)at->epoch, (json_int_t)at->window,
                                              (json_int_t)at->row, (json_int_t)at->taken));
    return list;
}

/* Finds where the next step begins: the cursor of the rank that read the step's last micro-batch. */
static tess_status describe(void *self, json_t *meta)
{
    text_task *t = self;
    tess_data_cursor cursor;
    tess_loader_cursor(t->loader, &cursor);
    const tess_coordinates *at = &t->engine->at;
    const tess_shares shares = tess_axes_shares(at->degree);
    int last = tess_shares_taker(&shares, tess_config_micro_batches(t->text.config) - 1);
    TESS_TRY(tess_broadcast(t->text.team, &cursor, sizeof(cursor), TESS_U8, tess_coordinates_first(at, last), NULL));
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

/* Converts a position to n words: [epoch, window, row, rows taken]. */
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

/* Continues each source where it was, even if the mixture has changed. In that case, the shares count from this step
 * on. */
static tess_status read_mixture(text_task *t, const json_t *meta, tess_data_cursor *cursor)
{
    const json_t *saved = json_object_get(meta, "data_cursor");
    int from[TESS_DATA_SOURCES], n_new = 0;
    bool same;
    TESS_TRY(text_match_sources(t, json_object_get(meta, "data"), from, &same));
    for (int i = 0; i < cursor->n; i++) {
        cursor->source[i] = (tess_source_cursor){0};
        if (from[i] >= 0)
            TESS_TRY(read_cursor(json_array_get(saved, (size_t)from[i]), 4, &cursor->source[i]));
        cursor->source[i].taken = same ? cursor->source[i].taken : 0;
        n_new += from[i] < 0;
    }
    if (!same)
        tess_trainer_note(t->text.trainer, "the mixture has changed: %d source%s where %s, %d begin%s",
                          cursor->n - n_new, cursor->n - n_new == 1 ? " goes on" : "s go on",
                          cursor->n - n_new == 1 ? "it was" : "they were", n_new, n_new == 1 ? "s" : "");
    return TESS_OK;
}

static tess_status seek_data(text_task *t, const json_t *meta)
{
    int64_t seed = 0, seq_len = 0;
    tess_data_cursor position;
    bool adds_bos = false; /* older checkpoints do not record it: documents never began with a bos token */
    TESS_TRY(tess_json_get_int(meta, "seed", what, &seed));
    TESS_TRY(tess_json_get_int(meta, "seq_len", what, &seq_len));
    TESS_TRY(tess_json_get_bool(meta, "adds_bos", what, &adds_bos));
    TESS_TRY(check_same("debug.seed", seed, t->text.config->debug.seed));
    TESS_TRY(check_same("training.seq_len", seq_len, t->text.config->training.seq_len));
    TESS_TRY(text_check_data(t, json_object_get(meta, "data")));
    TESS_TRY(text_keep_bos(t, adds_bos));
    tess_loader_cursor(t->loader, &position);
    TESS_TRY(t->text.config->data.weights.n > 0
                 ? read_mixture(t, meta, &position)
                 : read_cursor(json_object_get(meta, "data_cursor"), 3, &position.source[0]));
    return tess_loader_seek(t->loader, &position);
}

/* exclude_from_loading=data was obeyed before, but the data has changed once more, so reading restarts at its
 * beginning. */
static tess_status place_data(text_task *t, const json_t *meta)
{
    if (tess_trainer_leaves_out(t->text.trainer, "data"))
        return TESS_OK;
    tess_status status = seek_data(t, meta);
    if (status != TESS_E_INVALID || !tess_excludes(&t->text.config->checkpoint.exclude_from_loading, "data"))
        return status;
    tess_trainer_note(t->text.trainer, "the data begins anew, as checkpoint.exclude_from_loading=data says: %s",
                      tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

static tess_status restore(void *self, const json_t *meta)
{
    text_task *t = self;
    t->early_stop = tess_early_stop_from_json(json_object_get(meta, "early_stop"));
    TESS_TRY(place_data(t, meta));
    t->loader_position = t->engine->step * tess_config_micro_batches(t->text.config);
    return TESS_OK;
}

/* ---- The end ---- */
static tess_status export_text(const void *self, const char *folder)
{
    const text_task *t = self;
    return tess_run_text_export(&t->text, folder, tess_loader_has_conversations(t->loader));
}

/* Reports the result of validation.patience. */
static void note_best(const text_task *t)
{
    const tess_early_stop *stop = &t->early_stop;
    tess_trainer *trainer = t->text.trainer;
    char folder[TESS_TEXT_SIZE];
    if (t->text.config->validation.patience == 0 || stop->best_step < 0)
        return;
    if (is_done(t))
        tess_trainer_note(trainer,
                          "the run ends at step %lld of %lld: %lld evaluation%s without a better loss "
                          "(validation.patience)",
                          (long long)t->engine->step, (long long)t->text.config->training.steps,
                          (long long)stop->n_worse, stop->n_worse == 1 ? "" : "s");
    if (tess_trainer_path(trainer, "best", folder, sizeof(folder)) == TESS_OK)
        tess_trainer_note(trainer, "best: step %lld, validation loss %.4f: %s", (long long)stop->best_step,
                          stop->best_loss, folder);
}

static tess_status conclude(void *self, const char *folder)
{
    const text_task *t = self;
    note_best(t);
    return tess_run_text_sample(&t->text, &t->bos, tess_threads_count(tess_stream_threads(t->engine->stream)), folder);
}

/* ---- The kind ---- */
static tess_status create_text(tess_trainer *trainer, tess_task *task)
{
    tess_mem *mem = tess_runtime_mem(tess_trainer_runtime(trainer));
    text_task *t;
    TESS_TRY(TESS_NEW(mem, 1, "text task", &t));
    *t = (text_task){.early_stop = tess_early_stop_begin()};
    *task = (tess_task){.self = t,
                        .next_step = next_step,
                        .place = place,
                        .go_to = go_to,
                        .describe = describe,
                        .restore = restore,
                        .evaluates = evaluates,
                        .after_step = after_step,
                        .is_done = is_done,
                        .export = export_text,
                        .conclude = conclude};
    return tess_run_text_create(trainer, &t->text);
}

static tess_status identify_text(const void *self, uint64_t *hash)
{
    const text_task *t = self;
    return tess_run_text_identify(&t->text, hash);
}

static void report_line(void *self, const char *text)
{
    tess_trainer_note(self, "%s", text);
}

static tess_status open_text(void *self, tess_model_config *model)
{
    text_task *t = self;
    const tess_reporter reporter = {report_line, t->text.trainer};
    TESS_TRY(tess_run_text_open(&t->text, model));
    TESS_TRY(tess_chat_setup_train(t->text.mem, &t->text.chat, &reporter));
    TESS_TRY(text_describe_data(t));
    TESS_TRY(text_open_data(t));
    TESS_TRY(text_open_validation(t));
    return tess_run_text_check_sample(&t->text, &t->bos);
}

static tess_status take_engine(void *self, tess_engine *engine)
{
    text_task *t = self;
    t->engine = engine;
    return TESS_OK;
}

static tess_status write_text(void *self)
{
    text_task *t = self;
    return tess_run_text_write(&t->text);
}

static void close_text(void *self)
{
    text_task *t = self;
    tess_loader_destroy(&t->held_out);
    tess_loader_destroy(&t->loader);
    json_decref(t->data);
    tess_mem *mem = t->text.mem;
    tess_run_text_close(&t->text);
    tess_mem_free(mem, t);
}

static tess_status check_text(tess_config *config)
{
    TESS_CHECK(config->rollout.ranks == 0, TESS_E_INVALID,
               "rollout.ranks: text is not drawn: leave it out, or use `tessera rl`");
    TESS_CHECK(config->validation.patience == 0 || text_can_validate(config), TESS_E_INVALID,
               "validation.patience: there is nothing to evaluate on: see validation.enable, files and fraction");
    return TESS_OK;
}

const tess_task_kind tess_text_task_kind = {.check = check_text,
                                            .create = create_text,
                                            .identify = identify_text,
                                            .open = open_text,
                                            .ready = take_engine,
                                            .write = write_text,
                                            .close = close_text};
