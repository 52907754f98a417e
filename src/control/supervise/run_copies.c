#include "control/supervise/run_copies.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "ckpt/store/copy_apart.h"
#include "ckpt/store/store.h"
#include "control/health/alert.h"
#include "control/helper.h"
#include "control/supervise/folder_lock.h"
#include "control/supervise/run_health.h"

static const double look_s = 0.5;   /* seconds between two looks for a new checkpoint */
static const double longest_s = 60; /* longest pause after a failure */
static const double end_s = 5;      /* seconds to end in, in addition to checkpoint.copy_wait_s */

/* The places of a configuration. They point into it and into this struct, which must not be moved. */
typedef struct run_places {
    char dir[2 * TESS_TEXT_SIZE]; /* the run's own folder of checkpoints */
    char *command[TESS_LIST_SIZE];
    int n;
    tess_ckpt_place place[TESS_LIST_SIZE + 1];
} run_places;

static tess_status list_places(const tess_config *config, run_places *places)
{
    const tess_checkpoint_section *c = &config->checkpoint;
    *places = (run_places){.n = 0};
    TESS_TRY(tess_os_join(places->dir, sizeof(places->dir), config->job.dump_folder, c->folder));
    for (int i = 0; i < c->copies.n; i++)
        places->place[places->n++] = (tess_ckpt_place){.folder = c->copies.item[i], .wait_s = c->copy_wait_s};
    for (int i = 0; i < c->copy_command.n; i++)
        places->command[i] = (char *)c->copy_command.item[i];
    if (c->copy_command.n > 0)
        places->place[places->n++] = (tess_ckpt_place){.command = places->command,
                                                       .n_words = c->copy_command.n,
                                                       .wait_s = c->copy_wait_s,
                                                       .trusts_command = !c->copy_check};
    return TESS_OK;
}

static bool has_places(const tess_config *config)
{
    return config->checkpoint.enable && (config->checkpoint.copies.n > 0 || config->checkpoint.copy_command.n > 0);
}

tess_status tess_run_copies_check(const tess_config *config)
{
    run_places places;
    if (!has_places(config))
        return TESS_OK;
    TESS_CHECK(
        !config->checkpoint.host_local, TESS_E_INVALID,
        "checkpoint.host_local=true: each host has a part of a checkpoint, and copies are made of whole ones: set "
        "checkpoint.copies and checkpoint.copy_command to nothing, or let all hosts share job.dump_folder");
    TESS_TRY(list_places(config, &places));
    const tess_text_list *copies = &config->checkpoint.copies;
    for (int i = 0; i < copies->n; i++) {
        TESS_CHECK(!tess_os_same_file(places.dir, copies->item[i]), TESS_E_INVALID,
                   "checkpoint.copies: '%s' is the folder of the checkpoints themselves", places.dir);
        for (int j = 0; j < i; j++)
            TESS_CHECK(strcmp(copies->item[i], copies->item[j]) != 0 &&
                           !tess_os_same_file(copies->item[i], copies->item[j]),
                       TESS_E_INVALID, "checkpoint.copies: '%s' is named twice", copies->item[i]);
    }
    return TESS_OK;
}

/* ---- The start ---- */
static void note(void *self, const char *text)
{
    tess_report_line(self, "%s", text);
}

static void set_aside_all(const run_places *places, const tess_reporter *reporter)
{
    for (int i = 0; i < places->n; i++) {
        int n = 0;
        const char *name = tess_ckpt_place_name(&places->place[i]);
        if (tess_ckpt_place_set_aside(&places->place[i], NULL, -1, &n) != TESS_OK)
            tess_report_line(reporter,
                             "warning: copies of checkpoints: those in %s could not be set aside, although "
                             "checkpoint.resume=false: %s",
                             name, tess_error_message());
        else if (n > 0)
            tess_report_line(reporter, "%d cop%s in %s %s set aside as 'step-*.aside': checkpoint.resume=false", n,
                             n == 1 ? "y" : "ies", name, n == 1 ? "was" : "were");
        tess_error_clear();
    }
}

