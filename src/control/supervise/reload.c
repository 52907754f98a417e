#include "control/supervise/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"

enum { VALUE_BYTES = 64 << 10, SHOWN = 80, LIST_BYTES = 1024, FILE_BYTES = 1 << 20 };

static const double look_s = 1; /* seconds between two looks */

/* Sections whose keys may change at a step, unless they decide the layout of the state. */
static const char *const changeable[] = {"training", "optimizer", "lr_scheduler", "validation",
                                         "metrics",  "numbers",   "sample"};

static bool is_fixed(const tess_option *row, const char *section)
{
    bool may = row->effect == TESS_EFFECT_NOTHING;
    for (size_t i = 0; i < sizeof(changeable) / sizeof(changeable[0]); i++)
        may = may || ((row->effect & TESS_EFFECT_LAYOUT) == 0 && strcmp(section, changeable[i]) == 0);
    return !may;
}

static bool belongs(const tess_option *row, const char *section, tess_reload_keys keys)
{
    switch (keys) {
    case TESS_RELOAD_FREE:
        return row->effect == TESS_EFFECT_NOTHING;
    case TESS_RELOAD_DECIDE:
        return row->effect != TESS_EFFECT_NOTHING;
    case TESS_RELOAD_FIXED:
        return is_fixed(row, section);
    case TESS_RELOAD_ALL:
        break;
    }
    return true;
}

int tess_reload_compare(const tess_config *a, const tess_config *b, tess_reload_keys keys, char *text, size_t size)
{
    int n_tables, n = 0;
    size_t at = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    char *was = malloc(2 * VALUE_BYTES), *is = was + VALUE_BYTES;
    text[0] = '\0';
    if (was == NULL)
        return keys == TESS_RELOAD_FREE ? 0 : 1; /* nothing can be compared, so nothing is taken over */
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            if (!belongs(row, tables[t].section->name, keys))
                continue;
            if (tess_options_format(row, tess_options_section(&tables[t], a), was, VALUE_BYTES) != TESS_OK ||
                tess_options_format(row, tess_options_section(&tables[t], b), is, VALUE_BYTES) != TESS_OK) {
                tess_error_clear();
                at = tess_text_add(text, size, at, "%s%s (too long to compare)", n++ > 0 ? ", " : "", row->key);
                continue;
            }
            if (strcmp(was, is) != 0)
                at = tess_text_add(text, size, at, "%s%s (%.*s -> %.*s)", n++ > 0 ? ", " : "", row->key, SHOWN, was,
                                   SHOWN, is);
        }
    free(was);
    return n;
}

static tess_status read_file(const tess_reload *r, tess_config *config)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    return tess_config_load_over(mem, r->defaults, r->path, r->overrides, r->n_overrides, config);
}

/* Remembers size and time of the file. Returns whether they have changed. */
static bool take_stamp(tess_reload *r)
{
    uint64_t bytes = 0;
    double changed_s = tess_os_changed_s(r->path);
    if (tess_os_file_size(r->path, &bytes) != TESS_OK)
        tess_error_clear();
    bool changed = changed_s != r->changed_s || bytes != r->bytes;
    r->changed_s = changed_s;
    r->bytes = bytes;
    return changed;
}

void tess_reload_begin(tess_reload *r, const char *path, const char *const *defaults, char *const *overrides,
                       int n_overrides, tess_config *config, const tess_reporter *reporter)
{
    *r = (tess_reload){.defaults = defaults,
                       .overrides = overrides,
                       .n_overrides = n_overrides,
                       .config = config,
                       .step = -1,
                       .reporter = *reporter};
    if (!config->job.reload || path == NULL)
        return;
    r->path = path;
    take_stamp(r);
    r->read = calloc(1, sizeof(*r->read));
    if (r->read != NULL && read_file(r, r->read) == TESS_OK)
        return;
    tess_report_line(reporter, "job.reload: the configuration cannot be read again, and is not looked at: %s",
                     r->read != NULL ? tess_error_message() : "no memory");
    tess_error_clear();
    r->path = NULL;
}

/* Takes over a configuration whose other keys are the same. Values that the launcher has set stay. */
static bool take(tess_reload *r, tess_config *now)
{
    tess_config *old = malloc(sizeof(*old)), next;
    if (old == NULL || r->n_old == TESS_RELOADS || tess_config_copy(now, &next) != TESS_OK) {
        free(old);
        tess_report_line(&r->reporter, "job.reload: no room for another change: stop and start the job");
        tess_error_clear();
        return false;
    }
    next.training.global_batch_size = r->config->training.global_batch_size;
    next.recovery.hot = r->config->recovery.hot;
    *old = *r->config;
    r->old[r->n_old++] = old;
    *r->config = next;
    tess_config_free(r->read);
    *r->read = *now;
    return true;
}

/* ---- A change at a step ---- */
static void forget_due(tess_reload *r)
{
    if (r->due != NULL)
        tess_config_free(r->due);
    free(r->due);
    free(r->due_text);
    r->due = NULL;
    r->due_text = NULL;
    r->due_step = 0;
}

static tess_status check_ranks(const tess_reload *r, const tess_config *now)
{
    TESS_AUTO(tess_config_free) tess_config trial = {0};
    TESS_TRY(tess_config_copy(now, &trial));
    trial.training.global_batch_size = r->config->training.global_batch_size;
    return tess_config_check(&trial, r->n_ranks);
}

