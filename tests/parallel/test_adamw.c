/* AdamW over shards against torch and the formula in double. test_fsdp_bits.c compares its bits over strategies. */
#include <math.h>

#include "optim/adamw_torch.h"
#include "support/moments.h"
#include "support/test.h"
#include "tessera/fsdp.h"

static tess_runtime *runtime;
static tess_mesh *mesh;
static tess_fsdp *fsdp;
static tess_unit *unit;

typedef struct start {
    const double *values;
} start;

static tess_status fill(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    const start *s = context;
    (void)name, (void)shape;
    for (int64_t i = 0; i < box->size[0]; i++)
        dst[i] = (float)s->values[box->begin[0] + i];
    return TESS_OK;
}

static void open_model(const tess_param_desc *params, int n_params, const double *values)
{
    static const tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_F32, TESS_F32, 1, 0};
    start s = {values};
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime));
    EXPECT_OK(tess_mesh_create(runtime, (tess_axis[]){{"dp_shard", -1}}, 1, &mesh));
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "unit", params, n_params, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill, &s));
}

static void close_model(void)
{
    tess_fsdp_destroy(&fsdp);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
}

/* Only rank 0 has a gradient: the sum is its own. */
static void backward(const double *gradients, int n, double scale)
{
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(fsdp, 0));
    EXPECT_OK(tess_unit_pre_forward(unit));
    EXPECT_OK(tess_unit_post_forward(unit));
    EXPECT_OK(tess_unit_pre_backward(unit));
    for (int i = 0; i < n; i++)
        tess_unit_grad(unit, 0)[i] = tess_runtime_rank(runtime) == 0 ? (float)(gradients[i] * scale) : 0;
    EXPECT_OK(tess_unit_post_backward(unit));
    EXPECT_OK(tess_fsdp_step_end(fsdp));
}

static void torch(void)
{
    tess_param_desc param = {"w", {1, {TORCH_ELEMENTS}}, true, true};
    tess_optimizer *adamw = NULL;
    open_model(&param, 1, torch_start);
    EXPECT_OK(tess_fsdp_optimizer_create(
        fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.1f}, &adamw));
    for (int s = 0; s < TORCH_STEPS; s++) {
        backward(torch_gradients[s], TORCH_ELEMENTS, 8); /* grad_scale undoes it */
        EXPECT_OK(tess_fsdp_optimizer_step(fsdp, adamw, s + 1, 3e-3f, 1.0f / 8));
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(fsdp, 0, &shard));
        for (int64_t i = 0; i < shard.box.size[0]; i++) {
            double want = torch_weights[s][shard.box.begin[0] + i];
            /* A step moves a weight by about lr; float32 rounds that and the weight to a few 1e-7. */
            if (!(fabs((double)shard.master[i] - want) <= 3e-7 * fabs(want) + 1e-6 * 3e-3))
                test_fail(__FILE__, __LINE__, "step %d: weight %lld is %.9g, torch has %.9g", s + 1,
                          (long long)(shard.box.begin[0] + i), (double)shard.master[i], want);
        }
    }
    tess_optimizer_destroy(&adamw);
    close_model();
}

static void adamw_follows_its_formula(void)
{
    enum { N = 301, STEPS = 20 };
    static double start_values[N], p[N], m[N], v[N], g[N];
    for (int i = 0; i < N; i++)
        p[i] = start_values[i] = sin(i * 1.7) * pow(10, i % 7 - 3);
    for (int i = 0; i < N; i++) /* rounded to float32 */
        p[i] = (double)(float)p[i];
    tess_param_desc param = {"w", {1, {N}}, true, true};
    tess_optimizer *adamw = NULL;
    open_model(&param, 1, start_values);
    EXPECT_OK(tess_fsdp_optimizer_create(
        fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.01f}, &adamw));
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < N; i++)
            g[i] = cos(i * 0.3 + step) * pow(10, (i + step) % 6 - 4);
        backward(g, N, 1);
        EXPECT_OK(tess_fsdp_optimizer_step(fsdp, adamw, step, 1e-2f, 0.5f));
        for (int i = 0; i < N; i++) {
            double grad = (double)(float)g[i] * 0.5;
            p[i] -= 1e-2 * 0.01 * p[i];
            m[i] = 0.9 * m[i] + 0.1 * grad;
            v[i] = 0.95 * v[i] + 0.05 * grad * grad;
            p[i] -= 1e-2 * (m[i] / (1 - pow(0.9, step))) / (sqrt(v[i] / (1 - pow(0.95, step))) + 1e-8);
        }
    }
    tess_shard shard;
    float *got_m, *got_v;
    EXPECT_OK(tess_fsdp_shard(fsdp, 0, &shard));
    moments_of(adamw, 0, &got_m, &got_v);
    for (int64_t i = 0; i < shard.box.size[0]; i++) {
        int64_t at = shard.box.begin[0] + i;
        EXPECT(fabs((double)shard.master[i] - p[at]) <= 1e-6 * fabs(p[at]) + 2e-6 * 1e-2 * STEPS);
        EXPECT(fabs((double)got_m[i] - m[at]) <= 1e-5 * fabs(m[at]) + 1e-7);
        EXPECT(fabs((double)got_v[i] - v[at]) <= 1e-5 * v[at] + 1e-12);
    }
    tess_optimizer_destroy(&adamw);
    close_model();
}

