/* Resumes a run: chooses the checkpoint to load, and falls back to an older one or fails if that checkpoint is
 * damaged. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "comm/agree.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "tessera/comm.h"
#include "engine/model/exclude.h"
#include "train/trainer_impl.h"

enum { MESSAGE_SIZE = 1024 };

typedef struct step_search {
    tess_trainer *t;
    char folder[1024];          /* the folder that holds the run's checkpoints */
    char damaged[MESSAGE_SIZE]; /* describes the newest damaged checkpoint that the search skipped; "": none */
    int64_t n_ranks;            /* number of ranks that saved the loaded checkpoint; 0: unknown */
} step_search;

static void note_damage(void *self, const char *text)
{
    step_search *s = self;
    if (s->damaged[0] == '\0')
        snprintf(s->damaged, sizeof(s->damaged), "%s", text);
}

/* Finds the newest complete checkpoint whose step is at most `limit`. Collective. Rank 0 searches for all ranks,
 * because hosts may see different ages of a shared folder. */
static tess_status find_newest(step_search *s, int64_t limit, int64_t *step)
{
    tess_trainer *t = s->t;
    const tess_ckpt_listener listener = {.self = s, .note = note_damage};
    int64_t newest;
    s->damaged[0] = '\0';
    if (!t->config.checkpoint.host_local) {
        TESS_TRY(tess_team_agree(t->team,
                                 t->rank == 0 ? tess_ckpt_latest_until(s->folder, limit, &listener, step) : TESS_OK));
        return tess_broadcast(t->team, step, 1, TESS_I64, 0, NULL);
    }
    TESS_TRY(tess_ckpt_latest_local(t->hosts, s->folder, limit, &listener, step, &newest));
    if (newest != *step)
        tess_trainer_warn(t, "step %lld is not complete on every host: the run goes on from step %lld",
                          (long long)newest, (long long)*step);
    return TESS_OK;
}

/* Like find_newest without a limit, but sets *step to -1 if there is no checkpoint. */
static tess_status find_newest_or_none(step_search *s, int64_t *step)
{
    tess_status status = find_newest(s, INT64_MAX, step);
    if (status != TESS_E_NOT_FOUND)
        return status;
    *step = -1;
    tess_error_clear();
    return TESS_OK;
}

/* Fails with a message that names the step `previous`. Going back to it would lose the steps since, so the user must
 * ask for it. */
static tess_status fail_damaged(tess_status status, const char *message, int64_t previous)
{
    return TESS_FAIL(status,
                     "%s; checkpoint.load_step=%lld would go on from step %lld (checkpoint.on_damage=previous does so "
                     "by itself)",
                     message, (long long)previous, (long long)previous);
}

/* Fails on all ranks if any rank skipped a damaged checkpoint. `previous`: step of the older checkpoint; -1: there
 * is none. */
static tess_status refuse_damage(const step_search *s, int64_t previous)
{
    tess_status status = TESS_OK;
    if (s->damaged[0] != '\0' && previous >= 0)
        status = fail_damaged(TESS_E_FORMAT, s->damaged, previous);
    else if (s->damaged[0] != '\0')
        status = TESS_FAIL(TESS_E_FORMAT, "%s; there is no other (checkpoint.resume=false starts anew)", s->damaged);
    return tess_team_agree(s->t->team, status);
}

static tess_status choose_newest(step_search *s, int64_t *step)
{
    tess_status status = find_newest(s, INT64_MAX, step);
    if (status == TESS_E_NOT_FOUND) {
        TESS_TRY(refuse_damage(s, -1));
        return TESS_FAIL(TESS_E_NOT_FOUND, "%s: no checkpoint there", s->folder);
    }
    TESS_TRY(status);
    if (s->t->config.checkpoint.on_damage == TESS_DAMAGE_STOP)
        return refuse_damage(s, *step);
    if (s->damaged[0] != '\0')
        tess_trainer_warn(s->t, "%s; it is passed over", s->damaged);
    return TESS_OK;
}

/* Rank 0 answers a yes/no question about a checkpoint's description and broadcasts the answer. */
static tess_status ask(const step_search *s, int64_t step,
                       bool (*question)(const tess_config *config, const json_t *meta), bool *answer)
{
    const tess_trainer *t = s->t;
    tess_catalog *catalog;
    int64_t word = 0;
    tess_status status = t->rank == 0 ? tess_ckpt_open_step(t->mem, s->folder, step, &catalog) : TESS_OK;
    if (t->rank == 0 && status == TESS_OK) {
        word = question(&t->config, json_object_get(catalog->meta, "meta"));
        tess_catalog_destroy(&catalog);
    }
    TESS_TRY(tess_team_agree(t->team, status));
    TESS_TRY(tess_broadcast(t->team, &word, 1, TESS_I64, 0, NULL));
    *answer = word != 0;
    return TESS_OK;
}

static bool is_same_list(const json_t *saved, const tess_text_list *now)
{
    bool same = json_array_size(saved) == (size_t)now->n;
    for (int i = 0; i < now->n && same; i++) {
        const char *item = json_string_value(json_array_get(saved, (size_t)i));
        same = item != NULL && strcmp(item, now->item[i]) == 0;
    }
    return same;
}

