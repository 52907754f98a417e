/* tessera/loop.h: a program of one's own is checked before it runs, its errors end the run by name, and a step whose
 * numbers are not finite is found out. That losses are those of the program's own loop is shown by
 * examples/embed_loop_test.sh. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "tessera/loop.h"

enum { ROWS = 5, MICRO_BATCHES = 4 };

/* w learns the mean of noise: the loss of a micro-batch is |w - x|^2 / 2. */
typedef struct learner {
    tess_fsdp *fsdp;
    tess_unit *unused, *unit;
    int64_t index;      /* the newest batch; -1: none */
    int64_t bad_index;  /* the batch whose gradient has a NaN; -1: none */
    int64_t fail_index; /* the batch that cannot be prepared; -1: none */
    int64_t n_empty;    /* calls without a batch */
    int64_t scored[3];  /* calls for each held-out batch */
    double last_loss;
    int n_notes;
    const char *saved; /* the text of `save`; NULL: it fails */
    char loaded[64];   /* the text that `load` got */
    float moment;
    tess_checkpoint_tensor list[1]; /* (n_list) what `tensors` returns */
    int n_list, n_asked;
} learner;

static tess_param_desc params[] = {{.name = "w", .shape = {1, {ROWS}}, .trainable = true},
                                   {.name = "b", .shape = {1, {1}}, .trainable = true}};
static tess_param_desc unused[] = {{.name = "c", .shape = {2, {3, 2}}, .trainable = true},
                                   {.name = "d", .shape = {1, {4}}, .trainable = true},
                                   {.name = "e", .shape = {1, {1}}, .trainable = true}};
/* The second unit has what is found to be bad. */
static const tess_program_unit units[] = {{"unused", unused, 3}, {"all", params, 2}};

static tess_status fill(void *self, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)self, (void)name;
    for (int64_t i = 0; i < tess_box_count(shape->n_dims, box); i++)
        dst[i] = 1;
    return TESS_OK;
}

static tess_status ready(void *self, tess_fsdp *fsdp, tess_unit *const *made)
{
    learner *l = self;
    l->fsdp = fsdp;
    l->unused = made[0];
    l->unit = made[1];
    return TESS_OK;
}

static tess_status batch(void *self, int64_t index)
{
    learner *l = self;
    TESS_CHECK(index != l->fail_index, TESS_E_FORMAT, "the file of batch %lld is empty", (long long)index);
    l->index = index;
    return TESS_OK;
}

static tess_status score(learner *l, tess_program_loss *loss)
{
    const float *w = tess_unit_param(l->unit, 0);
    *loss = (tess_program_loss){0, 1};
    for (int i = 0; i < ROWS; i++) {
        const float d = w[i] - (float)((l->index + i) % 7);
        loss->sum += (double)(d * d / 2);
    }
    return TESS_OK;
}

static tess_status pass_unused(const learner *l)
{
    TESS_TRY(tess_unit_pre_forward(l->unused));
    return tess_unit_post_forward(l->unused);
}

static tess_status forward_backward(void *self, tess_program_loss *loss)
{
    learner *l = self;
    l->n_empty += l->index < 0;
    TESS_TRY(pass_unused(l));
    TESS_TRY(tess_unit_pre_forward(l->unit));
    TESS_TRY(score(l, loss));
    TESS_TRY(tess_unit_post_forward(l->unit));
    TESS_TRY(tess_unit_pre_backward(l->unit));
    for (int i = 0; i < ROWS; i++)
        tess_unit_grad(l->unit, 0)[i] = ((const float *)tess_unit_param(l->unit, 0))[i] - (float)((l->index + i) % 7);
    tess_unit_grad(l->unit, 0)[2] += l->index >= 0 && l->index == l->bad_index ? NAN : 0;
    tess_unit_grad(l->unit, 1)[0] = 0;
    l->index = -1;
    TESS_TRY(tess_unit_post_backward(l->unit));
    TESS_TRY(tess_unit_pre_backward(l->unused));
    for (int i = 0; i < 3; i++)
        memset(tess_unit_grad(l->unused, i), 0, (size_t)tess_unit_count(l->unused, i) * sizeof(float));
    return tess_unit_post_backward(l->unused);
}

static tess_status evaluate(void *self, int64_t index, tess_program_loss *loss)
{
    learner *l = self;
    TESS_TRY(pass_unused(l));
    TESS_TRY(tess_unit_pre_forward(l->unit));
    if (index >= 0)
        l->scored[index]++;
    l->index = index;
    TESS_TRY(score(l, loss));
    l->index = -1;
    return tess_unit_post_forward(l->unit);
}

static int tensors(void *self, const tess_checkpoint_tensor **list)
{
    learner *l = self;
    *list = l->list;
    l->n_asked++;
    return l->n_list;
}

static tess_status save(void *self, char **json)
{
    const char *saved = ((learner *)self)->saved;
    TESS_CHECK(saved != NULL, TESS_E_IO, "the generator is gone");
    *json = strdup(saved);
    return TESS_OK;
}