static void frozen_parameters_have_no_moments_and_stay(void)
{
    static const double values[8] = {1, 2, 3, 4, 5, 6, 7, 8}, gradients[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    tess_param_desc params[] = {{"plain", {1, {8}}, true, false}, {"frozen", {1, {8}}, false, true}};
    tess_optimizer *adamw = NULL;
    open_model(params, 2, values);
    EXPECT_OK(tess_fsdp_optimizer_create(
        fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.5f}, &adamw));
    backward(gradients, 8, 1);
    EXPECT_OK(tess_fsdp_optimizer_step(fsdp, adamw, 1, 0.25f, 1));
    for (int p = 0; p < 2; p++) {
        tess_shard shard;
        float *m, *v;
        EXPECT_OK(tess_fsdp_shard(fsdp, p, &shard));
        moments_of(adamw, p, &m, &v);
        EXPECT((m == NULL) == (p == 1) && (v == NULL) == (p == 1));
        for (int64_t i = 0; i < shard.box.size[0]; i++) {
            double want = values[shard.box.begin[0] + i] - (p == 0 ? 0.25 : 0); /* the first step without decay is lr */
            EXPECT(fabs((double)shard.master[i] - want) < 1e-6);
        }
    }
    EXPECT_INT(tess_mem_stats(tess_runtime_mem(runtime), TESS_POOL_OPTIMIZER).bytes,
               8 * 2 * sizeof(float) / (size_t)tess_runtime_world(runtime));
    tess_optimizer_destroy(&adamw);
    close_model();
}

static void bad_options_and_early_steps_are_named(void)
{
    static const double values[4] = {1, 2, 3, 4};
    tess_param_desc param = {"w", {1, {4}}, true, true};
    tess_optimizer *adamw = NULL;
    open_model(&param, 1, values);
    EXPECT_FAILS(
        tess_fsdp_optimizer_create(
            fsdp, &(tess_optimizer_options){.beta1 = 1.0f, .beta2 = 0.9f, .eps = 1e-8f, .weight_decay = 0}, &adamw),
        TESS_E_INVALID, "beta1 is 1");
    EXPECT_FAILS(
        tess_fsdp_optimizer_create(
            fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = NAN, .eps = 1e-8f, .weight_decay = 0}, &adamw),
        TESS_E_INVALID, "beta2");
    EXPECT_FAILS(
        tess_fsdp_optimizer_create(
            fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.9f, .eps = -1, .weight_decay = 0}, &adamw),
        TESS_E_INVALID, "eps is -1");
    EXPECT_FAILS(
        tess_fsdp_optimizer_create(
            fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.9f, .eps = 1e-8f, .weight_decay = -1}, &adamw),
        TESS_E_INVALID, "weight_decay is -1");
    EXPECT_OK(tess_fsdp_optimizer_create(
        fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.9f, .eps = 1e-8f, .weight_decay = 0}, &adamw));
    EXPECT_FAILS(tess_fsdp_optimizer_step(fsdp, adamw, 0, 1, 1), TESS_E_INVALID, "the first is 1");
    EXPECT_FAILS(tess_fsdp_optimizer_step(fsdp, adamw, 1, 1, 1), TESS_E_INVALID, "'w' has no gradient");
    tess_optimizer_destroy(&adamw);
    close_model();
}

static const test_case cases[] = {
    {"adamw_follows_torch", torch, 1, 0},
    {"adamw_follows_torch_in_shards", torch, 4, 0},
    CASE(adamw_follows_its_formula, 2),
    CASE(frozen_parameters_have_no_moments_and_stay, 2),
    CASE(bad_options_and_early_steps_are_named, 1),
};
TEST_MAIN(cases)
