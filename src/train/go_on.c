/* Continues a run from persistent memory (checkpoint.memory_copies): after a lost rank was replaced, or in a later
 * launch of the same job on this host. */
#include "train/trainer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "nn/model_config.h"
#include "tessera/comm.h"
#include "engine/numbers/numbers.h"

/* A hash of everything that decides the layout of persistent memory and the result of each step. */
static tess_status identify(const tess_trainer *t, uint64_t *identity)
{
    const tess_config *c = &t->config;
    json_t *json = NULL;
    uint64_t samples;
    TESS_TRY(t->kind->identify(t->task.self, &samples));
    TESS_TRY(tess_model_config_to_json(&t->model_config, TESS_F32, &json));
    char *text = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT);
    uint64_t model = text != NULL ? tess_hash_text(text) : 0;
    free(text);
    json_decref(json);
    TESS_CHECK(model != 0, TESS_E_NOMEM, "no memory to describe the model");
    const int64_t words[] = {(int64_t)model,
                             (int64_t)tess_hash_text(TESS_VERSION),
                             (int64_t)tess_hash_text(c->model.path),
                             tess_team_size(t->team),
                             tess_team_rank(tess_trainer_team(t)),
                             c->training.seq_len,
                             c->debug.seed,
                             (int64_t)samples};
    tess_run_layout layout;
    tess_run_layout_of(c, &layout);
    *identity = tess_hash_bytes(words, sizeof(words), 0);
    *identity = tess_hash_bytes(&layout, sizeof(layout), *identity);
    const tess_lora *lora = &t->model_config.lora;
    const double adapter[] = {(double)lora->rank, lora->alpha, (double)lora->rslora};
    *identity = tess_hash_bytes(adapter, sizeof(adapter), *identity);
    *identity = tess_hash_bytes(lora->targets, sizeof(lora->targets), *identity);
    for (int i = 0; i < c->training.freeze.n; i++)
        *identity = tess_hash_bytes(c->training.freeze.item[i], strlen(c->training.freeze.item[i]) + 1, *identity);
    return TESS_OK;
}

/* The state that all ranks have in memory. A rank without usable state counts as `done` = -1. */
typedef struct resume_outlook {
    bool is_hot;         /* the present launch wrote the state of every rank */
    bool is_here;        /* every rank's state belongs to a job in this folder, whatever its settings */
    logbook_marks least; /* minimum of each mark over all ranks */
    /* step to continue from: the newest of any rank, or the minimum over ranks if devices hold the weights */
    int64_t committed;
} resume_outlook;

static tess_status look(const tess_trainer *t, uint64_t folder, resume_outlook *all)
{
    bool is_hot, is_of = tess_logbook_is_of(t->book, folder, &is_hot);
    logbook_marks mine = tess_logbook_marks(t->book);
    int64_t committed = mine.committed;
    int64_t least[] = {is_of ? mine.done : -1,
                       mine.committed,
                       mine.validated,
                       mine.saved,
                       is_hot,
                       tess_logbook_is_in(t->book, folder)};
    TESS_TRY(tess_all_reduce(t->team, least, least, 6, TESS_I64, TESS_MIN, NULL));
    TESS_TRY(tess_all_reduce(t->team, &committed, &committed, 1, TESS_I64, TESS_MAX, NULL));
    *all =
        (resume_outlook){.is_hot = least[4] != 0,
                         .is_here = least[5] != 0,
                         .least = {.done = least[0], .committed = least[1], .validated = least[2], .saved = least[3]},
                         .committed = mine.in_generations ? least[1] : committed};
    return TESS_OK;
}

/* Decides whether memory is newer than the newest checkpoint: an earlier launch without persistent memory may have
 * saved since. The checkpoint is verified before the memory is cleared. If it is damaged, one of the same step does
 * not count, and a newer one ends the run. */
static tess_status is_newer_than_disk(tess_trainer *t, int64_t step, bool *is)
{
    int64_t saved;
    TESS_TRY(tess_trainer_newest_checkpoint(t, &saved));
    const char *why = !t->config.checkpoint.resume          ? "checkpoint.resume=false"
                      : t->config.checkpoint.load_step >= 0 ? "checkpoint.load_step names another"
                                                            : NULL;
    bool as_new = why == NULL && step <= saved;
    tess_status status = as_new ? tess_trainer_read_back(t, saved) : TESS_OK;
    if (status != TESS_OK && step < saved)
        return tess_fail_context(status, "without this checkpoint the run goes on from step %lld, kept in memory",
                                 (long long)step);
    if (as_new && status == TESS_OK)
        why = "the newest checkpoint is as new";
    *is = why == NULL;
    if (why != NULL)
        snprintf(t->not_taken, sizeof(t->not_taken), " (step %lld, kept in memory, is not used: %s)", (long long)step,
                 why);
    else if (saved >= 0)
        snprintf(t->not_taken, sizeof(t->not_taken), " (the newest checkpoint is of step %lld%s)", (long long)saved,
                 status != TESS_OK ? ", and damaged" : "");
    else
        snprintf(t->not_taken, sizeof(t->not_taken), " (there is no checkpoint)");
    tess_error_clear();
    return TESS_OK;
}

