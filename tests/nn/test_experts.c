/* Mixtures of experts: one expert with all tokens is a feed-forward, experts without tokens have gradients of 0, and a
 * router that is not finite makes a loss of NaN. */
#include <math.h>

#include "fixture.h"

enum { MAX_T = FIXTURE_TOKENS };

static float *gradient_of(const rig *r, int64_t layer, const char *name, int64_t *n)
{
    char full[TESS_PARAM_NAME_SIZE];
    snprintf(full, sizeof(full), "model.layers.%d.%s.weight", (int)layer, name);
    const int i = tess_model_find_param(r->model, full);
    EXPECT(i >= 0);
    *n = tess_shape_count(&tess_model_param(r->model, i)->shape);
    return r->dw[i];
}

/* The weights of the dense model are those of expert 0, under the names of its maps. */
static void copy_weights(const rig *mixed, rig *dense)
{
    static const char *const names[][2] = {
        {"mlp.gate_proj", "block_sparse_moe.experts.0.w1"},
        {"mlp.up_proj", "block_sparse_moe.experts.0.w3"},
        {"mlp.down_proj", "block_sparse_moe.experts.0.w2"},
    };
    for (int64_t l = 0; l < mixed->config.n_layers; l++)
        for (int i = 0; i < 3; i++) {
            char of[2][TESS_PARAM_NAME_SIZE];
            for (int k = 0; k < 2; k++)
                snprintf(of[k], sizeof(of[k]), "model.layers.%d.%s.weight", (int)l, names[i][k]);
            const int to = tess_model_find_param(dense->model, of[0]),
                      from = tess_model_find_param(mixed->model, of[1]);
            const size_t n = (size_t)tess_shape_count(&tess_model_param(dense->model, to)->shape);
            memcpy(dense->w32[to], mixed->w32[from], n * sizeof(float));
        }
    rig_refresh(dense);
}

/* A router of zeros gives all experts the same probability, so every token chooses expert 0. */
static void clear_routers(rig *r)
{
    for (int i = 0; i < r->n_params; i++) {
        const tess_param *param = tess_model_param(r->model, i);
        if (strstr(param->name, "moe.gate.") != NULL)
            memset(r->w32[i], 0, (size_t)tess_shape_count(&param->shape) * sizeof(float));
    }
    rig_refresh(r);
}

static void train_once(const fixture *f, rig *r, tess_executor_options options, float *logprob)
{
    tess_executor *executor = rig_executor(r, options);
    EXPECT_OK(tess_executor_train(executor, &f->batch, NULL, logprob));
    tess_executor_destroy(&executor);
}

static void compare_layer(const rig *mixed, const rig *dense, int64_t layer)
{
    int64_t n, m;
    const float *got = gradient_of(mixed, layer, "block_sparse_moe.experts.0.w1", &n),
                *want = gradient_of(dense, layer, "mlp.gate_proj", &m);
    EXPECT_SAME(got, want, (size_t)m);
    got = gradient_of(mixed, layer, "block_sparse_moe.experts.0.w2", &n);
    want = gradient_of(dense, layer, "mlp.down_proj", &m);
    EXPECT_SAME(got, want, (size_t)m);
    got = gradient_of(mixed, layer, "self_attn.q_proj", &n);
    want = gradient_of(dense, layer, "self_attn.q_proj", &m);
    EXPECT_SAME(got, want, (size_t)m);
    static const char *const idle[] = {"gate", "experts.1.w1", "experts.1.w3", "experts.4.w2"};
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "block_sparse_moe.%s", idle[i]);
        got = gradient_of(mixed, layer, name, &n);
        for (int64_t k = 0; k < n; k++)
            EXPECT(got[k] == 0);
    }
}

static void one_expert_with_all_tokens_is_a_feed_forward(void)
{
    fixture f;
    fixture_open(&f, "mixtral");
    tess_model_config one = f.config, plain = f.config;
    one.parts.experts.top_k = 1;
    one.parts.experts.balances = false;
    plain.family = TESS_FAMILY_MISTRAL;
    memset(&plain.parts.experts, 0, sizeof(plain.parts.experts));
    for (int way = 0; way < 4; way++) {
        const tess_dtype dtype = way % 2 == 0 ? TESS_F32 : TESS_BF16;
        const tess_executor_options options = {.max_tokens = MAX_T,
                                               .max_position = f.max_position,
                                               .train = true,
                                               .recompute = way < 2 ? TESS_RECOMPUTE_NONE : TESS_RECOMPUTE_FULL};
        float got[MAX_T], want[MAX_T];
        rig mixed, dense;
        rig_open(&mixed, &one, dtype, NULL, 1);
        rig_open(&dense, &plain, dtype, NULL, 1);
        clear_routers(&mixed);
        copy_weights(&mixed, &dense);
        train_once(&f, &mixed, options, got);
        train_once(&f, &dense, options, want);
        EXPECT_SAME(got, want, (size_t)f.batch.n_tokens);
        for (int64_t l = 0; l < f.config.n_layers; l++)
            compare_layer(&mixed, &dense, l);
        rig_close(&mixed);
        rig_close(&dense);
    }
    fixture_close(&f);
}

