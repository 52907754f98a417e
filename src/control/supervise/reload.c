#include "control/supervise/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"

enum { VALUE_BYTES = 64 << 10, SHOWN = 80, LIST_BYTES = 1024 };

static const double look_s = 1; /* seconds between two looks */

int tess_reload_compare(const tess_config *a, const tess_config *b, bool decides, char *text, size_t size)
{
    int n_tables, n = 0;
    size_t at = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    char *was = malloc(2 * VALUE_BYTES), *is = was + VALUE_BYTES;
    text[0] = '\0';
    if (was == NULL)
        return decides ? 1 : 0; /* nothing can be compared, so nothing is taken over */
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            if ((row->effect != TESS_EFFECT_NOTHING) != decides)
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
    if (tess_reload_compare(r->read, &now, true, text, sizeof(text)) > 0) {
        tess_report_line(&r->reporter,
                         "job.reload: nothing is changed: %s decide%s more than how the job is looked after: stop and "
                         "start it",
                         text, strchr(text, ',') != NULL ? "" : "s");
        tess_config_free(&now);
        return false;
    }
    bool any = tess_reload_compare(r->read, &now, false, text, sizeof(text)) > 0;
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
    *r = (tess_reload){.path = NULL};
}
