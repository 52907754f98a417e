/* Parity with Hugging Face: compares with what transformers computes from the same config and weights. */
#include <math.h>

#include "fixture.h"

/* The outputs of transformers in bf16 on these models differ from its own float64 by up to 0.035 (logits) and 0.095
 * (gradients).
 *
 * The limit of gradients is one of these models, not of all. The gradient of k_proj.bias passes it first: a softmax
 * does not see what is added to all keys alike, so without rope that gradient is 0, and with rope it is a sum over
 * tokens of which 6% to 21% remain (of v_proj.bias 21% to 50%). Its relative error is so much larger than that of its
 * addends. qwen2_layers with 6 heads: 0.15 here, 0.17 in transformers, and 0.16 in float64 if the weights alone are
 * bf16. So it is rounding; in float32 these models agree to 1e-5. Change a model's shape, and ask transformers for the
 * limit. */
static const double bf16_logits = 0.05, bf16_gradients = 0.15;

static int param_index(const tess_model *model, const char *name)
{
    for (int i = 0; i < tess_model_n_params(model); i++)
        if (strcmp(tess_model_param(model, i)->name, name) == 0)
            return i;
    test_fail(__FILE__, __LINE__, "transformers has parameter '%s', we do not", name);
}

/* |a - b| / |b| over whole tensors: the error of rounding to bf16. */
static void expect_near(const char *what, const float *a, const float *b, size_t n, double most)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    if (!(error <= most * most * size))
        test_fail(__FILE__, __LINE__, "%s: relative error %.3g, allowed %.3g", what, sqrt(error / size), most);
}

static void compare_logits(const fixture *f, tess_executor *executor, double rtol)
{
    int64_t T = f->batch.n_tokens, V = f->config.vocab_size;
    float *logits = test_alloc((size_t)(T * V) * sizeof(float));
    int32_t all[FIXTURE_TOKENS];
    for (int32_t t = 0; t < T; t++)
        all[t] = t;
    EXPECT_OK(tess_executor_logits(executor, &f->batch, all, T, logits));
    const float *expected = f->expected;
    if (rtol < bf16_logits)
        for (int64_t t = 0; t < T; t++)
            EXPECT_CLOSE(logits + t * V, expected + t * V, (size_t)V, rtol, 0);
    else
        expect_near("logits", logits, expected, (size_t)(T * V), rtol);

    const int32_t some[] = {(int32_t)T - 1, 0, (int32_t)T / 2, 0};
    float *rows = test_alloc(4 * (size_t)V * sizeof(float));
    EXPECT_OK(tess_executor_logits(executor, &f->batch, some, 4, rows));
    for (int i = 0; i < 4; i++)
        EXPECT_SAME(rows + i * V, logits + some[i] * V, (size_t)V);
    test_free(rows);
    test_free(logits);
}

/* Log-probabilities and entropies of a temperature, from transformers' logits in float64. */
static void compare_temperature(const fixture *f, tess_executor *executor, float inv_temperature)
{
    int64_t T = f->batch.n_tokens, V = f->config.vocab_size;
    float logprob[FIXTURE_TOKENS], entropy[FIXTURE_TOKENS], want[2][FIXTURE_TOKENS] = {0};
    EXPECT_OK(tess_executor_logprobs(executor, &f->batch, inv_temperature, logprob, entropy));
    for (int64_t t = 0; t < T; t++) {
        const float *logits = f->expected + t * V;
        double sum_e = 0, weighted = 0;
        for (int64_t v = 0; v < V; v++) { /* small logits: nothing overflows */
            double z = (double)logits[v] * (double)inv_temperature;
            sum_e += exp(z);
            weighted += z * exp(z);
        }
        if (f->batch.targets[t] < 0)
            continue;
        want[0][t] = (float)((double)logits[f->batch.targets[t]] * (double)inv_temperature - log(sum_e));
        want[1][t] = (float)(log(sum_e) - weighted / sum_e);
    }
    EXPECT_CLOSE(logprob, want[0], (size_t)T, 1e-5, 0);
    EXPECT_CLOSE(entropy, want[1], (size_t)T, 1e-5, 0);
}

