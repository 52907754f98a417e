/* Adapters: parity with what PEFT computes (tools/make_adapter_fixtures.py), their bits, and what is refused. */
#include <math.h>

#include "fixture.h"

static const char *const adapters[] = {"lora_llama", "lora_qwen2", "lora_gpt2", "lora_phi4"};
enum { N_ADAPTERS = sizeof(adapters) / sizeof(adapters[0]) };

static const double logit_limit = 2e-5, gradient_limit = 1e-4;
/* PEFT in bf16 differs from its own float64 by up to 0.056 (logits, llama) and 0.39 (gradients, B of qwen2's q_proj).
 */
static const double bf16_logits = 0.06, bf16_gradients = 0.4;

static void open_case(fixture *f, int index)
{
    fixture_open(f, adapters[index]);
    char folder[256];
    snprintf(folder, sizeof(folder), "%s", fixture_file(adapters[index], ""));
    EXPECT_OK(tess_lora_load(folder, &f->config.lora));
}

static tess_executor_options training(const fixture *f)
{
    return (tess_executor_options){.max_tokens = FIXTURE_TOKENS, .max_position = f->max_position, .train = true};
}

static double distance(const float *a, const float *b, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(error / size);
}

/* float32 by the largest element, bf16 by the whole tensor. */
static void expect_near(const char *what, const float *a, const float *b, size_t n, tess_dtype dtype, double most)
{
    if (dtype == TESS_F32)
        test_expect_close(__FILE__, __LINE__, what, a, b, n, most, 0);
    else if (!(distance(a, b, n) <= most))
        test_fail(__FILE__, __LINE__, "%s: relative error %.3g, allowed %.3g", what, distance(a, b, n), most);
}

static float *all_logits(const fixture *f, tess_executor *e)
{
    int32_t rows[FIXTURE_TOKENS];
    int64_t T = f->batch.n_tokens;
    float *logits = test_alloc((size_t)(T * f->config.vocab_size) * sizeof(float));
    for (int32_t t = 0; t < T; t++)
        rows[t] = t;
    EXPECT_OK(tess_executor_logits(e, &f->batch, rows, T, logits));
    return logits;
}

static void compare(const fixture *f, const char *level, tess_dtype dtype)
{
    rig r;
    float logprob[FIXTURE_TOKENS];
    bool wide = dtype == TESS_F32;
    int64_t T = f->batch.n_tokens, V = f->config.vocab_size;
    rig_open(&r, &f->config, dtype, level, 1);
    tess_executor *e = rig_executor(&r, training(f));
    float *logits = all_logits(f, e);
    const float *expected = f->expected;
    expect_near("logits", logits, expected, (size_t)(T * V), dtype, wide ? logit_limit : bf16_logits);
    expected += T * V;
    EXPECT_OK(tess_executor_train(e, &f->batch, NULL, logprob));
    const json_t *grads = json_object_get(f->json, "grads");
    EXPECT(json_array_size(grads) >= 6);
    for (size_t i = 0; i < json_array_size(grads); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(grads, i), "name"));
        int index = tess_model_find_param(r.model, name);
        EXPECT(index >= 0 && tess_model_param(r.model, index)->adapter);
        size_t n = (size_t)tess_shape_count(&tess_model_param(r.model, index)->shape);
        expect_near(name, r.dw[index], expected, n, dtype, wide ? gradient_limit : bf16_gradients);
        expected += n;
    }
    EXPECT_INT((const char *)expected - (const char *)f->file.data, f->file.size);
    test_free(logits);
    tess_executor_destroy(&e);
    rig_close(&r);
}

static void logits_and_gradients_are_those_of_peft(void)
{
    for (int i = 0; i < 2 * N_ADAPTERS; i++) {
        fixture f;
        open_case(&f, i / 2);
        for (int k = 0; k < N_LEVELS; k++)
            if (have_level(kernel_levels[k]))
                compare(&f, kernel_levels[k], i % 2 == 0 ? TESS_F32 : TESS_BF16);
        fixture_close(&f);
    }
}

/* ---- Bits ---- */
/* Gradients of the adapter, one after the other. */
static float *adapter_gradients(const rig *r, size_t *n)
{
    float *all = test_alloc((size_t)tess_model_count(r->model) * sizeof(float));
    *n = 0;
    for (int i = 0; i < r->n_params; i++) {
        const tess_param *p = tess_model_param(r->model, i);
        size_t count = (size_t)tess_shape_count(&p->shape);
        if (!p->adapter)
            continue;
        memcpy(all + *n, r->dw[i], count * sizeof(float));
        *n += count;
    }
    return all;
}