/* Whether a job may use the place, in a child process: a server that hangs must not hold the job. */
static tess_status try_lock(void *self, TESS_UNUSED copy_apart *apart, TESS_UNUSED void *out)
{
    const tess_ckpt_place *place = self;
    TESS_AUTO(tess_os_close) int fd = -1;
    return tess_folder_lock_place(place->folder, &fd);
}

static tess_status check_free(const tess_ckpt_place *place)
{
    tess_ckpt_place copy = *place;
    return place->folder != NULL ? copy_run_apart(try_lock, &copy, place->wait_s, NULL, 0) : TESS_OK;
}

/* Refuses to start while another job uses one of the places. Its copies would be taken for ours. */
static tess_status check_places_are_free(const run_places *places)
{
    for (int i = 0; i < places->n; i++) {
        tess_status status = check_free(&places->place[i]);
        if (status == TESS_E_INVALID)
            return status;
        tess_error_clear(); /* a place that cannot be reached is passed over later, with a note */
    }
    return TESS_OK;
}

tess_status tess_run_copies_bring(const tess_config *config, const tess_reporter *reporter, bool *brought)
{
    run_places places;
    int64_t newest = -1, wanted = -1;
    *brought = false;
    if (!has_places(config))
        return TESS_OK;
    TESS_TRY(list_places(config, &places));
    TESS_TRY(check_places_are_free(&places));
    if (!config->checkpoint.resume) {
        set_aside_all(&places, reporter);
        return TESS_OK;
    }
    const tess_ckpt_bringer bringer = {.dir = places.dir,
                                       .places = places.place,
                                       .n_places = places.n,
                                       .wait_s = config->checkpoint.copy_wait_s,
                                       .self = (void *)(uintptr_t)reporter,
                                       .note = note};
    TESS_TRY(tess_ckpt_bring(&bringer, -1, &newest));
    if (config->checkpoint.load_step >= 0)
        TESS_TRY(tess_ckpt_bring(&bringer, config->checkpoint.load_step, &wanted));
    *brought = newest >= 0 || wanted >= 0;
    return TESS_OK;
}

/* ---- The process of a place ---- */
typedef struct copier {
    const tess_config *config;
    const tess_reporter *reporter;
    const run_places *places;
    const tess_ckpt_place *place;
    char scratch[32];
    int lock;        /* the lock of the place's folder; -1: none */
    uint64_t done;   /* number that identifies the newest checkpoint that was copied; 0: none */
    bool failing;    /* the last attempt failed */
    double pause_s;  /* pause after the next failure */
    double again_s;  /* no attempt before this time */
    double finish_s; /* the job has ended, and so does this process then; infinite: the job runs */
} copier;

static void send_alert(const copier *c, const char *state, const char *text)
{
    tess_run_alerts alerts;
    const tess_alert alert = {"copies", state, text, NULL};
    if (tess_run_alerts_open(c->config, &alerts) == TESS_OK)
        tess_alert_send(&alerts.channel, &alert);
    tess_error_clear();
}

static void on_failure(copier *c, const char *text)
{
    c->again_s = tess_os_now_s() + c->pause_s;
    if (!c->failing) {
        tess_report_line(c->reporter, "copies of checkpoints: %s; it is tried again", text);
        send_alert(c, "failing", text);
    }
    c->failing = true;
    c->pause_s = fmin(2 * c->pause_s, longest_s);
}

static void on_success(copier *c, int64_t step, double seconds)
{
    char text[1024];
    snprintf(text, sizeof(text), "step %lld was copied to %s in %.2f s%s", (long long)step,
             tess_ckpt_place_name(c->place), seconds, c->place->trusts_command ? "" : " and read back");
    tess_report_line(c->reporter, "copies of checkpoints: %s", text);
    if (c->failing)
        send_alert(c, "working", text);
    c->failing = false;
    c->pause_s = 1;
}

/* Returns a number that changes when the checkpoint of the step is replaced; 0: it is gone. */
static uint64_t identify(const char *dir, int64_t step)
{
    char path[TESS_CKPT_PATH];
    uint64_t id = tess_ckpt_find(NULL, dir, step, path) == TESS_OK ? tess_os_folder_id(path) : 0;
    tess_error_clear();
    return id != 0 ? id ^ (uint64_t)step << 32 : 0;
}

