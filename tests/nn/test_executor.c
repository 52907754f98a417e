/* The executor: rows are independent, recomputation and threads change no bit, frozen parameters cost nothing, hooks
 * come in order, gradients are derivatives. */
#include <math.h>

#include "derivative.h"
#include "nn/block.h"

enum { MAX_T = FIXTURE_TOKENS };

static tess_executor_options training(const fixture *f)
{
    return (tess_executor_options){.max_tokens = MAX_T, .max_position = f->max_position, .train = true};
}

static tess_executor_options inference(const fixture *f)
{
    return (tess_executor_options){.max_tokens = MAX_T, .max_position = f->max_position};
}

/* ---- Recomputation ---- */

static void train_once(const fixture *f, rig *r, tess_executor_options options, float *logprob)
{
    tess_executor *executor = rig_executor(r, options);
    EXPECT_OK(tess_executor_train(executor, &f->batch, NULL, logprob));
    EXPECT_OK(tess_executor_train(executor, &f->batch, NULL, logprob)); /* buffers are reused */
    tess_executor_destroy(&executor);
}

static void expect_same_gradients(const rig *a, const rig *b)
{
    for (int i = 0; i < a->n_params; i++)
        test_expect_same(__FILE__, __LINE__, tess_model_param(a->model, i)->name, a->dw[i], b->dw[i],
                         (size_t)tess_shape_count(&tess_model_param(a->model, i)->shape), sizeof(float));
}

static void recomputing_layers_changes_no_bit(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        for (int d = 0; d < 2; d++) {
            tess_dtype dtype = d == 0 ? TESS_F32 : TESS_BF16;
            float expected[MAX_T], got[MAX_T];
            rig plain, again;
            rig_open(&plain, &f.config, dtype, NULL, 1);
            train_once(&f, &plain, training(&f), expected);
            rig_open(&again, &f.config, dtype, NULL, 2);
            for (int every = 0; every <= 3; every++) {
                tess_executor_options options = training(&f);
                options.recompute = every == 0 ? TESS_RECOMPUTE_FULL : TESS_RECOMPUTE_EVERY_N;
                options.recompute_every = every;
                train_once(&f, &again, options, got);
                EXPECT_SAME(got, expected, (size_t)f.batch.n_tokens);
                expect_same_gradients(&again, &plain);
            }
            for (int way = 1; way <= 2 * TESS_GROUP_ALL; way++) { /* each set of groups, of all layers and of some */
                tess_executor_options options = training(&f);
                options.recompute = TESS_RECOMPUTE_SELECTIVE;
                options.recompute_groups = (unsigned)(way + 1) / 2;
                options.recompute_choices = way % 2 == 0 ? (way + 2) / 4 : 0;
                train_once(&f, &again, options, got);
                EXPECT_SAME(got, expected, (size_t)f.batch.n_tokens);
                expect_same_gradients(&again, &plain);
            }
            rig_close(&again);
            rig_close(&plain);
        }
        fixture_close(&f);
    }
}