static void a_router_that_is_not_finite_makes_a_loss_of_nan(void)
{
    fixture f;
    fixture_open(&f, "mixtral");
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    const int router = tess_model_find_param(r.model, "model.layers.1.block_sparse_moe.gate.weight");
    r.w32[router][3] = NAN;
    rig_refresh(&r);
    tess_executor *executor =
        rig_executor(&r, (tess_executor_options){.max_tokens = MAX_T, .max_position = f.max_position, .train = true});
    float logprob[MAX_T];
    EXPECT_OK(tess_executor_train(executor, &f.batch, NULL, logprob));
    for (int64_t t = 0; t < f.batch.n_tokens; t++)
        EXPECT(f.batch.targets[t] < 0 || isnan(logprob[t]));
    tess_executor_destroy(&executor);
    rig_close(&r);
    fixture_close(&f);
}

/* An expert's matrices count for the share of tokens that read them. */
static void operations_count_the_chosen_experts(void)
{
    fixture f;
    fixture_open(&f, "mixtral");
    rig all, some;
    tess_model_config config = f.config;
    rig_open(&some, &config, TESS_F32, NULL, 1);
    config.parts.experts.top_k = config.parts.experts.n;
    rig_open(&all, &config, TESS_F32, NULL, 1);
    const double matrices =
        6.0 * 3 * (double)(config.hidden_size * config.parts.experts.size * config.n_layers * config.parts.experts.n);
    const double difference = tess_model_flops_per_token(all.model, 8) - tess_model_flops_per_token(some.model, 8);
    EXPECT(fabs(difference - matrices * 3 / 5) < 1);
    rig_close(&all);
    rig_close(&some);
    fixture_close(&f);
}

/* A router of zeros makes all probabilities 1/E: the balance loss is K, and the z-loss log(E)^2. */
static void backward_counts_tokens_and_auxiliary_losses(void)
{
    fixture f;
    fixture_open(&f, "mixtral");
    tess_model_config config = f.config;
    config.parts.experts.balances = true;
    config.parts.experts.balance = 0.25;
    config.parts.experts.z = 0.5;
    const int64_t L = config.n_layers, E = config.parts.experts.n, K = config.parts.experts.top_k;
    int64_t counts[64] = {0}, n_targets = 0;
    EXPECT(L * E <= 64 && E == 5 && K == 2);
    for (int64_t t = 0; t < f.batch.n_tokens; t++)
        n_targets += f.batch.targets[t] >= 0;
    for (int way = 0; way < 2; way++) {
        tess_expert_loads loads = {.counts = counts};
        memset(counts, 0, sizeof(counts));
        rig r;
        rig_open(&r, &config, way == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        clear_routers(&r);
        float logprob[MAX_T];
        const tess_executor_options options = {.max_tokens = MAX_T,
                                               .max_position = f.max_position,
                                               .train = true,
                                               .recompute = way == 0 ? TESS_RECOMPUTE_NONE : TESS_RECOMPUTE_FULL,
                                               .loads = &loads};
        train_once(&f, &r, options, logprob);
        for (int64_t i = 0; i < L * E; i++)
            EXPECT(counts[i] == (i % E < K ? f.batch.n_tokens : 0));
        const double log_e = log((double)E), want = (double)(n_targets * L) * (0.25 * (double)K + 0.5 * log_e * log_e);
        EXPECT(fabs(tess_exact_value(&loads.aux) / want - 1) < 1e-6);
        rig_close(&r);
    }
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(one_expert_with_all_tokens_is_a_feed_forward),
    CASE(a_router_that_is_not_finite_makes_a_loss_of_nan),
    CASE(operations_count_the_chosen_experts),
    CASE(backward_counts_tokens_and_auxiliary_losses),
};
TEST_MAIN(cases)