static double sum(const float *x, int64_t n)
{
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += x[i];
    return total;
}

static void compare_gradients(const fixture *f, const rig *r, double rtol)
{
    const json_t *grads = json_object_get(f->json, "grads");
    const float *expected = f->expected + f->batch.n_tokens * f->config.vocab_size;
    int n_trained = 0;
    for (int i = 0; i < r->n_params; i++)
        n_trained += !tess_model_param(r->model, i)->frozen;
    EXPECT_INT(json_array_size(grads), n_trained);
    for (size_t i = 0; i < json_array_size(grads); i++) {
        const json_t *grad = json_array_get(grads, i), *shape = json_object_get(grad, "shape");
        const char *name = json_string_value(json_object_get(grad, "name"));
        int index = param_index(r->model, name);
        const tess_param *param = tess_model_param(r->model, index);
        EXPECT_INT(param->shape.n_dims, json_array_size(shape));
        for (int d = 0; d < param->shape.n_dims; d++)
            EXPECT_INT(param->shape.dim[d], json_integer_value(json_array_get(shape, (size_t)d)));
        size_t n = (size_t)tess_shape_count(&param->shape);
        if (rtol < bf16_gradients)
            test_expect_close(__FILE__, __LINE__, name, r->dw[index], expected, n, rtol, 0);
        else
            expect_near(name, r->dw[index], expected, n, rtol);
        expected += n;
    }
    EXPECT_INT((const char *)expected - (const char *)f->file.data, f->file.size);
}

static void check_level(const fixture *f, const char *level, tess_dtype dtype, double logit_rtol, double grad_rtol)
{
    rig r;
    rig_open(&r, &f->config, dtype, level, 1);
    tess_executor *executor = rig_executor(
        &r, (tess_executor_options){.max_tokens = FIXTURE_TOKENS, .max_position = f->max_position, .train = true});
    compare_logits(f, executor, logit_rtol);
    for (int i = 0; i < 3 && dtype == TESS_F32; i++)
        compare_temperature(f, executor, (const float[]){0.25f, 1, 3}[i]);
    float logprob[FIXTURE_TOKENS];
    EXPECT_OK(tess_executor_train(executor, &f->batch, NULL, logprob));
    float loss = -(float)sum(logprob, f->batch.n_tokens), expected = (float)f->loss;
    EXPECT_CLOSE(&loss, &expected, 1, logit_rtol, 0);
    compare_gradients(f, &r, grad_rtol);
    tess_executor_destroy(&executor);
    rig_close(&r);
}

static void fp32_logits_loss_and_gradients_agree_with_transformers(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        for (int k = 0; k < N_LEVELS; k++)
            if (have_level(kernel_levels[k]))
                check_level(&f, kernel_levels[k], TESS_F32, 1e-5, 1e-5);
        fixture_close(&f);
    }
}

static void bf16_is_close_to_transformers_fp32(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        for (int k = 0; k < N_LEVELS; k++)
            if (have_level(kernel_levels[k]))
                check_level(&f, kernel_levels[k], TESS_BF16, bf16_logits, bf16_gradients);
        fixture_close(&f);
    }
}