/* The first choice of a budget costs least a byte, by hand; a budget of one byte less takes one choice more. */
static void a_budget_takes_the_cheapest_first(void)
{
    /* A layer of a float32 Llama with C = 64, Q = 64, K = 32, F = 256: operations a byte of gate and up, and of q, k
     * and v: 2 C / 4 = 32; of the stream after attention 2 Q / 4 = 32; of attention 4 Q (length / 2) / (4 Q + 4 H) =
     * 32 / (1 + 4 / 64) = 30.1 at length 64, 120 at 256. */
    static const unsigned orders[2][TESS_N_GROUPS] = {
        {TESS_GROUP_ATTENTION, TESS_GROUP_FEED_FORWARD, TESS_GROUP_ATTENTION_INPUTS, TESS_GROUP_RESIDUAL},
        {TESS_GROUP_FEED_FORWARD, TESS_GROUP_ATTENTION_INPUTS, TESS_GROUP_RESIDUAL, TESS_GROUP_ATTENTION}};
    enum { T = 256, L = 3, C = 64, Q = 64, K = 32, H = 4, F = 256 };
    const size_t widths[] = {[TESS_GROUP_FEED_FORWARD] = 2 * F,
                             [TESS_GROUP_ATTENTION_INPUTS] = Q + 2 * K + 1,
                             [TESS_GROUP_RESIDUAL] = C + 1,
                             [TESS_GROUP_ATTENTION] = Q + H};
    fixture f;
    fixture_open(&f, "llama");
    f.config.n_layers = L;
    f.config.hidden_size = C;
    f.config.n_heads = H;
    f.config.n_kv_heads = K / 16;
    f.config.head_size = 16;
    f.config.intermediate_size = F;
    f.config.max_position = T;
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    for (int i = 0; i < 2; i++) {
        const tess_executor_options plain = {.dtype = TESS_F32,
                                             .max_tokens = T,
                                             .max_position = i == 0 ? 64 : T,
                                             .train = true,
                                             .recompute_groups = TESS_GROUP_ALL};
        size_t expected = tess_executor_bytes(r.model, &plain);
        tess_executor_options o = plain;
        EXPECT_OK(tess_executor_fit(r.model, expected, 0, &o));
        EXPECT_INT(o.recompute, TESS_RECOMPUTE_NONE);
        /* The first layer's share of each group is memory that all layers share. */
        for (int n = 2; n <= L * TESS_N_GROUPS; n++) {
            o = plain;
            expected -= (n - 1) % L == 0 ? 0 : widths[orders[i][(n - 1) / L]] * T * sizeof(float);
            if ((n - 1) % L == 0)
                continue;
            EXPECT_OK(tess_executor_fit(r.model, expected, 0, &o));
            EXPECT_INT(o.recompute, TESS_RECOMPUTE_SELECTIVE);
            EXPECT_INT(o.recompute_choices, n);
            EXPECT_INT(tess_executor_bytes(r.model, &o), expected);
        }
        o = plain;
        o.recompute = TESS_RECOMPUTE_FULL;
        EXPECT_INT(tess_executor_bytes(r.model, &o), expected);
        o = plain;
        EXPECT_FAILS(tess_executor_fit(r.model, expected - 1, 0, &o), TESS_E_INVALID,
                     "for activations, but with all that may be computed again they take");
        o.recompute_groups = TESS_GROUP_RESIDUAL;
        EXPECT_FAILS(tess_executor_fit(r.model, expected, 0, &o), TESS_E_INVALID, "for activations");
    }
    rig_close(&r);
    fixture_close(&f);
}

static void activation_bytes_are_what_the_plan_says(void)
{
    fixture f;
    fixture_open(&f, "llama3");
    rig r;
    rig_open(&r, &f.config, TESS_BF16, NULL, 1);
    size_t bytes[4];
    for (int i = 0; i < 4; i++) {
        tess_executor_options options = i == 0 ? inference(&f) : training(&f);
        options.dtype = TESS_BF16;
        options.recompute = i == 1 ? TESS_RECOMPUTE_FULL : i == 2 ? TESS_RECOMPUTE_EVERY_N : TESS_RECOMPUTE_NONE;
        options.recompute_every = 2;
        size_t before = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes;
        tess_executor *executor = rig_executor(&r, options);
        bytes[i] = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes - before;
        EXPECT_INT(bytes[i], tess_executor_bytes(r.model, &options));
        tess_executor_destroy(&executor);
    }
    EXPECT(bytes[0] < bytes[1] && bytes[1] < bytes[2] && bytes[2] < bytes[3]);
    rig_close(&r);
    fixture_close(&f);
}

/* ---- Frozen parameters ---- */