/* Whether training.freeze differs from its value when the checkpoint was saved. */
static bool has_other_freeze(const tess_config *config, const json_t *meta)
{
    const json_t *training = json_object_get(json_object_get(meta, "config"), "training");
    return !is_same_list(json_object_get(training, "freeze"), &config->training.freeze);
}

/* Whether the checkpoint's run has already obeyed exclude_from_loading. That option and load_step are obeyed once,
 * so a run that is restarted with the same configuration loses nothing. A checkpoint whose description has the same
 * setting was saved after the run obeyed it. */
static bool has_excluded(const tess_config *config, const json_t *meta)
{
    return is_same_list(json_object_get(meta, "excluded"), &config->checkpoint.exclude_from_loading) &&
           !has_other_freeze(config, meta);
}

static bool has_gone_back(const tess_config *config, const json_t *meta)
{
    const json_t *saved = json_object_get(meta, "load_step");
    return json_is_integer(saved) && json_integer_value(saved) == config->checkpoint.load_step;
}

/* Sets *further to true if the run has already gone back to checkpoint.load_step and has saved a newer checkpoint
 * since. */
static tess_status is_past_load_step(step_search *s, bool *further)
{
    int64_t newest, asked = s->t->config.checkpoint.load_step;
    *further = false;
    TESS_TRY(find_newest_or_none(s, &newest));
    if (newest <= asked)
        return TESS_OK;
    TESS_TRY(ask(s, newest, has_gone_back, further));
    if (*further)
        tess_trainer_note(s->t,
                          "checkpoint.load_step=%lld: this run has come to step %lld since; to go back once more, move "
                          "what is newer away",
                          (long long)asked, (long long)newest);
    return TESS_OK;
}

static tess_status choose(step_search *s, int64_t *step)
{
    char folder[TESS_CKPT_PATH];
    bool further = false;
    *step = s->t->config.checkpoint.load_step;
    if (*step >= 0)
        TESS_TRY(is_past_load_step(s, &further));
    if (*step < 0 || further)
        return choose_newest(s, step);
    tess_status status = tess_ckpt_find(NULL, s->folder, *step, folder);
    if (status == TESS_E_NOT_FOUND)
        status = TESS_FAIL(TESS_E_INVALID, "checkpoint.load_step=%lld: %s is not there", (long long)*step, folder);
    return tess_team_agree(s->t->team, status);
}

static tess_status choose_exclusions(const step_search *s, int64_t step)
{
    tess_trainer *t = s->t;
    bool done = false;
    t->without = t->config.checkpoint.exclude_from_loading;
    if (t->without.n > 0)
        TESS_TRY(ask(s, step, has_excluded, &done));
    if (done)
        t->without.n = 0;
    return TESS_OK;
}

/* Refuses another training.freeze than the checkpoint's, because only parameters that were trained have moments in
 * it. */
static tess_status check_freeze(const step_search *s, int64_t step)
{
    bool other;
    TESS_TRY(ask(s, step, has_other_freeze, &other));
    TESS_CHECK(
        !other || tess_excludes(&s->t->without, "optimizer"), TESS_E_INVALID,
        "training.freeze: the checkpoint of step %lld was made with another: give the same, or begin all moments "
        "anew with checkpoint.exclude_from_loading=optimizer",
        (long long)step);
    return TESS_OK;
}

static tess_status load(const step_search *s, int64_t step, json_t **meta)
{
    tess_trainer *t = s->t;
    TESS_AUTO(tess_mem_drop) tess_ckpt_tensor *tensors = NULL;
    int n;
    TESS_TRY(choose_exclusions(s, step));
    TESS_TRY(check_freeze(s, step));
    TESS_TRY(tess_trainer_list_tensors(t, &tensors, &n));
    const tess_ckpt_load_options options = {tess_stream_threads(t->engine->stream), t->hosts, t->without.n == 0,
                                            t->config.checkpoint.host_local};
    TESS_TRY(tess_exclude_tensors(&t->without, tensors, &n));
    return tess_ckpt_load(t->mem, t->team, s->folder, step, tensors, n, &options, meta);
}

/* Called when loading step *step found damage. Sets *step to the previous checkpoint, or fails with an error that
 * names it. */
static tess_status fall_back(step_search *s, tess_status status, int64_t *step)
{
    char message[MESSAGE_SIZE];
    int64_t previous;
    snprintf(message, sizeof(message), "%s", tess_error_message());
    tess_status found = *step > 0 ? find_newest(s, *step - 1, &previous) : TESS_E_NOT_FOUND;
    if (found != TESS_OK && found != TESS_E_NOT_FOUND)
        return found;
    TESS_CHECK(found == TESS_OK, status, "%s; there is no older checkpoint that is whole", message);
    if (s->t->config.checkpoint.on_damage != TESS_DAMAGE_PREVIOUS)
        return fail_damaged(status, message, previous);
    tess_trainer_warn(s->t, "%s", message);
    tess_trainer_warn(s->t, "step %lld is lost: the run goes on from step %lld", (long long)*step, (long long)previous);
    *step = previous;
    return TESS_OK;
}

