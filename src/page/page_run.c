/* Reads the files of a run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "page/page_impl.h"

enum { MOST_FACTS = 4 << 20, MOST_JOB = 64 << 20, MOST_PIPELINE = 16 << 20 };

static const double torn_s = 10;       /* a file may be half written for this long */
static const double look_every_s = 20; /* pause between two readings of rings and samples */

/* A run and where its lines go, while a file is read. */
typedef struct run_reading {
    tess_mem *mem;
    page_run *run;
    double deadline_s;
    bool changed;
} run_reading;

/* ---- metrics.jsonl ---- */
/* Adds each number below `object` with the keys in front of it: "time_s.total". */
static tess_status add_numbers(page_curves *curves, const char *prefix, json_t *object, int64_t step, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        char name[PAGE_KEY];
        snprintf(name, sizeof(name), "%s%s", prefix, key);
        if (json_is_object(value) && depth < 2) {
            snprintf(name, sizeof(name), "%s%s.", prefix, key);
            TESS_TRY(add_numbers(curves, name, value, step, depth + 1));
        } else if (json_is_number(value)) {
            TESS_TRY(page_curves_add(curves, name, step, json_number_value(value)));
        } else if (json_is_null(value)) { /* a number that JSON cannot express */
            TESS_TRY(page_curves_add(curves, name, step, NAN));
        }
    }
    return TESS_OK;
}

/* Returns the step of a line; false: it is no line of a step. Steps are bounded so that differences are exact. */
static bool step_of(const json_t *line, int64_t *step)
{
    const json_t *value = json_object_get(line, "step");
    *step = json_integer_value(value);
    return json_is_integer(value) && *step >= 0 && *step < INT64_C(1) << 52;
}

static tess_status add_metrics(void *self, const json_t *line)
{
    run_reading *r = self;
    int64_t step;
    if (!step_of(line, &step))
        return TESS_OK;
    r->changed = true;
    json_t *rest = json_copy((json_t *)line);
    TESS_CHECK(rest != NULL, TESS_E_NOMEM, "no memory for a line of metrics.jsonl");
    json_object_del(rest, "step");
    tess_status status = add_numbers(&r->run->curves, "", rest, step, 0);
    json_decref(rest);
    return status;
}

/* The curves of metrics.jsonl and memory.jsonl are one list, so both are read again. */
static void restart_curves(void *self)
{
    run_reading *r = self;
    page_curves_free(&r->run->curves);
    r->run->curves.mem = r->mem;
    r->run->metrics = r->run->memory = (page_lines){0};
    json_decref(r->run->pools);
    r->run->pools = NULL;
    r->changed = true;
}

/* ---- memory.jsonl ---- */
static tess_status add_memory(void *self, const json_t *line)
{
    run_reading *r = self;
    int64_t step;
    json_t *in_use = json_object_get(line, "in_use");
    if (!step_of(line, &step))
        return TESS_OK;
    r->changed = true;
    if (json_is_object(in_use))
        return add_numbers(&r->run->curves, "memory.", in_use, step, 2);
    if (r->run->pools == NULL)
        r->run->pools = json_object();
    json_object_update(r->run->pools, (json_t *)line);
    return TESS_OK;
}

/* ---- alerts.jsonl ---- */
static tess_status add_alert(void *self, const json_t *line)
{
    run_reading *r = self;
    if (r->run->alert_list == NULL)
        r->run->alert_list = json_array();
    json_array_append(r->run->alert_list, (json_t *)line);
    if (json_array_size(r->run->alert_list) > PAGE_ALERTS)
        json_array_remove(r->run->alert_list, 0);
    r->changed = true;
    return TESS_OK;
}

static void restart_alerts(void *self)
{
    run_reading *r = self;
    json_decref(r->run->alert_list);
    r->run->alert_list = NULL;
    r->changed = true;
}

static tess_status read_lines(run_reading *r, const char *name, page_lines *lines,
                              tess_status (*line)(void *, const json_t *), void (*restart)(void *))
{
    char path[PAGE_PATH + 64];
    snprintf(path, sizeof(path), "%s/%s", r->run->folder, name);
    return page_lines_read(lines, path, &(page_lines_reader){r->mem, r->deadline_s, line, restart, r});
}

/* ---- Files that are read whole ---- */
/* Reads a JSON file if it has changed. A file that cannot be read changes nothing. If it was just written, it is read
 * again by the next call: what was read may be half of it. Fails only for want of memory. */