static bool is_frozen(const tess_param *param, int way)
{
    switch (way) {
    case 0: /* every second parameter */
        return param->unit % 2 == 0 ? strstr(param->name, "o_proj") != NULL : strstr(param->name, "mlp") != NULL;
    case 1: /* matrices */
        return param->shape.n_dims == 2;
    default: /* norms and biases */
        return param->shape.n_dims == 1;
    }
}

/* All but the host's descriptors is given back; what wakes has the bits of what never slept, angles too. */
static void sleep_gives_activations_back_and_changes_no_bit(void)
{
    fixture f;
    rig awake, asleep;
    float expected[MAX_T], got[MAX_T];
    fixture_open(&f, "llama3");
    rig_open(&awake, &f.config, TESS_BF16, NULL, 1);
    rig_open(&asleep, &f.config, TESS_BF16, NULL, 1);
    train_once(&f, &awake, training(&f), expected);
    tess_executor *executor = rig_executor(&asleep, training(&f));
    EXPECT_OK(tess_executor_train(executor, &f.batch, NULL, got));
    const size_t own = tess_executor_bytes(asleep.model, tess_executor_get_options(executor));
    const size_t all = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes;
    EXPECT_OK(tess_executor_wake(executor)); /* nothing sleeps */
    tess_executor_sleep(executor);
    tess_executor_sleep(executor);
    EXPECT(all - tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes > own * 9 / 10);
    EXPECT_FAILS(tess_executor_train(executor, &f.batch, NULL, got), TESS_E_INVALID, "it sleeps");
    EXPECT_OK(tess_executor_wake(executor));
    EXPECT_INT(tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes, all);
    memset(got, 0, sizeof(got));
    EXPECT_OK(tess_executor_train(executor, &f.batch, NULL, got));
    EXPECT_SAME(got, expected, (size_t)f.batch.n_tokens);
    expect_same_gradients(&asleep, &awake);
    tess_executor_destroy(&executor);
    rig_close(&asleep);
    rig_close(&awake);
    fixture_close(&f);
}

static void frozen_parameters_change_no_other_gradient(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        float expected[MAX_T], got[MAX_T];
        rig all;
        rig_open(&all, &f.config, TESS_F32, NULL, 1);
        train_once(&f, &all, training(&f), expected);
        for (int way = 0; way < 3; way++) {
            rig some;
            rig_open(&some, &f.config, TESS_F32, NULL, 1);
            for (int p = 0; p < some.n_params; p++)
                if (is_frozen(tess_model_param(some.model, p), way)) {
                    test_free(some.dw[p]);
                    some.dw[p] = NULL;
                }
            train_once(&f, &some, training(&f), got);
            EXPECT_SAME(got, expected, (size_t)f.batch.n_tokens);
            for (int p = 0; p < some.n_params; p++)
                if (some.dw[p] != NULL)
                    EXPECT_SAME(some.dw[p], all.dw[p],
                                (size_t)tess_shape_count(&tess_model_param(some.model, p)->shape));
            rig_close(&some);
        }
        rig_close(&all);
        fixture_close(&f);
    }
}

/* By hand, in floats a token: what a frozen layer of this Llama does not keep. One tensor passes through all. */
static void frozen_units_keep_nothing(void)
{
    enum { T = 256, C = 24, F = 40, H = 3, Q = 24, K = 8, L = 2 };
    fixture f;
    fixture_open(&f, "llama");
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    tess_executor_options options = {.dtype = TESS_F32, .max_tokens = T, .max_position = f.max_position, .train = true};
    size_t all = tess_executor_bytes(r.model, &options);
    for (int first = 1; first <= L + 1; first++) {
        options.first_trainable_unit = first;
        int n_frozen = first - 1;
        size_t layers = (size_t)n_frozen * (C + 1 + Q + 2 * K + Q + H + C + 1 + 2 * F) * T * sizeof(float);
        EXPECT_INT(tess_executor_bytes(r.model, &options), all - layers + C * T * sizeof(float));
    }
    rig_close(&r);
    fixture_close(&f);
}