static void greedy_tokens_agree_with_transformers(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        int32_t expected[FIXTURE_TOKENS], ids[FIXTURE_TOKENS], pos[FIXTURE_TOKENS];
        int64_t n_new = fixture_list(f.json, "greedy", expected, FIXTURE_TOKENS), V = f.config.vocab_size;
        int32_t n = (int32_t)json_integer_value(json_object_get(f.json, "prompt")), prompt = n;
        for (int32_t t = 0; t < FIXTURE_TOKENS; t++)
            pos[t] = t;
        memcpy(ids, f.ids, (size_t)n * sizeof(ids[0]));
        rig r;
        rig_open(&r, &f.config, TESS_F32, NULL, 1);
        tess_executor *executor =
            rig_executor(&r, (tess_executor_options){.max_tokens = FIXTURE_TOKENS, .max_position = f.max_position});
        float *logits = test_alloc((size_t)V * sizeof(float));
        for (int64_t k = 0; k < n_new; k++, n++) {
            int32_t cu_seqlens[] = {0, n}, last = n - 1, best = 0;
            tess_batch batch = {.n_tokens = n, .n_seqs = 1, .ids = ids, .pos = pos, .cu_seqlens = cu_seqlens};
            EXPECT_OK(tess_executor_logits(executor, &batch, &last, 1, logits));
            for (int32_t v = 1; v < V; v++)
                if (logits[v] > logits[best])
                    best = v;
            ids[n] = best;
        }
        EXPECT_SAME(ids + prompt, expected, (size_t)n_new);
        test_free(logits);
        tess_executor_destroy(&executor);
        rig_close(&r);
        fixture_close(&f);
    }
}

/* The logits of the first `n` tokens of the fixture by an executor for sequences of up to `max_position`. */
static void logits_of(const fixture *f, int64_t limit, int64_t max_position, int32_t n, float *logits)
{
    rig r;
    tess_model_config config = f->config;
    int32_t rows[FIXTURE_TOKENS], cu_seqlens[] = {0, n};
    for (int32_t t = 0; t < n; t++)
        rows[t] = t;
    tess_batch batch = {.n_tokens = n, .n_seqs = 1, .ids = f->ids, .pos = f->pos, .cu_seqlens = cu_seqlens};
    config.max_length = 0;
    EXPECT_OK(tess_model_config_set_max_length(&config, limit, "limit"));
    rig_open(&r, &config, TESS_F32, NULL, 1);
    tess_executor *executor = NULL;
    tess_executor_options options = {.dtype = TESS_F32, .max_tokens = FIXTURE_TOKENS, .max_position = max_position};
    options.max_position = tess_model_config_max_length(&config) + 1;
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &executor), TESS_E_INVALID,
                 "max_position_embeddings");
    options.max_position = max_position;
    executor = rig_executor(&r, options);
    EXPECT_OK(tess_executor_logits(executor, &batch, rows, n, logits));
    tess_executor_destroy(&executor);
    rig_close(&r);
}

/* transformers scales by the length of the text that it is given; only at the limit that is the same. */
static void dynamic_rope_is_of_the_limit_and_not_of_the_request(void)
{
    fixture f;
    fixture_open(&f, "llama_dynamic");
    enum { N = 12 };
    size_t n = (size_t)(N * f.config.vocab_size);
    float *a = test_alloc(n * sizeof(float)), *b = test_alloc(n * sizeof(float));
    logits_of(&f, 0, 12, N, a); /* no limit stated: the 16 positions of the model */
    logits_of(&f, 0, 16, N, b);
    EXPECT_SAME(a, b, n);
    logits_of(&f, 14, 14, N, b); /* a limit below them scales nothing */
    EXPECT_SAME(a, b, n);
    logits_of(&f, f.batch.n_tokens, f.batch.n_tokens, N, a);
    EXPECT_CLOSE(a, f.expected, n, 1e-5, 0);
    EXPECT(memcmp(a, b, n * sizeof(float)) != 0);
    logits_of(&f, f.batch.n_tokens, N, N, b);
    EXPECT_SAME(a, b, n);
    test_free(a);
    test_free(b);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(fp32_logits_loss_and_gradients_agree_with_transformers),
    CASE(bf16_is_close_to_transformers_fp32),
    CASE(greedy_tokens_agree_with_transformers),
    CASE(dynamic_rope_is_of_the_limit_and_not_of_the_request),
};
TEST_MAIN(cases)