static tess_status read_whole(run_reading *r, const char *name, size_t most, double *read_s, json_t **value)
{
    char path[PAGE_PATH + 128];
    snprintf(path, sizeof(path), "%s/%s", r->run->folder, name);
    const double changed_s = tess_os_changed_s(path);
    if (changed_s == *read_s)
        return TESS_OK;
    json_t *next = NULL;
    tess_status status = changed_s > 0 ? tess_json_load(path, most, &next) : TESS_OK;
    if (status == TESS_E_NOMEM)
        return status;
    tess_error_clear();
    const bool is_torn = status != TESS_OK && (double)tess_os_wall_ns() * 1e-9 - changed_s < torn_s;
    *read_s = is_torn ? -1 : changed_s;
    if (status != TESS_OK)
        return TESS_OK;
    json_decref(*value);
    *value = next;
    r->changed = true;
    return TESS_OK;
}

/* Keeps the last of the names "step-00000100.json". */
static tess_status see_pipeline(void *self, const char *name)
{
    char *newest = self;
    const bool is_step = strncmp(name, "step-", 5) == 0 && tess_text_ends_with(name, ".json") && strlen(name) < 48;
    if (is_step && (strlen(name) > strlen(newest) || (strlen(name) == strlen(newest) && strcmp(name, newest) > 0)))
        snprintf(newest, 48, "%s", name);
    return TESS_OK;
}

static tess_status read_pipeline(run_reading *r)
{
    char folder[PAGE_PATH + 16], newest[48] = "";
    page_run *run = r->run;
    snprintf(folder, sizeof(folder), "%s/pipeline", run->folder);
    if (!tess_os_is_dir(folder))
        return TESS_OK;
    if (tess_os_list(folder, see_pipeline, newest) != TESS_OK)
        tess_error_clear();
    if (newest[0] == '\0')
        return TESS_OK;
    char name[sizeof(run->pipeline_name)];
    snprintf(name, sizeof(name), "pipeline/%s", newest);
    if (strcmp(name, run->pipeline_name) != 0)
        run->read_s[3] = 0;
    memcpy(run->pipeline_name, name, sizeof(name));
    return read_whole(r, name, MOST_PIPELINE, &run->read_s[3], &run->pipeline);
}

static tess_status read_rings(run_reading *r)
{
    char folder[PAGE_PATH + 16];
    snprintf(folder, sizeof(folder), "%s/trace", r->run->folder);
    return page_rings_read(r->mem, folder, &r->run->rings);
}

/* Reads what takes long, at its own pace, if the run has written anything since. */
static tess_status look(run_reading *r, const tess_page_options *options)
{
    page_run *run = r->run;
    run->is_behind = run->is_behind || r->changed;
    if (!run->is_behind || (run->looked_s > 0 && tess_os_now_s() - run->looked_s < look_every_s))
        return TESS_OK;
    TESS_TRY(read_rings(r));
    if (options->samples != NULL) {
        json_decref(run->samples);
        run->samples = options->samples(options->self, r->mem, run->folder);
    }
    run->looked_s = tess_os_now_s();
    run->is_behind = false;
    r->changed = true;
    return TESS_OK;
}

static tess_status read_files(run_reading *r, const tess_page_options *options)
{
    page_run *run = r->run;
    TESS_TRY(read_lines(r, "metrics.jsonl", &run->metrics, add_metrics, restart_curves));
    TESS_TRY(read_lines(r, "memory.jsonl", &run->memory, add_memory, NULL));
    TESS_TRY(read_lines(r, "alerts.jsonl", &run->alerts, add_alert, restart_alerts));
    TESS_TRY(read_whole(r, "run.json", MOST_FACTS, &run->read_s[0], &run->facts));
    TESS_TRY(read_whole(r, "trace/job.json", MOST_JOB, &run->read_s[1], &run->job));
    TESS_TRY(read_whole(r, "error.json", MOST_FACTS, &run->read_s[2], &run->failure));
    TESS_TRY(read_pipeline(r));
    return look(r, options);
}

tess_status page_run_read(tess_mem *mem, const tess_page_options *options, double deadline_s, page_run *run,
                          bool *changed)
{
    run_reading r = {mem, run, deadline_s, false};
    run->curves.mem = mem;
    tess_status status = read_files(&r, options);
    run->is_behind = run->is_behind || (status != TESS_OK && r.changed);
    *changed |= r.changed;
    return status;
}

void page_run_free(page_run *run)
{
    json_t *values[] = {run->pools, run->alert_list, run->facts, run->failure, run->job, run->pipeline, run->samples};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        json_decref(values[i]);
    page_curves_free(&run->curves);
    page_rings_free(&run->rings);
}
