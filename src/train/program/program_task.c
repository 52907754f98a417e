#include "train/program/program_task.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "embed/embed_tensors.h"
#include "engine/foreign.h"
#include "train/trainer.h"

typedef struct program_task {
    const tess_program *program;
    tess_trainer *trainer;
    tess_engine *engine;
    embed_tensors tensors; /* the first n_tensors are the program's own */
    int n_tensors;
} program_task;

/* ---- Steps ---- */
/* The engine asks the program itself for its batches (engine/foreign.h). */
static tess_status next_step(void *self, tess_batch_source *source)
{
    program_task *t = self;
    *source = tess_engine_source(t->engine, t, NULL);
    return TESS_OK;
}

static bool evaluates(const void *self, bool last)
{
    const program_task *t = self;
    const tess_validation_section *v = &tess_trainer_config(t->trainer)->validation;
    return t->program->evaluate != NULL && v->enable && (last || t->engine->step % v->interval == 0);
}

/* Divides the held-out batches among the ranks as a step divides its micro-batches. */
static tess_status evaluate(const program_task *t, tess_loss_sum *sum)
{
    const tess_program *p = t->program;
    const int64_t n = p->n_evaluations, rounds = tess_coordinates_rounds(&t->engine->at, n);
    for (int64_t s = 0; s < rounds; s++) {
        const int64_t i = tess_coordinates_micro(&t->engine->at, s);
        tess_program_loss loss = {0};
        TESS_TRY_CTX(p->evaluate(p->self, i < n ? i : -1, &loss), "program: evaluation %lld", (long long)i);
        if (i < n)
            TESS_TRY(tess_foreign_add_loss(sum, &loss));
    }
    return tess_loss_all_reduce(t->engine->team, sum, 0);
}

static tess_status after_step(void *self, bool last, tess_validation_report *report)
{
    program_task *t = self;
    tess_loss_sum sum = {0};
    double no_perplexity, no_bits, begin_s = tess_os_now_s();
    if (!evaluates(t, last))
        return TESS_OK;
    tess_runtime_phase(t->engine->runtime, "validation", t->engine->step, -1);
    TESS_TRY(evaluate(t, &sum));
    TESS_CHECK(sum.n_tokens > 0, TESS_E_INVALID, "program: the evaluation after step %lld has no items",
               (long long)t->engine->step);
    *report = (tess_validation_report){.step = t->engine->step,
                                       .outcome = TESS_VALIDATION_WHOLE,
                                       .n_tokens = sum.n_tokens,
                                       .n_tokens_all = sum.n_tokens,
                                       .seconds = tess_os_now_s() - begin_s};
    tess_loss_score(&sum, &report->loss, &no_perplexity, &no_bits); /* these are about text */
    return TESS_OK;
}

/* ---- Places: the number of a micro-batch says all ---- */
static void place(TESS_UNUSED const void *self, tess_task_place *at)
{
    *at = (tess_task_place){{0}};
}

static tess_status go_to(TESS_UNUSED void *self, TESS_UNUSED const tess_task_place *at,
                         TESS_UNUSED const tess_engine_report *newest)
{
    return TESS_OK;
}

/* ---- Checkpoints ---- */
static const char key[] = "program"; /* member of a checkpoint's description */

static tess_status describe(void *self, json_t *meta)
{
    const tess_program *p = ((program_task *)self)->program;
    char *text = NULL;
    json_t *object = NULL;
    if (p->save == NULL)
        return TESS_OK;
    TESS_TRY_CTX(p->save(p->self, &text), "program: save");
    tess_status status = text != NULL ? tess_json_parse(text, strlen(text), "program: save", true, &object)
                                      : TESS_FAIL(TESS_E_INVALID, "program: save set no text");
    free(text);
    TESS_TRY(status);
    if (!json_is_object(object)) {
        json_decref(object);
        return TESS_FAIL(TESS_E_INVALID, "program: save set JSON that is no object");
    }
    TESS_CHECK(json_object_set_new(meta, key, object) == 0, TESS_E_NOMEM, "no memory to describe the checkpoint");
    return TESS_OK;
}

static tess_status restore(void *self, const json_t *meta)
{
    const tess_program *p = ((program_task *)self)->program;
    const json_t *object = json_object_get(meta, key);
    if (p->load == NULL)
        return TESS_OK;
    TESS_CHECK(object != NULL, TESS_E_INVALID, "the checkpoint holds nothing that the program's `save` has written");
    TESS_AUTO(tess_malloc_drop) char *text = json_dumps(object, JSON_COMPACT);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for what the program has saved");
    TESS_TRY_CTX(p->load(p->self, text), "program: load");
    return TESS_OK;
}

static int n_tensors(const void *self)
{
    return ((const program_task *)self)->n_tensors;
}

static tess_status tensors(void *self, tess_ckpt_tensor *out)
{
    const program_task *t = self;
    memcpy(out, t->tensors.items, (size_t)t->n_tensors * sizeof(*out));
    return TESS_OK;
}

/* ---- The kind ---- */
static tess_status create_program(tess_trainer *trainer, tess_task *task)
{
    program_task *t;
    TESS_TRY(TESS_NEW(tess_runtime_mem(tess_trainer_runtime(trainer)), 1, "program", &t));
    *t = (program_task){.program = tess_trainer_program(trainer), .trainer = trainer};
    *task = (tess_task){.self = t,
                        .next_step = next_step,
                        .place = place,
                        .go_to = go_to,
                        .describe = describe,
                        .restore = restore,
                        .evaluates = evaluates,
                        .after_step = after_step,
                        .n_tensors = n_tensors,
                        .tensors = tensors};
    return TESS_OK;
}

static tess_status open_program(void *self, tess_model_config *model)
{
    const program_task *t = self;
    model->sum_leaves = tess_trainer_config(t->trainer)->model.sum_leaves; /* resume_state.c compares it */
    return TESS_OK;
}

static tess_status take_engine(void *self, tess_engine *engine)
{
    program_task *t = self;
    const tess_program *p = t->program;
    tess_checkpoint_state state = {.fsdp = engine->fsdp}; /* no name may be that of a parameter */
    t->engine = engine;
    state.n_tensors = p->tensors != NULL ? p->tensors(p->self, &state.tensors) : 0;
    TESS_TRY_CTX(embed_tensors_list(engine->runtime, &state, &t->tensors), "program: tensors");
    t->n_tensors = state.n_tensors;
    return TESS_OK;
}

static void close_program(void *self)
{
    program_task *t = self;
    embed_tensors_free(&t->tensors);
    tess_mem_free(tess_runtime_mem(tess_trainer_runtime(t->trainer)), t);
}

tess_task_kind tess_program_task_kind(const tess_program *program)
{
    return (tess_task_kind){.program = program,
                            .create = create_program,
                            .open = open_program,
                            .ready = take_engine,
                            .close = close_program};
}
