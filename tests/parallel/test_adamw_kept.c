/* AdamW over shards in persistent memory: a process that dies at any instruction of a step, and another that finishes
 * the step, give the bits of an undisturbed step. */
#include "optim/optim_internal.h"
#include "parallel/fsdp/fsdp_engine.h"
#include "job/persist/persist.h"
#include "support/single_step.h"
#include "support/test.h"
#include "tessera/mesh.h"

enum { PARAMS = 4, ALL = 64 + 33 + 8 + 7, STEP = 3 };

static const tess_param_desc params[PARAMS] = {{"matrix", {2, {16, 4}}, true, true},
                                               {"odd", {1, {33}}, true, false},
                                               {"frozen", {1, {8}}, false, true},
                                               {"short", {1, {7}}, true, true}};

static tess_runtime *runtime;
static tess_mesh *mesh;
static tess_fsdp *fsdp;
static tess_unit *unit;
static tess_adamw *adamw;
static tess_persist_set set;
static tess_persist *persist;
static float want[3 * ALL], got[3 * ALL];
static long n_looks;

static tess_status fill(void *context, const char *name, const tess_box *box, float *dst)
{
    (void)context;
    int64_t row = strcmp(name, "matrix") == 0 ? 4 : 1;
    for (int64_t i = 0; i < box->size[0] * row; i++)
        dst[i] = (float)(box->begin[0] * row + i + 1) / 8;
    return TESS_OK;
}

static void backward(void)
{
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(fsdp, 0));
    EXPECT_OK(tess_unit_pre_forward(unit));
    EXPECT_OK(tess_unit_post_forward(unit));
    EXPECT_OK(tess_unit_pre_backward(unit));
    for (int p = 0; p < PARAMS; p++)
        for (int64_t i = 0; params[p].trainable && i < tess_shape_count(&params[p].shape); i++)
            tess_unit_grad(unit, p)[i] = (float)(i % 13 - 6) / 4;
    EXPECT_OK(tess_unit_post_backward(unit));
    EXPECT_OK(tess_fsdp_step_end(fsdp));
}

static const tess_span *spans(void)
{
    const tess_span *all;
    EXPECT_OK(tess_fsdp_spans(fsdp, &all));
    return all;
}

/* The state with gradients, before the update. */
static void open_model(tess_persist *kept)
{
    static const tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 0};
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime));
    tess_persist_attach(kept, tess_runtime_mem(runtime));
    EXPECT_OK(tess_mesh_create(runtime, (tess_axis[]){{"dp_shard", -1}}, 1, &mesh));
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "unit", params, PARAMS, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill, NULL));
    EXPECT_OK(tess_fsdp_adamw_create(fsdp, &(tess_adamw_options){0.9f, 0.95f, 1e-8f, 0.1f}, &adamw));
    backward();
}

static void close_model(void)
{
    tess_adamw_destroy(&adamw);
    tess_fsdp_destroy(&fsdp);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
}

/* Weights and moments. */
static void collect(float *to)
{
    memset(to, 0, 3 * ALL * sizeof(float));
    for (int p = 0; p < PARAMS; p++) {
        tess_shard shard;
        float *m, *v;
        EXPECT_OK(tess_fsdp_shard(fsdp, p, &shard));
        tess_adamw_moments(adamw, p, &m, &v);
        size_t n = (size_t)tess_shape_count(&shard.shape);
        memcpy(to, shard.master, n * sizeof(float));
        if (m != NULL) {
            memcpy(to + ALL, m, n * sizeof(float));
            memcpy(to + 2 * ALL, v, n * sizeof(float));
        }
        to += n;
    }
}

static void step(void *context)
{
    (void)context;
    EXPECT_OK(tess_fsdp_adamw_step(fsdp, adamw, STEP, 1e-2f, 0.5f));
}

static void end_step(void *context)
{
    (void)context;
    n_looks++;
    EXPECT_OK(tess_adamw_step(adamw, spans(), STEP, 1e-2f, 0.5f));
    collect(got);
    EXPECT_SAME(got, want, 3 * ALL);
}

static void add_area(single_step *run, int index, const char *region)
{
    run->areas[index].address = tess_persist_find(persist, region, &run->areas[index].bytes);
    EXPECT(run->areas[index].address != NULL);
}

static void a_step_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits(void)
{
    open_model(NULL);
    step(NULL);
    collect(want);
    close_model();

    EXPECT_OK(tess_persist_set_create(test_mem(), 1, NULL, 1, &set));
    EXPECT_OK(tess_persist_open(test_mem(), set.fds[0], &persist));
    open_model(persist);
    single_step run = {.body = step, .look = end_step};
    add_area(&run, 0, "weights of unit");
    add_area(&run, 1, "adamw first moments");
    add_area(&run, 2, "adamw second moments");
    add_area(&run, 3, "journal");
    long n = single_step_run(&run);
    printf("%ld instructions, %ld of them changed what is kept\n", n, n_looks);
    end_step(NULL); /* the whole step, where tracing is not permitted */
    EXPECT(n < 0 || n_looks > ALL * 3 / 16);
    close_model();
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, true);
}

static const test_case cases[] = {
    {"a_step_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits",
     a_step_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits, .under_mpi = TEST_NEVER},
};

TEST_MAIN(cases)