/* Fails if memory holds newer work of this run that was made with other settings, rather than discard it. */
static tess_status refuse_other_settings(tess_trainer *t, const resume_outlook *all)
{
    int64_t saved;
    if (all->least.done >= 0 || !all->is_here || !t->config.checkpoint.resume || t->config.checkpoint.load_step >= 0)
        return TESS_OK;
    TESS_TRY(tess_trainer_newest_checkpoint(t, &saved));
    TESS_CHECK(
        all->committed <= saved, TESS_E_INVALID,
        "step %lld of this run is kept in memory (checkpoint.memory_copies) by a launch with another model, tokenizer, "
        "text, debug.seed, training.seq_len or version of tessera: start it as it was started then, to go on from "
        "there; checkpoint.memory_copies=false goes on from the newest checkpoint",
        (long long)all->committed);
    return TESS_OK;
}

tess_status tess_trainer_find_persistent(tess_trainer *t)
{
    resume_outlook all;
    uint64_t identity = 0;
    TESS_TRY(tess_logbook_open(t->runtime, &t->book));
    if (t->book == NULL)
        return TESS_OK;
    TESS_TRY(identify(t, &identity));
    tess_logbook_identify(t->book, identity);
    TESS_TRY(look(t, tess_os_folder_id(t->config.job.dump_folder), &all));
    t->goes_on = all.least.done >= 0 && all.committed - all.least.done <= 1;
    if (t->goes_on && !all.is_hot)
        TESS_TRY(is_newer_than_disk(t, all.committed, &t->goes_on));
    else if (!t->goes_on)
        TESS_TRY(refuse_other_settings(t, &all));
    t->marks = all.least;
    return t->goes_on ? TESS_OK : tess_logbook_clear(t->runtime, t->book);
}

tess_status tess_trainer_go_on(tess_trainer *t)
{
    tess_task_place place;
    const tess_lr_settings before = tess_logbook_lr(t->book);
    tess_trainer_compare_kernels(t, tess_logbook_kernels(t->book));
    TESS_TRY_CTX(tess_logbook_go_on(t->book, t->engine, &place), "go on with what was kept in memory");
    const logbook_step *last = tess_logbook_last(t->book);
    TESS_TRY(t->task.go_to(t->task.self, &place, last->step >= 0 ? &last->report : NULL));
    tess_trainer_note(t, "going on from step %lld, kept in memory by %d rank%s%s", (long long)t->engine->step,
                      tess_team_size(t->team), tess_team_size(t->team) == 1 ? "" : "s", t->not_taken);
    tess_trainer_compare_lr(t, &before);
    return TESS_OK;
}

tess_status tess_trainer_begin_book(tess_trainer *t)
{
    tess_task_place place;
    if (t->book == NULL)
        return TESS_OK;
    t->task.place(t->task.self, &place);
    return tess_logbook_begin(t->book, t->engine, tess_os_folder_id(t->config.job.dump_folder), &place);
}

void tess_trainer_place_evaluation(const tess_trainer *t)
{
    tess_task_place place;
    if (t->book == NULL)
        return;
    t->task.place(t->task.self, &place);
    tess_logbook_read(t->book, t->engine->step, &place);
}

/* Records this rank's place in the current step: when the step begins (for ranks without a micro-batch in it), and
 * after each micro-batch. */
static void note_place(const tess_trainer *t)
{
    tess_task_place place;
    t->task.place(t->task.self, &place);
    tess_logbook_read(t->book, t->engine->step + 1, &place);
}

static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    tess_trainer *t = self;
    TESS_TRY(t->source.next(t->source.self, index, batch));
    note_place(t);
    return TESS_OK;
}

static tess_status judge(void *self, tess_engine_report *report)
{
    tess_trainer *t = self;
    return t->source.judge(t->source.self, report);
}

tess_status tess_trainer_next_step(tess_trainer *t, tess_batch_source *source)
{
    TESS_TRY(t->task.next_step(t->task.self, &t->source));
    note_place(t);
    *source = t->source;
    source->self = t;
    source->next = next;
    source->judge = t->source.judge != NULL ? judge : NULL;
    return TESS_OK;
}