static tess_status load(void *self, const char *json)
{
    snprintf(((learner *)self)->loaded, sizeof(((learner *)self)->loaded), "%s", json);
    return TESS_OK;
}

static void see_step(void *self, const tess_loop_step *step)
{
    ((learner *)self)->last_loss = step->loss;
}

static void see_note(void *self, const char *text)
{
    ((learner *)self)->n_notes += strstr(text, "its update is skipped") != NULL;
}

static tess_program program_of(learner *l)
{
    *l = (learner){.index = -1, .bad_index = -1, .fail_index = -1};
    return (tess_program){.self = l,
                          .name = "learner",
                          .units = units,
                          .n_units = 2,
                          .fill = fill,
                          .ready = ready,
                          .forward_backward = forward_backward,
                          .batch = batch,
                          .micro_batches = MICRO_BATCHES};
}

/* One that adds a text and a moment, which every rank has whole, to its checkpoints. */
static tess_program keeper_of(learner *l)
{
    tess_program p = program_of(l);
    p.tensors = tensors;
    p.save = save;
    p.load = load;
    l->saved = "{ \"seed\" : 7 }";
    l->list[0] = (tess_checkpoint_tensor){"moment", TESS_F32, {1, {1}}, {{0}, {1}}, &l->moment};
    l->n_list = 1;
    return p;
}

/* A folder of the case, the same for all of its ranks: they have one parent. */
static const char *the_folder(void)
{
    static char folder[256];
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/tess-program-%d", base != NULL ? base : "/tmp", (int)getppid());
    return folder;
}

/* The other ranks may still move files of their traces. */
static void remove_folder(void)
{
    tess_status status = TESS_E_IO;
    for (int i = 0; i < 1000 && status != TESS_OK && test_rank() == 0; i++) {
        status = tess_os_remove_tree(the_folder());
        usleep(1000);
    }
    tess_error_clear();
}

static tess_status run_with(const tess_program *program, const char *const *more, int n_more, tess_loop_result *result)
{
    char folder[512];
    const tess_loop_observer observer = {program->self, see_note, see_step, NULL};
    const char *settings[8] = {folder, "training.steps=3", "optimizer.lr=0.1"};
    snprintf(folder, sizeof(folder), "job.dump_folder=%s", the_folder());
    for (int i = 0; i < n_more; i++)
        settings[3 + i] = more[i];
    return tess_loop_run(program, NULL, settings, 3 + n_more, &observer, result);
}

static tess_status run(const tess_program *program, const char *setting, tess_loop_result *result)
{
    return run_with(program, &setting, setting != NULL, result);
}

static void a_program_that_lacks_something_is_refused(void)
{
    learner l;
    tess_program p = program_of(&l);
    p.fill = NULL;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "fill, ready, forward_backward and batch are needed");
    p = program_of(&l);
    p.micro_batches = 0;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "2 units and 0 micro-batches");
    p = program_of(&l);
    p.evaluate = evaluate;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "evaluate and n_evaluations go together");
    p = program_of(&l);
    params[1].name = "w";
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "two parameters have the name 'w'");
    params[1].name = "b";
    params[1].narrow = true;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_UNSUPPORTED, "'b' is cut by tp, narrow");
    params[1].narrow = false;
    const tess_program_unit nameless = {"", params, 2};
    p.units = &nameless;
    p.n_units = 1;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "unit 0 has no name");
    EXPECT_FAILS(tess_loop_run(NULL, NULL, NULL, 0, NULL, NULL), TESS_E_INVALID, "NULL argument");
    EXPECT_FAILS(run(&p, "model.path=x", NULL), TESS_E_INVALID, "unit 0 has no name");
    tess_loop_result result = {.steps = 3, .interrupted = true, .last = {1, 2, 3}};
    EXPECT_FAILS(tess_loop_run(NULL, NULL, NULL, 0, NULL, &result), TESS_E_INVALID, "NULL argument");
    EXPECT(result.steps == 0 && !result.interrupted && result.last.n_items == 0);
    p = program_of(&l);
    p.name = NULL;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "it has no name");
}

static void every_held_out_batch_counts_once_and_empty_ones_only_call_hooks(void)
{
    learner l;
    tess_loop_result result;
    tess_program p = program_of(&l);
    p.evaluate = evaluate;
    p.n_evaluations = 3;
    EXPECT_OK(run(&p, "training.global_batch_size=7", &result));
    EXPECT_INT(result.steps, 3);
    EXPECT_INT(result.last.n_items, 3);
    EXPECT(result.last.loss > 0);
    const int rank = test_rank(); /* 7 micro-batches of 3 ranks: the last two have an empty one in each step */
    EXPECT_INT(l.n_empty, rank == 0 ? 0 : 3);
    EXPECT_INT(l.scored[rank], 1);
    remove_folder();
}