/* A narrow layer keeps two narrow streams. The work space, which all units share, stays as wide as the widest. */
static void streams_are_as_wide_as_their_blocks(void)
{
    enum { T = 256, C = 24 };
    fixture f;
    fixture_open(&f, "llama");
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    const tess_executor_options options = {
        .dtype = TESS_F32, .max_tokens = T, .max_position = f.max_position, .train = true};
    const size_t all = tess_executor_bytes(r.model, &options);
    r.model->blocks[1].hidden_size = C / 2;
    EXPECT_INT(tess_executor_bytes(r.model, &options), all - 2 * T * (C / 2) * sizeof(float));
    for (int unit = 0; unit < tess_model_n_units(r.model); unit++)
        r.model->blocks[unit].hidden_size = C / 2;
    EXPECT(tess_executor_bytes(r.model, &options) < all - 2 * T * C * sizeof(float));
    rig_close(&r);
    fixture_close(&f);
}

static void lower_units_may_be_frozen(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        float expected[MAX_T], got[MAX_T];
        rig all;
        rig_open(&all, &f.config, TESS_F32, NULL, 1);
        train_once(&f, &all, training(&f), expected);
        for (int first = 1; first < tess_model_n_units(all.model); first++) {
            rig some;
            rig_open(&some, &f.config, TESS_F32, NULL, 1);
            tess_executor_options options = training(&f);
            options.first_trainable_unit = first;
            for (int p = 0; p < some.n_params; p++)
                if (tess_model_param(some.model, p)->unit < first) {
                    test_free(some.dw[p]);
                    some.dw[p] = NULL;
                }
            train_once(&f, &some, options, got);
            EXPECT_SAME(got, expected, (size_t)f.batch.n_tokens);
            for (int p = 0; p < some.n_params; p++)
                if (some.dw[p] != NULL)
                    EXPECT_SAME(some.dw[p], all.dw[p],
                                (size_t)tess_shape_count(&tess_model_param(some.model, p)->shape));
            rig_close(&some);
        }
        rig_close(&all);
        fixture_close(&f);
    }
}

/* ---- Hooks ---- */

typedef struct recorder {
    tess_hooks inner;
    char text[4096];
    size_t size;
    int fail_at; /* unit whose pre_backward fails; -1: none */
} recorder;

static void note(recorder *rec, const char *what, int unit)
{
    rec->size += (size_t)snprintf(rec->text + rec->size, sizeof(rec->text) - rec->size, "%s%s%d",
                                  rec->size > 0 ? " " : "", what, unit);
}

static tess_status note_pre_forward(void *self, int unit, const void *const **w)
{
    recorder *rec = self;
    note(rec, "f", unit);
    return rec->inner.pre_forward != NULL ? rec->inner.pre_forward(rec->inner.self, unit, w) : TESS_OK;
}

static tess_status note_post_forward(void *self, int unit)
{
    note(self, "/f", unit);
    return TESS_OK;
}

static tess_status note_pre_backward(void *self, int unit, const void *const **w, float *const **dw)
{
    recorder *rec = self;
    note(rec, "b", unit);
    if (unit == rec->fail_at)
        return TESS_FAIL(TESS_E_PEER_LOST, "rank 3 was lost");
    return rec->inner.pre_backward != NULL ? rec->inner.pre_backward(rec->inner.self, unit, w, dw) : TESS_OK;
}

static tess_status note_post_backward(void *self, int unit)
{
    note(self, "/b", unit);
    return TESS_OK;
}

