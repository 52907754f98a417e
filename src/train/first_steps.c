#include "train/first_steps.h"

#include "tessera/comm.h"
#include "train/trainer_impl.h"

static tess_status take_steps(tess_trainer *t, int64_t steps, const tess_first_steps_observer *observer)
{
    TESS_TRY(tess_trainer_join_hosts(t));
    TESS_TRY(t->kind->create(t, &t->task));
    TESS_TRY(tess_trainer_load_model(t, NULL));
    TESS_TRY(tess_trainer_check_memory(t));
    TESS_TRY(t->kind->open(t->task.self, &t->model_config));
    const tess_engine_options options = {.device_need = tess_memory_device_need};
    TESS_TRY(tess_engine_create_over(tess_trainer_team(t), &t->config, &t->model_config, &options, &t->engine));
    if (t->kind->ready != NULL)
        TESS_TRY(t->kind->ready(t->task.self, t->engine));
    TESS_TRY(observer->ready(observer->self, t->engine));
    for (int64_t i = 0; i < steps; i++) {
        tess_engine_report report;
        tess_batch_source source;
        TESS_TRY(tess_trainer_next_step(t, &source));
        TESS_TRY(tess_engine_step(t->engine, &source, &report));
        TESS_CHECK(!report.stop, TESS_E_INTERRUPTED, "interrupted after step %lld", (long long)t->engine->step);
        TESS_TRY(observer->stepped(observer->self, t->engine, &report));
    }
    return observer->finished(observer->self, t->engine);
}

tess_status tess_train_first_steps(tess_runtime *runtime, const tess_task_kind *kind, const tess_config *config,
                                   int64_t steps, const tess_first_steps_observer *observer)
{
    tess_trainer trainer;
    tess_status status = tess_trainer_begin(&trainer, runtime, kind, config, NULL);
    if (status == TESS_OK)
        status = take_steps(&trainer, steps, observer);
    return tess_trainer_end(&trainer, status);
}