static float *train_once(rig *r, const fixture *f, tess_executor_options options, size_t *n)
{
    float logprob[FIXTURE_TOKENS];
    tess_executor *e = rig_executor(r, options);
    if (options.split_backward) {
        const tess_range all = {.begin = 0, .end = tess_model_n_units(r->model), .batch = &f->batch};
        EXPECT_OK(tess_executor_forward(e, &all, NULL, NULL));
        EXPECT_OK(tess_executor_backward(e, &all, &(tess_backward){.part = TESS_BACKWARD_INPUT, .logprob = logprob}));
        EXPECT_OK(tess_executor_backward(e, &all, &(tess_backward){.part = TESS_BACKWARD_WEIGHTS}));
    } else {
        EXPECT_OK(tess_executor_train(e, &f->batch, NULL, logprob));
    }
    tess_executor_destroy(&e);
    return adapter_gradients(r, n);
}

static void ways_of_backward_agree(const fixture *f, tess_dtype dtype)
{
    rig r;
    size_t n, again;
    rig_open(&r, &f->config, dtype, NULL, 1);
    float *whole = train_once(&r, f, training(f), &n);
    tess_executor_options options[5] = {training(f), training(f), training(f), training(f), training(f)};
    options[0].recompute = TESS_RECOMPUTE_FULL;
    for (int i = 3; i < 5; i++) {
        options[i].recompute = TESS_RECOMPUTE_SELECTIVE;
        options[i].recompute_groups =
            i == 3 ? TESS_GROUP_FEED_FORWARD | TESS_GROUP_ATTENTION : TESS_GROUP_ATTENTION_INPUTS | TESS_GROUP_RESIDUAL;
    }
    options[1].split_backward = true;
    options[2].first_trainable_unit = tess_model_first_trainable_unit(r.model);
    EXPECT_INT(options[2].first_trainable_unit, 1);
    for (int i = 0; i < 5; i++) {
        for (int p = 0; i == 2 && p < r.n_params; p++)
            if (tess_model_param(r.model, p)->frozen) {
                test_free(r.dw[p]);
                r.dw[p] = NULL;
            }
        float *other = train_once(&r, f, options[i], &again);
        EXPECT_INT(again, n);
        EXPECT_SAME(other, whole, n);
        test_free(other);
    }
    test_free(whole);
    rig_close(&r);
}

static void bits_do_not_depend_on_how_backward_runs(void)
{
    for (int i = 0; i < 2 * N_ADAPTERS; i++) {
        fixture f;
        open_case(&f, i / 2);
        ways_of_backward_agree(&f, i % 2 == 0 ? TESS_F32 : TESS_BF16);
        fixture_close(&f);
    }
}

/* The rows of the first sequence, alone and next to others. */
static void rows_are_independent(void)
{
    for (int i = 0; i < 2 * N_ADAPTERS; i++) {
        fixture f;
        rig r;
        open_case(&f, i / 2);
        rig_open(&r, &f.config, i % 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 2);
        tess_executor *e =
            rig_executor(&r, (tess_executor_options){.max_tokens = FIXTURE_TOKENS, .max_position = f.max_position});
        float *together = all_logits(&f, e);
        f.batch.n_tokens = f.cu_seqlens[1];
        f.batch.n_seqs = 1;
        float *alone = all_logits(&f, e);
        EXPECT_SAME(alone, together, (size_t)(f.batch.n_tokens * f.config.vocab_size));
        test_free(alone);
        test_free(together);
        tess_executor_destroy(&e);
        rig_close(&r);
        fixture_close(&f);
    }
}

/* The model has its old bits while B is zero. */
static void an_adapter_begins_with_no_effect(void)
{
    for (int i = 0; i < 2 * N_ADAPTERS; i++) {
        fixture f;
        rig base, adapted;
        tess_dtype dtype = i % 2 == 0 ? TESS_F32 : TESS_BF16;
        open_case(&f, i / 2);
        rig_open(&adapted, &f.config, dtype, NULL, 1);
        for (int p = 0; p < adapted.n_params; p++) {
            const tess_param *param = tess_model_param(adapted.model, p);
            const tess_box whole = tess_box_whole(&param->shape);
            if (param->adapter)
                tess_param_fill(param, 3, &whole, adapted.w32[p]);
        }
        rig_refresh(&adapted);
        f.config.lora.rank = f.config.lora.n_targets = 0;
        rig_open(&base, &f.config, dtype, NULL, 1);
        tess_executor *e[2] = {rig_executor(&base, training(&f)), rig_executor(&adapted, training(&f))};
        float *logits[2] = {all_logits(&f, e[0]), all_logits(&f, e[1])};
        EXPECT_SAME(logits[1], logits[0], (size_t)(f.batch.n_tokens * f.config.vocab_size));
        for (int k = 0; k < 2; k++) {
            test_free(logits[k]);
            tess_executor_destroy(&e[k]);
        }
        rig_close(&adapted);
        rig_close(&base);
        fixture_close(&f);
    }
}