static void hooks_come_in_order_and_their_errors_name_the_unit(void)
{
    static const char *const expected[] = {
        "f0 /f0 f1 /f1 f2 /f2 f3 /f3 b3 /b3 b2 /b2 b1 /b1 b0 /b0 f0 /f0 f1 /f1 f2 /f2 f3 /f3",
        "f0 /f0 f1 /f1 f2 /f2 f3 /f3 b3 b0 /b3 b2 /b2 b1 /b1 /b0 f0 /f0 f1 /f1 f2 /f2 f3 f0 /f0 /f3",
    };
    for (int tied = 0; tied < 2; tied++) {
        fixture f;
        fixture_open(&f, tied ? "llama_biases" : "llama");
        rig r;
        rig_open(&r, &f.config, TESS_F32, NULL, 1);
        recorder rec = {.inner = r.hooks, .fail_at = -1};
        tess_hooks hooks = {&rec, note_pre_forward, note_post_forward, note_pre_backward, note_post_backward};
        tess_executor_options options = training(&f);
        tess_executor *executor;
        EXPECT_OK(tess_executor_create(r.stream, r.model, &hooks, &options, &executor));
        float logprob[MAX_T];
        EXPECT_OK(tess_executor_train(executor, &f.batch, NULL, logprob));
        EXPECT_OK(tess_executor_logprobs(executor, &f.batch, 1, logprob, NULL));
        EXPECT_TEXT(rec.text, expected[tied]);
        rec.fail_at = 1;
        EXPECT_FAILS(tess_executor_train(executor, &f.batch, NULL, logprob), TESS_E_PEER_LOST,
                     "model.layers.0: backward: rank 3 was lost");
        tess_executor_destroy(&executor);
        rig_close(&r);
        fixture_close(&f);
    }
}

/* A layer's input part needs its weights alone; its gradients' window opens in the weight part. */
static void ranges_call_the_hooks_of_their_units(void)
{
    fixture f;
    fixture_open(&f, "llama");
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    recorder rec = {.inner = r.hooks, .fail_at = -1};
    tess_hooks hooks = {&rec, note_pre_forward, note_post_forward, note_pre_backward, note_post_backward};
    tess_executor_options options = training(&f);
    options.split_backward = true;
    tess_executor *executor;
    float h[MAX_T * 24], dh[MAX_T * 24], logprob[MAX_T];
    tess_range lower = {0, 0, 2, &f.batch}, upper = {0, 2, 4, &f.batch};
    EXPECT_OK(tess_executor_create(r.stream, r.model, &hooks, &options, &executor));
    EXPECT_OK(tess_executor_forward(executor, &lower, NULL, h));
    EXPECT_OK(tess_executor_forward(executor, &upper, h, NULL));
    EXPECT_TEXT(rec.text, "f0 /f0 f1 /f1 f2 /f2");
    rec.size = 0;
    tess_backward b = {.part = TESS_BACKWARD_INPUT, .din = dh, .logprob = logprob};
    EXPECT_OK(tess_executor_backward(executor, &upper, &b));
    b = (tess_backward){.part = TESS_BACKWARD_INPUT, .dout = dh};
    EXPECT_OK(tess_executor_backward(executor, &lower, &b));
    EXPECT_TEXT(rec.text, "f3 /f3 b3 /b3 f2 /f2 f1 /f1");
    rec.size = 0;
    b = (tess_backward){.part = TESS_BACKWARD_WEIGHTS};
    EXPECT_OK(tess_executor_backward(executor, &lower, &b));
    EXPECT_OK(tess_executor_backward(executor, &upper, &b));
    EXPECT_TEXT(rec.text, "b1 /b1 b0 /b0 b2 /b2");

    tess_executor_destroy(&executor);
    rig_close(&r);
    fixture_close(&f);
}

/* ---- Gradients are derivatives ---- */

static double total(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

typedef struct plain_loss {
    const fixture *f;
    tess_executor *executor;
} plain_loss;

static double plain_loss_of(void *self)
{
    plain_loss *l = self;
    float logprob[MAX_T];
    EXPECT_OK(tess_executor_logprobs(l->executor, &l->f->batch, 1, logprob, NULL));
    return -total(logprob, l->f->batch.n_tokens);
}

static void gradient_is_the_derivative_of_the_loss(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        rig r;
        choose_all_experts(&f.config);
        rig_open(&r, &f.config, TESS_F32, "ref", 1);
        plain_loss loss = {&f, rig_executor(&r, training(&f))};
        float logprob[MAX_T];
        EXPECT_OK(tess_executor_train(loss.executor, &f.batch, NULL, logprob));
        expect_derivative(fixture_names[i], &r, plain_loss_of, &loss);
        tess_executor_destroy(&loss.executor);
        rig_close(&r);
        fixture_close(&f);
    }
}

