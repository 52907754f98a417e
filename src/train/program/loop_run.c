/* Implements tessera/loop.h: runs another program's model through the trainer. */
#include "tessera/loop.h"

#include "engine/foreign.h"
#include "train/program/program_task.h"

static void note(void *self, const char *text)
{
    const tess_loop_observer *o = self;
    if (o->note != NULL)
        o->note(o->self, text);
}

static void show_step(void *self, const tess_step_report *report)
{
    const tess_loop_observer *o = self;
    const tess_loop_step step = {.step = report->step,
                                 .steps = report->steps,
                                 .loss = report->loss,
                                 .grad_norm = report->grad_norm,
                                 .lr = report->lr,
                                 .skipped = report->skipped,
                                 .n_items = report->n_tokens,
                                 .items_per_s = report->tps,
                                 .log_line = report->log_line};
    if (o->step != NULL)
        o->step(o->self, &step);
}

static tess_loop_evaluation evaluation_of(const tess_validation_report *report)
{
    return (tess_loop_evaluation){report->step, report->n_tokens, report->loss};
}

static void show_evaluation(void *self, const tess_validation_report *report)
{
    const tess_loop_observer *o = self;
    const tess_loop_evaluation evaluation = evaluation_of(report);
    if (o->evaluation != NULL)
        o->evaluation(o->self, &evaluation);
}

static tess_status train(const tess_program *program, const tess_config *config, const tess_loop_observer *observer,
                         tess_loop_result *result)
{
    const tess_task_kind kind = tess_program_task_kind(program);
    const tess_runtime_options options = tess_config_runtime(config);
    const tess_train_observer shown = {(void *)observer, note, show_step, show_evaluation};
    tess_train_result done;
    tess_runtime *runtime;
    TESS_TRY(tess_runtime_create(&options, &runtime));
    tess_status status = tess_train(runtime, &kind, config, observer != NULL ? &shown : NULL, &done);
    if (status != TESS_OK)
        tess_runtime_report_status(runtime, status);
    else if (result != NULL)
        *result = (tess_loop_result){done.steps, done.interrupted, evaluation_of(&done.last)};
    tess_runtime_destroy(&runtime);
    return status;
}

tess_status tess_loop_run(const tess_program *program, const char *path, const char *const *settings, int n_settings,
                          const tess_loop_observer *observer, tess_loop_result *result)
{
    tess_mem *mem;
    tess_config config;
    if (result != NULL)
        *result = (tess_loop_result){0};
    TESS_CHECK(program != NULL && (n_settings == 0 || settings != NULL), TESS_E_INVALID,
               "tess_loop_run: a NULL argument");
    TESS_TRY(tess_foreign_check(program));
    TESS_TRY(tess_mem_create(&mem));
    tess_status status = tess_program_config_load(mem, program, path, (char *const *)settings, n_settings, &config);
    if (status == TESS_OK) {
        status = train(program, &config, observer, result);
        tess_config_free(&config);
    }
    tess_mem_destroy(&mem);
    return status;
}