/* A as PEFT begins it: uniform within 1 / sqrt(in), whatever box of it is filled. */
static void a_is_uniform_and_the_same_in_every_cut(void)
{
    enum { IN = 400, RANK = 32 };
    static float values[RANK * IN], part[RANK / 2 * IN];
    tess_param a = {.name = "x.lora_A.weight",
                    .shape = {2, {RANK, IN}},
                    .init = TESS_INIT_UNIFORM,
                    .init_std = 1 / sqrtf((float)IN)};
    tess_box whole = tess_box_whole(&a.shape), half = {.begin = {RANK / 2}, .size = {RANK / 2, IN}};
    double sum = 0, squares = 0, most = 0;
    tess_param_fill(&a, 1, &whole, values);
    tess_param_fill(&a, 1, &half, part);
    EXPECT_SAME(part, values + RANK / 2 * IN, RANK / 2 * IN);
    for (int i = 0; i < RANK * IN; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
        most = fmax(most, fabs((double)values[i]));
    }
    double variance = squares / (RANK * IN), expected = 1.0 / (3 * IN);
    EXPECT(most <= 0.05 && most > 0.0499);
    EXPECT(fabs(sum / (RANK * IN)) < 1e-3 && fabs(variance / expected - 1) < 0.05);
}

/* ---- Frozen parameters, and refusals ---- */
static void all_but_the_adapter_is_frozen(void)
{
    fixture f;
    rig r;
    open_case(&f, 0);
    f.config.lora.n_targets = 0;
    EXPECT_OK(tess_lora_add_target(&f.config.lora, "all-linear", "lora.targets"));
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    int64_t n = 0, C = 24, F = 40, Q = 24, K = 8, rank = 4;
    for (int i = 0; i < r.n_params; i++) {
        const tess_param *p = tess_model_param(r.model, i);
        EXPECT(p->frozen == !p->adapter);
        n += p->adapter ? tess_shape_count(&p->shape) : 0;
    }
    EXPECT_INT(n, 2 * rank * ((C + Q) + 2 * (C + K) + (Q + C) + 2 * (C + F) + (F + C)));
    tess_lora spelled;
    EXPECT_OK(tess_model_lora(r.model, &spelled));
    EXPECT_INT(spelled.n_targets, 7);
    rig_close(&r);
    fixture_close(&f);
}

static void targets_are_maps_of_the_model(void)
{
    fixture f;
    tess_model *model;
    open_case(&f, 0);
    f.config.lora.n_targets = 0;
    EXPECT_OK(tess_lora_add_target(&f.config.lora, "layers.1.self_attn.q_proj", "lora.targets"));
    EXPECT_OK(tess_model_create(test_mem(), &f.config, &model));
    EXPECT(tess_model_find_param(model, "model.layers.0.self_attn.q_proj.lora_A.weight") < 0);
    EXPECT(tess_model_find_param(model, "model.layers.1.self_attn.q_proj.lora_A.weight") >= 0);
    EXPECT_INT(tess_model_first_trainable_unit(model), 2);
    tess_model_destroy(&model);
    EXPECT_OK(tess_lora_add_target(&f.config.lora, "c_attn", "lora.targets"));
    EXPECT_FAILS(tess_model_create(test_mem(), &f.config, &model), TESS_E_INVALID,
                 "'c_attn' is no linear map of this model's layers: they are q_proj, k_proj, v_proj, o_proj");
    fixture_close(&f);
}