/* Locks the place, sets aside what the run has set aside, copies, and removes what is older than the copies to keep. */
static tess_status copy(copier *c, int64_t step)
{
    int n;
    if (c->place->folder != NULL && c->lock < 0) {
        TESS_TRY(check_free(c->place));
        TESS_TRY(tess_folder_lock_place(c->place->folder, &c->lock));
    }
    TESS_TRY(tess_ckpt_place_set_aside(c->place, c->places->dir, -1, &n));
    TESS_TRY(tess_ckpt_place_put(c->place, c->places->dir, c->scratch, step));
    return tess_ckpt_place_prune(c->place, (int)c->config->checkpoint.keep_latest_k, step);
}

/* Copies the newest checkpoint, if it is a new one. Returns whether there is nothing left to copy. */
static bool look(copier *c)
{
    int64_t step;
    double begin_s = tess_os_now_s();
    tess_status status = tess_ckpt_latest(c->places->dir, NULL, &step);
    uint64_t id = status == TESS_OK ? identify(c->places->dir, step) : 0;
    tess_error_clear();
    if (id == 0 || id == c->done)
        return true;
    if (begin_s < c->again_s)
        return false;
    status = copy(c, step);
    if (status != TESS_OK) {
        char why[2048];
        snprintf(why, sizeof(why), "%s", tess_error_message());
        if (identify(c->places->dir, step) == id) /* else it was pruned meanwhile: the next look finds a newer one */
            on_failure(c, why);
        tess_error_clear();
        return false;
    }
    c->done = id;
    on_success(c, step, tess_os_now_s() - begin_s);
    return true;
}

/* Waits for the next look. The parent may ask this process to finish. */
static void wait_for_look(copier *c, const tess_helper *helper)
{
    bool ends;
    tess_helper_wait(helper, look_s, &ends);
    if (!ends || isfinite(c->finish_s))
        return;
    c->finish_s = tess_os_now_s() + c->config->checkpoint.copy_wait_s;
    c->again_s = 0;
    c->pause_s = 1;
}

_Noreturn static void keep_copying(copier *c, const tess_helper *helper)
{
    bool finished = false;
    close_range(STDERR_FILENO + 1, ~0U, 0);
    while (!finished && tess_os_now_s() < c->finish_s) {
        wait_for_look(c, helper);
        finished = look(c) && isfinite(c->finish_s);
    }
    if (!finished)
        tess_report_line(c->reporter, "warning: copies of checkpoints: %s does not have the newest one",
                         tess_ckpt_place_name(c->place));
    _exit(0);
}

void tess_run_copies_start(const tess_config *config, const tess_reporter *reporter, tess_run_copies *copies)
{
    run_places places;
    tess_helper helper;
    *copies = (tess_run_copies){.patience_s = 2 * config->checkpoint.copy_wait_s + end_s};
    if (!has_places(config) || list_places(config, &places) != TESS_OK)
        return;
    for (int i = 0; i < places.n; i++) {
        copier c = {.config = config,
                    .reporter = reporter,
                    .places = &places,
                    .place = &places.place[i],
                    .lock = -1,
                    .pause_s = 1,
                    .finish_s = INFINITY};
        snprintf(c.scratch, sizeof(c.scratch), "copying-%d", i);
        pid_t pid = tess_helper_fork("tessera-copies", &helper);
        if (pid == 0)
            keep_copying(&c, &helper);
        if (pid < 0)
            tess_report_line(reporter, "warning: copies of checkpoints: cannot start a process: %s gets no copies",
                             tess_ckpt_place_name(c.place));
        copies->pids[copies->n++] = pid > 0 ? pid : 0;
    }
}

void tess_run_copies_kill(tess_run_copies *copies)
{
    for (int i = 0; i < copies->n; i++)
        if (copies->pids[i] > 0 && kill(copies->pids[i], SIGKILL) == 0)
            waitpid(copies->pids[i], NULL, 0);
    copies->n = 0;
}

void tess_run_copies_stop(tess_run_copies *copies)
{
    tess_helpers_end(copies->pids, copies->n, copies->patience_s);
    copies->n = 0;
}
