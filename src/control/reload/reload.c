#include "control/reload/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "control/reload/kept_text.h"
#include "control/reload/reload_keys.h"
#include "control/supervise/run_copies.h"

enum { LIST_BYTES = 1024 };

static const double look_s = 1; /* seconds between two looks */

/* Remembers size and time of the file. Returns whether they have changed. */
static bool take_stamp(tess_reload *r)
{
    uint64_t bytes = 0;
    double changed_s = tess_os_changed_s(r->source.path);
    if (tess_os_file_size(r->source.path, &bytes) != TESS_OK)
        tess_error_clear();
    bool changed = changed_s != r->changed_s || bytes != r->bytes;
    r->changed_s = changed_s;
    r->bytes = bytes;
    return changed;
}

void tess_reload_begin(tess_reload *r, const tess_config_source *source, tess_config_text *read, tess_config *config,
                       const tess_reporter *reporter)
{
    *r = (tess_reload){.source = *source,
                       .config = config,
                       .read = read,
                       .step = -1,
                       .changed_s = -1, /* the first look reads the file, which may have changed since it was read */
                       .reporter = *reporter};
    if (!config->job.reload)
        r->source.path = NULL;
}

/* Gives a configuration the batch that the launcher has set. */
static void keep_batch(const tess_config *from, tess_config *to)
{
    to->training.global_batch_size = from->training.global_batch_size;
    if (tess_config_batch_is_open(to))
        to->training.local_batch_size = from->training.local_batch_size;
}

/* Checks a configuration as the launcher checks one at the start of a job. */
static tess_status check(const tess_reload *r, const tess_config *now)
{
    TESS_AUTO(tess_config_free) tess_config trial = {0};
    TESS_TRY(tess_config_copy(now, &trial));
    keep_batch(r->config, &trial);
    tess_config_assume_batch(&trial); /* before ranks start, nothing has chosen it */
    TESS_TRY(tess_config_check(&trial, r->n_ranks));
    if (r->check != NULL)
        TESS_TRY(r->check(&trial));
    return tess_run_copies_check(&trial);
}

/* Takes over a configuration and its text, or changes nothing. Values that the launcher has set stay. Returns the text
 * that was in force in *before; the caller frees it. */
static tess_status take(tess_reload *r, tess_config_text *now, tess_config_text **before)
{
    TESS_AUTO(tess_config_free) tess_config next = {0};
    TESS_CHECK(r->n_old < TESS_RELOADS, TESS_E_UNSUPPORTED,
               "there is no room for more than %d changes: stop and start the job", TESS_RELOADS);
    TESS_TRY(tess_config_copy(&now->config, &next));
    keep_batch(r->config, &next);
    next.recovery.hot = r->config->recovery.hot;
    tess_config *old = malloc(sizeof(*old));
    TESS_CHECK(old != NULL, TESS_E_NOMEM, "no memory for another configuration");
    tess_status status = tess_config_text_share_again(now);
    if (status != TESS_OK) {
        free(old);
        return status;
    }
    *old = *r->config;
    r->old[r->n_old++] = old;
    *r->config = next;
    next = (tess_config){0};
    *before = r->read;
    r->read = now;
    return TESS_OK;
}

static void report_refusal(const tess_reload *r)
{
    tess_report_line(&r->reporter, "job.reload: nothing is changed: %s", tess_error_message());
    tess_error_clear();
}

/* ---- A change at a step ---- */
static void forget_due(tess_reload *r)
{
    tess_config_text_free(&r->due);
    r->due_step = 0;
    tess_kept_text_remove(r->config);
}

/* Checks a configuration that is to count after the step that it states. */
static tess_status check_due(const tess_reload *r, const tess_config *now)
{
    char text[LIST_BYTES];
    const long long at = (long long)now->job.reload_step;
    const long long last =
        (long long)(now->training.steps < r->config->training.steps ? now->training.steps : r->config->training.steps);
    TESS_CHECK(r->step < now->job.reload_step, TESS_E_INVALID,
               "job.reload_step: step %lld has passed: the ranks are in step %lld", at, (long long)r->step);
    TESS_CHECK(at < last, TESS_E_INVALID,
               "job.reload_step: the run ends with step %lld, and step %lld is not before that", last, at);
    TESS_CHECK(now->checkpoint.enable && r->config->checkpoint.enable, TESS_E_INVALID,
               "job.reload_step: the ranks go on from a checkpoint: set checkpoint.enable=true");
    TESS_CHECK(tess_reload_compare(&r->read->config, now, TESS_RELOAD_FIXED, text, sizeof(text)) == 0, TESS_E_INVALID,
               "%s cannot change while the run goes on: stop and start it", text);
    TESS_TRY(tess_reload_check_files(now));
    TESS_TRY(check(r, now));
    return tess_kept_text_write(r->read);
}