/* Inputs that ranks share cut A by columns, outputs B by rows; the other factor is whole on each. */
static void ranks_that_share_a_map_share_its_adapter(void)
{
    static const struct {
        const char *name;
        int dim; /* dimension that is cut; -1: none */
    } factors[] = {{"model.layers.1.self_attn.q_proj.lora_A.weight", -1},
                   {"model.layers.1.self_attn.q_proj.lora_B.weight", 0},
                   {"model.layers.1.mlp.down_proj.lora_A.weight", 1},
                   {"model.layers.1.mlp.down_proj.lora_B.weight", -1}};
    fixture f;
    tess_model *model;
    open_case(&f, 0);
    f.config.lora.n_targets = 0;
    EXPECT_OK(tess_lora_add_target(&f.config.lora, "all-linear", "lora.targets"));
    for (int k = 0; k < 4; k++) {
        int64_t sum = 0;
        for (int rank = 0; rank < 2; rank++) {
            const tess_model_part part = {0, f.config.n_layers, true, true, NULL, rank, 2};
            EXPECT_OK(tess_model_create_part(test_mem(), &f.config, &part, &model));
            const tess_param *param = tess_model_param(model, tess_model_find_param(model, factors[k].name));
            EXPECT((param->slice.unit > 0) == (factors[k].dim >= 0) && param->slice.dim == (factors[k].dim > 0));
            sum += param->shape.dim[factors[k].dim > 0];
            if (rank == 1)
                EXPECT_INT(sum, (factors[k].dim < 0 ? 2 : 1) * param->slice.whole.dim[factors[k].dim > 0]);
            tess_model_destroy(&model);
        }
    }
    fixture_close(&f);
}

static void parse(const char *text, tess_status status, const char *message)
{
    json_t *json;
    tess_lora lora;
    EXPECT_OK(tess_json_parse(text, strlen(text), "test", true, &json));
    if (status == TESS_OK)
        EXPECT_OK(tess_lora_parse(json, "a/adapter_config.json", &lora));
    else
        EXPECT_FAILS(tess_lora_parse(json, "a/adapter_config.json", &lora), status, message);
    json_decref(json);
}

static void adapters_of_other_kinds_are_refused_by_name(void)
{
    parse("{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [\"q_proj\"], \"bias\": \"none\"}", TESS_OK, NULL);
    parse("{\"r\": 2}", TESS_E_FORMAT, "'peft_type' is missing");
    parse("{\"peft_type\": \"IA3\"}", TESS_E_UNSUPPORTED, "peft_type is 'IA3'");
    parse("{\"peft_type\": \"LORA\", \"r\": 0, \"target_modules\": [\"q\"]}", TESS_E_INVALID, "rank 0");
    parse("{\"peft_type\": \"LORA\", \"lora_alpha\": -1, \"target_modules\": [\"q\"]}", TESS_E_INVALID, "alpha -1");
    parse("{\"peft_type\": \"LORA\", \"target_modules\": []}", TESS_E_INVALID, "no linear map is named");
    parse("{\"peft_type\": \"LORA\", \"target_modules\": \".*q\"}", TESS_E_UNSUPPORTED, "'.*q' is a pattern");
    parse("{\"peft_type\": \"LORA\", \"target_modules\": [\"q\"], \"use_dora\": true}", TESS_E_UNSUPPORTED,
          "'use_dora'");
    parse("{\"peft_type\": \"LORA\", \"target_modules\": [\"q\"], \"bias\": \"all\"}", TESS_E_UNSUPPORTED, "'bias'");
    parse("{\"peft_type\": \"LORA\", \"target_modules\": [\"q\"], \"rank_pattern\": {\"k\": 3}}", TESS_E_UNSUPPORTED,
          "'rank_pattern'");
    parse("{\"peft_type\": \"LORA\", \"target_modules\": [\"q\", \"all-linear\"]}", TESS_E_INVALID, "stands alone");
}

static void a_description_reads_back(void)
{
    json_t *json;
    tess_lora lora = {.rank = 3, .alpha = 2.5, .rslora = true}, again;
    EXPECT_OK(tess_lora_add_target(&lora, "q_proj", "test"));
    EXPECT_OK(tess_lora_to_json(&lora, "base", true, &json));
    EXPECT(json_is_true(json_object_get(json, "fan_in_fan_out")));
    EXPECT_OK(tess_lora_parse(json, "test", &again));
    EXPECT(again.rank == 3 && again.alpha == 2.5 && again.rslora && again.n_targets == 1);
    EXPECT(fabs(tess_lora_scale(&again) - 2.5 / sqrt(3)) < 1e-12);
    json_decref(json);
}

static const test_case cases[] = {
    CASE(logits_and_gradients_are_those_of_peft),
    CASE(bits_do_not_depend_on_how_backward_runs),
    CASE(rows_are_independent),
    CASE(an_adapter_begins_with_no_effect),
    CASE(a_is_uniform_and_the_same_in_every_cut),
    CASE(all_but_the_adapter_is_frozen),
    CASE(targets_are_maps_of_the_model),
    CASE(ranks_that_share_a_map_share_its_adapter),
    CASE(adapters_of_other_kinds_are_refused_by_name),
    CASE(a_description_reads_back),
};
TEST_MAIN(cases)