static void an_error_of_a_callback_is_that_of_the_run(void)
{
    learner l;
    tess_program p = program_of(&l);
    l.fail_index = 9;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_FORMAT, "program: batch 9: the file of batch 9 is empty");
    remove_folder();
}

static void a_gradient_that_is_not_finite_is_named(void)
{
    learner l;
    tess_program p = program_of(&l);
    l.bad_index = 5; /* step 2, the second rank's */
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_NOT_FINITE,
                 "rank 1, micro-batch 1 of 0..3: gradient 'w' is nan at row 2, column 0");
    remove_folder();
}

static void a_copy_that_differs_is_named(void)
{
    learner l;
    tess_program p = program_of(&l);
    const char *settings[] = {"parallelism.shard_strategy=none", "numbers.replica_check_interval=1",
                              "fault.spec=rank=1 step=2 point=state kind=flip bit=20 tensor=b"};
    EXPECT_FAILS(run_with(&p, settings, 3, NULL), TESS_E_MISMATCH,
                 "replicas have diverged: rank 1: weight 'b': other bits than on 2 of 3 ranks");
    remove_folder();
}

static void a_step_that_is_not_finite_may_be_skipped(void)
{
    learner l;
    tess_loop_result result;
    tess_program p = program_of(&l);
    l.bad_index = 5;
    EXPECT_OK(run(&p, "numbers.on_nonfinite=skip", &result));
    EXPECT_INT(result.steps, 3);
    EXPECT_INT(l.n_notes, test_rank() == 0);
    EXPECT(test_rank() != 0 || isfinite(l.last_loss));
    remove_folder();
}

static void a_checkpoint_of_another_program_is_refused(void)
{
    learner l;
    tess_program p = program_of(&l);
    EXPECT_OK(run(&p, NULL, NULL));
    tess_param_desc other[] = {params[0], params[1]};
    const tess_program_unit changed[] = {units[0], {"all", other, 2}};
    other[1].shape.dim[0] = 2;
    p.units = changed;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "b");
    remove_folder();
}

static void a_save_that_fails_on_one_rank_ends_the_run_on_all(void)
{
    learner l;
    tess_program p = keeper_of(&l);
    if (test_rank() == 1)
        l.saved = NULL;
    EXPECT_FAILS(run(&p, "checkpoint.interval=1", NULL), TESS_E_IO, "program: save: the generator is gone");
    remove_folder();
}

static void what_is_saved_is_an_object_and_comes_back(void)
{
    learner l;
    tess_program p = keeper_of(&l);
    l.saved = "[1]";
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "program: save set JSON that is no object");
    p = keeper_of(&l);
    l.moment = 5;
    EXPECT_OK(run(&p, "checkpoint.interval=1", NULL));
    EXPECT_INT(l.n_asked, 1);
    p = keeper_of(&l);
    EXPECT_OK(run(&p, "training.steps=5", NULL));
    EXPECT(l.moment == 5);
    EXPECT(strcmp(l.loaded, "{\"seed\":7}") == 0);
    remove_folder();
}

static void tensors_that_do_not_fit_are_refused(void)
{
    learner l;
    tess_program p = keeper_of(&l);
    l.n_list = -1;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "program: tensors: checkpoint: -1 tensors");
    p = keeper_of(&l);
    l.list[0].name = "b";
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "two tensors have the name 'b'");
    p = keeper_of(&l);
    l.list[0].name = NULL;
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_INVALID, "a tensor has no name");
    remove_folder();
}

static void tensors_on_one_rank_alone_are_refused(void)
{
    learner l;
    tess_program p = keeper_of(&l);
    l.n_list = test_rank();
    EXPECT_FAILS(run(&p, NULL, NULL), TESS_E_MISMATCH, "ranks pass different numbers of tensors");
    remove_folder();
}

static const test_case cases[] = {
    CASE(a_program_that_lacks_something_is_refused),
    CASE(every_held_out_batch_counts_once_and_empty_ones_only_call_hooks, 3, .under_mpi = TEST_NEVER),
    CASE(an_error_of_a_callback_is_that_of_the_run, 1, .under_mpi = TEST_NEVER),
    CASE(a_gradient_that_is_not_finite_is_named, 2, .under_mpi = TEST_NEVER),
    CASE(a_copy_that_differs_is_named, 3, .under_mpi = TEST_NEVER),
    CASE(a_step_that_is_not_finite_may_be_skipped, 2, .under_mpi = TEST_NEVER),
    CASE(a_checkpoint_of_another_program_is_refused, 1, .under_mpi = TEST_NEVER),
    CASE(a_save_that_fails_on_one_rank_ends_the_run_on_all, 2, .under_mpi = TEST_NEVER),
    CASE(what_is_saved_is_an_object_and_comes_back),
    CASE(tensors_that_do_not_fit_are_refused),
    CASE(tensors_on_one_rank_alone_are_refused, 2, .under_mpi = TEST_NEVER),
};
TEST_MAIN(cases)