static tess_status load_or_fall_back(step_search *s, int64_t *step)
{
    json_t *meta = NULL;
    tess_status status = load(s, *step, &meta);
    /* An I/O error of the machine is not damage: the start fails, and no checkpoint is given up. */
    while (status == TESS_E_FORMAT || status == TESS_E_NOT_FOUND) {
        TESS_TRY(fall_back(s, status, step));
        status = load(s, *step, &meta);
    }
    if (status == TESS_E_IO) {
        char message[MESSAGE_SIZE];
        snprintf(message, sizeof(message), "%s", tess_error_message());
        return TESS_FAIL(
            status,
            "%s; that is no damage of which is known, and the run does not go back for it: mend it (open files: "
            "ulimit -n; rights; the disk) and start again; what can no longer be read, move away from %s",
            message, s->folder);
    }
    TESS_TRY(status);
    /* A failure from here on is not damage of the checkpoint (for example, a rank cannot read its text). It ends all
     * ranks. */
    s->n_ranks = json_integer_value(json_object_get(meta, "world_size"));
    status = tess_trainer_restore_state(s->t, meta);
    json_decref(meta);
    if (status == TESS_OK && s->t->engine->step != *step)
        status = TESS_FAIL(TESS_E_FORMAT,
                           "the checkpoint of step %lld says that it is of step %lld: its description was edited",
                           (long long)*step, (long long)s->t->engine->step);
    return tess_team_agree(s->t->team, status);
}

/* Renames checkpoints newer than `step`: their steps will run again, with another result. */
static tess_status set_newer_aside(const step_search *s, int64_t step)
{
    int n = 0;
    tess_status status = TESS_OK;
    if (tess_trainer_manages_folder(s->t) && tess_os_is_dir(s->folder))
        status = tess_ckpt_set_aside(s->folder, step, &n);
    if (n > 0)
        tess_trainer_note(s->t, "%d newer checkpoint%s of %s %s set aside as 'step-*.aside': delete what is not wanted",
                          n, n == 1 ? "" : "s", s->folder, n == 1 ? "was" : "were");
    return tess_team_agree(s->t->team, status);
}

static tess_status resume(step_search *s, bool *resumed)
{
    int64_t step;
    char by[48] = "";
    tess_status status = choose(s, &step);
    *resumed = status != TESS_E_NOT_FOUND;
    if (status == TESS_E_NOT_FOUND) {
        tess_error_clear();
        return TESS_OK;
    }
    TESS_TRY(status);
    TESS_TRY(load_or_fall_back(s, &step));
    TESS_TRY(set_newer_aside(s, step));
    TESS_TRY(tess_engine_weights_changed(s->t->engine));
    if (s->n_ranks > 0)
        snprintf(by, sizeof(by), ", saved by %lld rank%s", (long long)s->n_ranks, s->n_ranks == 1 ? "" : "s");
    tess_trainer_note(s->t, "resumed from step %lld of %s%s%s", (long long)step, s->folder, by, s->t->not_taken);
    return TESS_OK;
}

tess_status tess_trainer_newest_checkpoint(tess_trainer *t, int64_t *step)
{
    step_search s = {.t = t};
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, s.folder, sizeof(s.folder)));
    return find_newest_or_none(&s, step);
}

tess_status tess_trainer_read_back(tess_trainer *t, int64_t step)
{
    char folder[TESS_CKPT_PATH];
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, folder, sizeof(folder)));
    tess_status status = t->rank == 0 ? tess_ckpt_verify_step(t->mem, folder, step) : TESS_OK;
    tess_team_set_timeout(t->team, TESS_READING_S);
    status = tess_team_agree(t->team, status);
    tess_team_set_timeout(t->team, 0);
    return status;
}

/* Starts without resuming. Existing checkpoints are set aside, because the next start would resume from them. */
static tess_status start_anew(step_search *s)
{
    tess_trainer *t = s->t;
    if (t->config.checkpoint.initial_load_path[0] != '\0')
        TESS_TRY_CTX(tess_trainer_warm_start(t), "checkpoint.initial_load_path");
    else if (!t->config.checkpoint.enable)
        tess_trainer_note(t, "starting at step 0: checkpoint.enable=false%s", t->not_taken);
    else if (!t->config.checkpoint.resume)
        tess_trainer_note(t, "starting at step 0: checkpoint.resume=false%s", t->not_taken);
    else
        tess_trainer_note(t, "starting at step 0: no checkpoint in %s%s", s->folder, t->not_taken);
    return t->config.checkpoint.enable ? set_newer_aside(s, -1) : TESS_OK;
}

tess_status tess_trainer_resume(tess_trainer *t)
{
    step_search s = {.t = t};
    bool resumed = false;
    TESS_TRY(tess_trainer_path(t, t->config.checkpoint.folder, s.folder, sizeof(s.folder)));
    if (t->config.checkpoint.enable && t->config.checkpoint.resume)
        TESS_TRY_CTX(resume(&s, &resumed), "resume from %s", s.folder);
    return resumed ? TESS_OK : start_anew(&s);
}
