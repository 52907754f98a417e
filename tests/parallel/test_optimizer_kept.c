/* Optimizers over shards in persistent memory: a process that dies at any instruction of a step, and another that
 * finishes the step, give the bits of an undisturbed step. */
#include "tessera/fsdp.h"
#include "job/persist/persist.h"
#include "support/single_step.h"
#include "support/test.h"
#include "tessera/mesh.h"

enum { PARAMS = 4, ALL = 12 + 33 + 8 + 7, STEP = 3, STATE_BYTES = 2 * ALL * 4 };

static const tess_param_desc params[PARAMS] = {{"matrix", {2, {6, 2}}, true, true, .hidden = true},
                                               {"odd", {1, {33}}, true, false},
                                               {"frozen", {1, {8}}, false, true},
                                               {"short", {1, {7}}, true, true}};

static tess_runtime *runtime;
static tess_mesh *mesh;
static tess_fsdp *fsdp;
static tess_unit *unit;
static tess_optimizer *optimizer;
static tess_optimizer_options options;
static tess_persist_set set;
static tess_persist *persist;
static unsigned char want[ALL * 4 + STATE_BYTES], got[ALL * 4 + STATE_BYTES];
static long n_looks;

static tess_status fill(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)context;
    (void)name;
    const int64_t row = shape->n_dims == 2 ? shape->dim[1] : 1;
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

/* Stands in for another rank, which would compute on the matrix in many instructions that change nothing here. */
static tess_status gather(void *self, const tess_matrix_turn *turn)
{
    (void)self, (void)turn;
    return TESS_OK;
}

static tess_status scatter(void *self, const tess_matrix_turn *turn)
{
    (void)self;
    for (int64_t i = 0; i < tess_shape_count(&params[0].shape); i++)
        turn->part[0][i] *= 0.25f;
    return TESS_OK;
}

static void make_muon(void)
{
    const tess_optimizer_place place = {.exchange = {.n_ranks = 2, .rank = 1, .gather = gather, .scatter = scatter},
                                        .owner = fsdp};
    EXPECT_OK(tess_optimizer_create_at(tess_runtime_mem(runtime), spans(), PARAMS, &options, &place, &optimizer));
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
    if (options.kind == TESS_MUON)
        make_muon();
    else
        EXPECT_OK(tess_fsdp_optimizer_create(fsdp, &options, &optimizer));
    backward();
}

static void close_model(void)
{
    tess_optimizer_destroy(&optimizer);
    tess_fsdp_destroy(&fsdp);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
}

/* Weights and state. */
static void collect(unsigned char *to)
{
    memset(to, 0, sizeof(want));
    for (int p = 0; p < PARAMS; p++) {
        tess_shard shard;
        tess_optimizer_state states[TESS_OPTIMIZER_STATES];
        EXPECT_OK(tess_fsdp_shard(fsdp, p, &shard));
        int n_states = tess_optimizer_states(optimizer, p, states);
        size_t n = (size_t)tess_shape_count(&shard.shape);
        memcpy(to, shard.master, n * sizeof(float));
        to += n * sizeof(float);
        for (int k = 0; k < n_states; k++) {
            size_t bytes = n * tess_dtype_size(states[k].dtype);
            memcpy(to, states[k].data, bytes);
            to += bytes;
        }
    }
}

static void step(void *context)
{
    (void)context;
    EXPECT_OK(tess_fsdp_optimizer_step(fsdp, optimizer, STEP, 1e-2f, 0.5f));
}

static void end_step(void *context)
{
    (void)context;
    n_looks++;
    EXPECT_OK(tess_optimizer_step(optimizer, spans(), STEP, 1e-2f, 0.5f));
    collect(got);
    EXPECT_SAME(got, want, sizeof(want));
}

/* At most `most` bytes: of a journal those of the one lane that is used. */
static void add_area(single_step *run, int index, const char *region, size_t most)
{
    size_t bytes;
    run->areas[index].address = tess_persist_find(persist, region, &bytes);
    run->areas[index].bytes = bytes < most ? bytes : most;
    EXPECT(run->areas[index].address != NULL);
}

static void expect_the_same_bits(const tess_optimizer_options *of)
{
    options = *of;
    n_looks = 0;
    open_model(NULL);
    step(NULL);
    collect(want);
    close_model();

    EXPECT_OK(tess_persist_set_create(test_mem(), 1, NULL, 1, &set));
    EXPECT_OK(tess_persist_open(test_mem(), set.fds[0], &persist));
    open_model(persist);
    single_step run = {.body = step, .look = end_step};
    add_area(&run, 0, "weights of unit", SIZE_MAX);
    add_area(&run, 1, "optimizer state", SIZE_MAX);
    add_area(&run, 2, "journal", 8192);
    long n = single_step_run(&run);
    printf("%ld instructions, %ld of them changed what is kept\n", n, n_looks);
    end_step(NULL); /* the whole step, where tracing is not permitted */
    EXPECT(n < 0 || n_looks > ALL * 3 / 16);
    close_model();
    tess_persist_close(&persist);
    tess_persist_set_destroy(&set, true);
}

static tess_optimizer_options options_of(tess_optimizer_kind kind)
{
    return (tess_optimizer_options){.kind = kind,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.95f,
                                    .eps = 1e-8f,
                                    .weight_decay = 0.1f,
                                    .momentum = 0.9f,
                                    .nesterov = true};
}

static void adamw_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits(void)
{
    const tess_optimizer_options o = options_of(TESS_ADAMW);
    expect_the_same_bits(&o);
}

static void sgd_in_bfloat16_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits(void)
{
    tess_optimizer_options o = options_of(TESS_SGD);
    o.state_dtype = TESS_BF16;
    expect_the_same_bits(&o);
}

static void muon_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits(void)
{
    const tess_optimizer_options o = options_of(TESS_MUON);
    expect_the_same_bits(&o);
}

static const test_case cases[] = {
    CASE(adamw_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits, .under_mpi = TEST_NEVER),
    CASE(sgd_in_bfloat16_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits, .under_mpi = TEST_NEVER),
    CASE(muon_that_breaks_off_at_any_instruction_is_ended_to_the_same_bits, .under_mpi = TEST_NEVER),
};

TEST_MAIN(cases)