/* Checks a configuration that is to count after the step that it states. */
static tess_status check_due(const tess_reload *r, const tess_config *now)
{
    char text[LIST_BYTES];
    const long long at = (long long)now->job.reload_step;
    TESS_CHECK(r->step < now->job.reload_step, TESS_E_INVALID,
               "job.reload_step: step %lld has passed: the ranks are in "
               "step %lld",
               at, (long long)r->step);
    TESS_CHECK(now->job.reload_step < now->training.steps, TESS_E_INVALID,
               "job.reload_step: the run ends with step %lld, and step %lld is not before that",
               (long long)now->training.steps, at);
    TESS_CHECK(now->checkpoint.enable && r->config->checkpoint.enable, TESS_E_INVALID,
               "job.reload_step: the ranks go on from a checkpoint: set checkpoint.enable=true");
    TESS_CHECK(tess_reload_compare(r->read, now, TESS_RELOAD_FIXED, text, sizeof(text)) == 0, TESS_E_INVALID,
               "%s cannot change while the run goes on: stop and start it", text);
    return check_ranks(r, now);
}

static tess_status plan(tess_reload *r, tess_config *now)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    char *text;
    size_t bytes;
    TESS_TRY(check_due(r, now));
    TESS_TRY(tess_mem_create(&mem));
    TESS_TRY(tess_os_read(mem, r->path, FILE_BYTES, &text, &bytes));
    r->due = malloc(sizeof(*r->due));
    r->due_text = malloc(bytes + 1);
    if (r->due == NULL || r->due_text == NULL) {
        free(r->due);
        r->due = NULL;
        return TESS_FAIL(TESS_E_NOMEM, "no memory for another configuration");
    }
    memcpy(r->due_text, text, bytes);
    tess_mem_free(mem, text);
    *r->due = *now;
    r->due_bytes = bytes;
    r->due_step = now->job.reload_step;
    return TESS_OK;
}

/* Takes note of a configuration that counts after a step. Frees it if it is refused. */
static void plan_change(tess_reload *r, tess_config *now)
{
    char text[LIST_BYTES];
    forget_due(r);
    if (plan(r, now) != TESS_OK) {
        tess_report_line(&r->reporter, "job.reload: nothing is changed: %s", tess_error_message());
        tess_error_clear();
        forget_due(r);
        tess_config_free(now);
        return;
    }
    tess_reload_compare(r->read, r->due, TESS_RELOAD_ALL, text, sizeof(text));
    tess_report_line(&r->reporter, "job.reload: after step %lld: %s", (long long)r->due_step, text);
}

int64_t tess_reload_due(tess_reload *r, int64_t step)
{
    r->step = step;
    if (r->due == NULL || step <= r->due_step)
        return r->due_step;
    tess_report_line(&r->reporter,
                     "job.reload: nothing is changed: job.reload_step: step %lld has passed: the ranks are "
                     "in step %lld",
                     (long long)r->due_step, (long long)step);
    forget_due(r);
    return 0;
}

bool tess_reload_change(tess_reload *r, const char **text, size_t *bytes)
{
    bool taken = r->due != NULL && take(r, r->due);
    *text = r->due_text;
    *bytes = r->due_bytes;
    if (taken) {
        free(r->due); /* `take` has moved what it pointed to */
        r->due = NULL;
        r->due_step = 0;
    } else {
        forget_due(r);
    }
    return taken;
}

bool tess_reload_look(tess_reload *r)
{
    char text[LIST_BYTES];
    tess_config now = {0};
    double now_s = tess_os_now_s();
    if (r->path == NULL || now_s - r->looked_s < look_s)
        return false;
    r->looked_s = now_s;
    if (!take_stamp(r))
        return false;
    if (read_file(r, &now) != TESS_OK) {
        tess_report_line(&r->reporter, "job.reload: nothing is changed: %s", tess_error_message());
        tess_error_clear();
        return false;
    }
    if (now.job.reload_step > 0 && now.job.reload_step != r->read->job.reload_step) {
        plan_change(r, &now);
        return false;
    }
    if (r->due != NULL)
        tess_report_line(&r->reporter, "job.reload: the change after step %lld is called off", (long long)r->due_step);
    forget_due(r);
    if (tess_reload_compare(r->read, &now, TESS_RELOAD_DECIDE, text, sizeof(text)) > 0) {
        tess_report_line(&r->reporter,
                         "job.reload: nothing is changed: %s decide%s more than how the job is looked after: state a "
                         "step (job.reload_step), or stop and start it",
                         text, strchr(text, ',') != NULL ? "" : "s");
        tess_config_free(&now);
        return false;
    }
    bool any = tess_reload_compare(r->read, &now, TESS_RELOAD_FREE, text, sizeof(text)) > 0;
    if (any && take(r, &now)) {
        tess_report_line(
            &r->reporter,
            "job.reload: %s; health, recovery and copies at once, others when ranks or the job start again", text);
        return true;
    }
    tess_config_free(&now);
    return false;
}

void tess_reload_end(tess_reload *r)
{
    for (int i = 0; i < r->n_old; i++) {
        tess_config_free(r->old[i]);
        free(r->old[i]);
    }
    if (r->read != NULL)
        tess_config_free(r->read);
    free(r->read);
    forget_due(r);
    *r = (tess_reload){.path = NULL};
}