/* ---- Edges ---- */

/* More rows than a chunk of the head holds: gradients accumulate over chunks. */
static void head_sums_gradients_over_chunks_of_rows(void)
{
    fixture f;
    fixture_open(&f, "llama");
    enum { T = 2500 };
    int32_t *ids = test_alloc(T * sizeof(int32_t)), *pos = test_alloc(T * sizeof(int32_t));
    int32_t *targets = test_alloc(T * sizeof(int32_t)), *cu_seqlens = test_alloc((T / 25 + 1) * sizeof(int32_t));
    for (int32_t t = 0; t < T; t++) {
        ids[t] = (int32_t)(tess_rng_u64(1, TESS_RNG_TEST, 0, (uint64_t)t) % 97);
        targets[t] = t % 6 == 0 ? -1 : (int32_t)(tess_rng_u64(1, TESS_RNG_TEST, 1, (uint64_t)t) % 97);
        pos[t] = t % 25;
    }
    for (int32_t i = 0; i <= T / 25; i++)
        cu_seqlens[i] = 25 * i;
    for (int d = 0; d < 2; d++) {
        rig whole, part;
        rig_open(&whole, &f.config, d == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        rig_open(&part, &f.config, d == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        tess_executor_options options = {.max_tokens = T, .max_position = 25, .train = true};
        tess_executor *all = rig_executor(&whole, options);
        tess_executor *one = rig_executor(&part, options);
        float *logprob = test_alloc(T * sizeof(float)), *again = test_alloc(T * sizeof(float));
        tess_batch batch = {
            .n_tokens = T, .n_seqs = T / 25, .ids = ids, .pos = pos, .targets = targets, .cu_seqlens = cu_seqlens};
        EXPECT_OK(tess_executor_train(all, &batch, NULL, logprob));
        int head = whole.n_params - 1;
        EXPECT_TEXT(tess_model_param(whole.model, head)->name, "lm_head.weight");
        size_t n = (size_t)tess_shape_count(&tess_model_param(whole.model, head)->shape);
        float *sum = test_alloc(n * sizeof(float));
        for (int32_t begin = 0; begin < T; begin += 25) {
            int32_t bounds[] = {0, 25};
            tess_batch sequence = {.n_tokens = 25,
                                   .n_seqs = 1,
                                   .ids = ids + begin,
                                   .pos = pos + begin,
                                   .targets = targets + begin,
                                   .cu_seqlens = bounds};
            EXPECT_OK(tess_executor_train(one, &sequence, NULL, again + begin));
            for (size_t k = 0; k < n; k++)
                sum[k] += part.dw[head][k];
        }
        EXPECT_SAME(logprob, again, T);
        EXPECT_CLOSE(whole.dw[head], sum, n, 1e-5, 0);
        for (int32_t t = 0; t < T; t++)
            EXPECT((logprob[t] == 0) == (targets[t] < 0));
        test_free(sum);
        test_free(logprob);
        test_free(again);
        tess_executor_destroy(&all);
        tess_executor_destroy(&one);
        rig_close(&whole);
        rig_close(&part);
    }
    test_free(ids);
    test_free(pos);
    test_free(targets);
    test_free(cu_seqlens);
    fixture_close(&f);
}

static void an_empty_batch_gives_zero_gradients(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        rig r;
        rig_open(&r, &f.config, TESS_BF16, NULL, 1);
        tess_executor *executor = rig_executor(&r, training(&f));
        tess_batch batch = f.batch;
        batch.n_tokens = batch.n_seqs = 0;
        float logprob[1];
        EXPECT_OK(tess_executor_train(executor, &batch, NULL, logprob));
        for (int p = 0; p < r.n_params; p++) {
            int64_t n = tess_shape_count(&tess_model_param(r.model, p)->shape);
            for (int64_t k = 0; k < n; k++)
                if (r.dw[p][k] != 0)
                    test_fail(__FILE__, __LINE__, "%s[%lld] is %g", tess_model_param(r.model, p)->name, (long long)k,
                              r.dw[p][k]);
        }
        tess_executor_destroy(&executor);
        rig_close(&r);
        fixture_close(&f);
    }
}

static void bad_batches_and_options_are_refused(void)
{
    fixture f;
    fixture_open(&f, "llama");
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    tess_executor *executor = rig_executor(&r, inference(&f));
    float out[MAX_T];
    EXPECT_FAILS(tess_executor_train(executor, &f.batch, NULL, out), TESS_E_INVALID, "train is false");
    tess_batch batch = f.batch;
    batch.targets = NULL;
    EXPECT_FAILS(tess_executor_logprobs(executor, &batch, 1, out, NULL), TESS_E_INVALID, "need targets");
    batch = f.batch;
    batch.n_tokens = MAX_T + 1;
    EXPECT_FAILS(tess_executor_logprobs(executor, &batch, 1, out, NULL), TESS_E_INVALID, "65 tokens");
    f.ids[4] = 97;
    EXPECT_FAILS(tess_executor_logprobs(executor, &f.batch, 1, out, NULL), TESS_E_INVALID, "token 4 is id 97");
    f.ids[4] = 1;
    f.targets[5] = -2;
    EXPECT_FAILS(tess_executor_logprobs(executor, &f.batch, 1, out, NULL), TESS_E_INVALID,
                 "target of token 5 is id -2");
    f.targets[5] = -1;
    f.pos[6] = 40;
    EXPECT_FAILS(tess_executor_logprobs(executor, &f.batch, 1, out, NULL), TESS_E_INVALID, "token 6 is at position 40");
    f.pos[6] = 6;
    f.cu_seqlens[1] = 50;
    EXPECT_FAILS(tess_executor_logprobs(executor, &f.batch, 1, out, NULL), TESS_E_INVALID, "sequence 0 spans");
    f.cu_seqlens[1] = 13;
    f.cu_seqlens[3] = 35;
    EXPECT_FAILS(tess_executor_logprobs(executor, &f.batch, 1, out, NULL), TESS_E_INVALID, "cover 36 tokens");
    tess_executor_destroy(&executor);

    tess_executor_options options = {.dtype = TESS_U8, .max_tokens = 8, .max_position = 8};
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &executor), TESS_E_UNSUPPORTED, "uint8");
    options.dtype = TESS_F32;
    options.max_position = 65;
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &executor), TESS_E_INVALID,
                 "sequences of 65 tokens, but the model allows 1 to 64");
    rig_close(&r);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(recomputing_layers_changes_no_bit),
    CASE(a_budget_takes_the_cheapest_first),
    CASE(activation_bytes_are_what_the_plan_says),
    CASE(sleep_gives_activations_back_and_changes_no_bit),
    CASE(frozen_parameters_change_no_other_gradient),
    CASE(frozen_units_keep_nothing),
    CASE(streams_are_as_wide_as_their_blocks),
    CASE(lower_units_may_be_frozen),
    CASE(hooks_come_in_order_and_their_errors_name_the_unit),
    CASE(ranges_call_the_hooks_of_their_units),
    CASE(gradient_is_the_derivative_of_the_loss),
    CASE(head_sums_gradients_over_chunks_of_rows),
    CASE(an_empty_batch_gives_zero_gradients),
    CASE(bad_batches_and_options_are_refused),
};
TEST_MAIN(cases)