/* Takes note of a configuration that counts after a step. */
static void plan_change(tess_reload *r, tess_config_text **now)
{
    char text[LIST_BYTES];
    if (check_due(r, &(*now)->config) != TESS_OK) {
        report_refusal(r);
        forget_due(r);
        return;
    }
    tess_config_text_free(&r->due);
    r->due = *now;
    r->due_step = r->due->config.job.reload_step;
    *now = NULL;
    tess_reload_compare(&r->read->config, &r->due->config, TESS_RELOAD_ALL, text, sizeof(text));
    tess_report_line(&r->reporter, "job.reload: after step %lld: %s", (long long)r->due_step, text);
}

int64_t tess_reload_due(tess_reload *r, int64_t step)
{
    r->step = step;
    if (step > r->taken_step)
        tess_config_text_free(&r->past);
    if (r->due == NULL || step <= r->due_step)
        return r->due_step;
    tess_report_line(&r->reporter,
                     "job.reload: nothing is changed: job.reload_step: step %lld has passed: the ranks are "
                     "in step %lld",
                     (long long)r->due_step, (long long)step);
    forget_due(r);
    return 0;
}

tess_status tess_reload_change(tess_reload *r)
{
    TESS_CHECK(r->due != NULL, TESS_E_NOT_FOUND, "no change is planned");
    const int64_t step = r->due_step;
    tess_config_text_free(&r->past);
    tess_status status = take(r, r->due, &r->past);
    if (status == TESS_OK) {
        r->due = NULL; /* it is in force */
        r->taken_step = step;
    }
    forget_due(r);
    return status;
}

tess_status tess_reload_undo(tess_reload *r)
{
    TESS_CHECK(r->past != NULL, TESS_E_NOT_FOUND, "there is no configuration to go back to");
    TESS_TRY(tess_config_text_share_again(r->past));
    tess_config refused = *r->config;
    *r->config = *r->old[r->n_old - 1];
    *r->old[r->n_old - 1] = refused;
    tess_config_text_free(&r->read);
    r->read = r->past;
    r->past = NULL;
    return TESS_OK;
}

/* ---- A change at once ---- */
/* Reports keys that cannot change at once. */
static void refuse_keys(const tess_reload *r, const char *keys, int64_t stated)
{
    const char *decide = strchr(keys, ',') != NULL ? "decide" : "decides";
    if (stated > 0)
        tess_report_line(&r->reporter,
                         "job.reload: nothing is changed: %s %s more than how the job is looked after, and "
                         "job.reload_step=%lld does not count again, as the values in force have the same: state a "
                         "later step, or stop and start it",
                         keys, decide, (long long)stated);
    else
        tess_report_line(&r->reporter,
                         "job.reload: nothing is changed: %s %s more than how the job is looked after: state a step "
                         "(job.reload_step), or stop and start it",
                         keys, decide);
}

/* Takes over what may change at once. *now becomes NULL if it was taken. Returns whether it was. */
static bool change_at_once(tess_reload *r, tess_config_text **now)
{
    char text[LIST_BYTES];
    tess_config_text *before = NULL;
    const tess_config *next = &(*now)->config;
    if (tess_reload_compare(&r->read->config, next, TESS_RELOAD_DECIDE, text, sizeof(text)) > 0) {
        refuse_keys(r, text, next->job.reload_step);
        return false;
    }
    if (tess_reload_compare(&r->read->config, next, TESS_RELOAD_FREE, text, sizeof(text)) == 0)
        return false;
    if (check(r, next) != TESS_OK || take(r, *now, &before) != TESS_OK) {
        report_refusal(r);
        return false;
    }
    *now = NULL;
    tess_config_text_free(&before);
    tess_report_line(&r->reporter,
                     "job.reload: %s; health, recovery and copies at once, others when ranks or the job start again",
                     text);
    return true;
}

bool tess_reload_look(tess_reload *r)
{
    double now_s = tess_os_now_s();
    /* a change at a step is settled first: the ranks may refuse it */
    if (r->source.path == NULL || r->past != NULL || now_s - r->looked_s < look_s)
        return false;
    r->looked_s = now_s;
    if (!take_stamp(r))
        return false;
    tess_config_text *now;
    if (tess_config_text_read(&r->source, r->source.path, &now) != TESS_OK) {
        report_refusal(r);
        return false;
    }
    bool changed = false;
    const int64_t step = now->config.job.reload_step;
    if (step > 0 && step != r->read->config.job.reload_step) {
        plan_change(r, &now);
    } else {
        if (r->due != NULL)
            tess_report_line(&r->reporter, "job.reload: the change after step %lld is called off",
                             (long long)r->due_step);
        forget_due(r);
        changed = change_at_once(r, &now);
    }
    tess_config_text_free(&now);
    return changed;
}

void tess_reload_end(tess_reload *r)
{
    for (int i = 0; i < r->n_old; i++) {
        tess_config_free(r->old[i]);
        free(r->old[i]);
    }
    tess_config_text_free(&r->read);
    tess_config_text_free(&r->due);
    tess_config_text_free(&r->past);
    *r = (tess_reload){.step = -1};
}
