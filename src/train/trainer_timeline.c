/* Draws the measured timeline of a pipeline step on rank 0, from the data of tess_stage_timeline. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "engine/stages/rank_stage.h"
#include "train/trainer_impl.h"

enum { TIMELINE_COLUMNS = 100 };

/* Returns the idle share that the schedule alone would cause, given the mean durations of the stages' work. */
static tess_status bubble_of_schedule(tess_mem *mem, const tess_pipeline_schedule *s,
                                      const tess_pipeline_report *measured, double *bubble)
{
    TESS_AUTO(tess_mem_drop) tess_pipeline_stage_costs *stages = NULL;
    TESS_AUTO(tess_pipeline_report_free) tess_pipeline_report ideal = {.busy = NULL};
    TESS_TRY(TESS_NEW(mem, s->ranks * (size_t)s->chunks, "costs of stages", &stages));
    tess_pipeline_mean_costs(s, measured, stages);
    TESS_TRY(tess_pipeline_check(s, &(tess_pipeline_costs){.stages = stages}, &ideal));
    *bubble = ideal.bubble;
    return TESS_OK;
}

static tess_status write_file(const tess_trainer *t, const tess_pipeline_schedule *s, const tess_pipeline_report *r)
{
    char folder[TESS_TEXT_SIZE + 16], path[TESS_TEXT_SIZE + 64];
    TESS_TRY(tess_trainer_path(t, "pipeline", folder, sizeof(folder)));
    TESS_TRY(tess_os_make_dirs(folder));
    snprintf(path, sizeof(path), "%s/step-%08lld.json", folder, (long long)t->engine->step);
    return tess_pipeline_write_trace(s, r, path);
}

/* Shows each row of the picture as a note. */
static void show_rows(const tess_trainer *t, char *text)
{
    for (char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        *end = '\0';
        tess_trainer_note(t, "  %s", text);
    }
}

static tess_status draw(const tess_trainer *t, const tess_pipeline_schedule *s, const tess_pipeline_report *r)
{
    static const tess_pipeline_costs equal = {.forward = 1, .backward = 2, .input = 1, .weight = 1};
    const char *formula;
    char stated[64] = "";
    TESS_AUTO(tess_buffer_free) tess_buffer picture = {.mem = t->mem};
    double bubble = 0, by_formula = tess_pipeline_formula(s, &equal, &formula);
    TESS_TRY(bubble_of_schedule(t->mem, s, r, &bubble));
    if (formula != NULL)
        snprintf(stated, sizeof(stated), "; %s with equal stages: %.1f%%", formula, 100 * by_formula);
    tess_trainer_note(t, "pipeline: step %lld took %.4g ms, %.1f%% of it idle; %.1f%% by what its stages take%s",
                      (long long)t->engine->step, r->makespan, 100 * r->bubble, 100 * bubble, stated);
    TESS_TRY(tess_pipeline_print_timeline(s, r, TIMELINE_COLUMNS, &picture));
    show_rows(t, picture.data);
    return write_file(t, s, r);
}

void tess_trainer_draw_timeline(const tess_trainer *t)
{
    const tess_pipeline_schedule *schedule;
    const tess_pipeline_report *report;
    tess_stage *stage = t->engine->stage;
    if (stage == NULL || !tess_stage_timeline(stage, &schedule, &report) || draw(t, schedule, report) == TESS_OK)
        return;
    tess_trainer_warn(t, "no timeline of step %lld: %s", (long long)t->engine->step, tess_error_message());
    tess_error_clear();
}
