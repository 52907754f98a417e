/* A head of one output: its values are a column of logits, its derivatives arrive in the weights, also where it stands
 * next to a language model's, and the two are not mistaken. */
#include "derivative.h"

enum { MAX_T = FIXTURE_TOKENS };

static tess_executor_options training(const fixture *f)
{
    return (tess_executor_options){.max_tokens = MAX_T, .max_position = f->max_position, .train = true};
}

static tess_status values_of(tess_executor *executor, const tess_model_config *config, const tess_batch *batch,
                             float *value)
{
    const tess_range all = {0, 0, (int)config->n_layers + 2, batch};
    return tess_executor_score(executor, &all, NULL, NULL, &(tess_head_task){.values = value});
}

static tess_model_config of_one_output(const tess_model_config *config)
{
    tess_model_config one = *config;
    one.n_outputs = 1;
    one.tied = false;
    return one;
}

/* ---- A loss ---- */
typedef struct graded {
    const tess_batch *batch;
    tess_token_loss loss;
    tess_executor *executor;
    double value; /* value of the last micro-batch */
    int n_calls;
    float shown[4096];
} graded;

/* (v - 0.3 (t mod 5))^2 / 2 + v / 8 of every row, with a target or not. */
static tess_status grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    graded *g = self;
    EXPECT(n == g->batch->n_tokens);
    g->n_calls++;
    for (int64_t i = 0; i < n; i++) {
        double off = value[i] - 0.3 * (double)(i % 5);
        EXPECT(dvalue[i] == 0);
        g->shown[i] = value[i];
        g->value += off * off / 2 + value[i] / 8;
        dvalue[i] = (float)(off + 0.125);
    }
    return TESS_OK;
}

static void open_graded(graded *g, rig *r, const tess_batch *batch, tess_executor_options options)
{
    *g = (graded){.batch = batch, .executor = rig_executor(r, options)};
    g->loss = (tess_token_loss){.self = g, .grade_values = grade_values};
}

static double train_graded(void *self)
{
    graded *g = self;
    float value[MAX_T];
    g->value = 0;
    EXPECT_OK(tess_executor_train(g->executor, g->batch, &g->loss, value));
    EXPECT_SAME(value, g->shown, (size_t)g->batch->n_tokens);
    return g->value;
}

static void derivatives_by_values_arrive_in_the_weights(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        rig r;
        graded g;
        fixture_open(&f, fixture_names[i]);
        choose_all_experts(&f.config);
        tess_model_config config = of_one_output(&f.config);
        rig_open(&r, &config, TESS_F32, "ref", 1);
        open_graded(&g, &r, &f.batch, training(&f));
        EXPECT(train_graded(&g) != 0);
        expect_derivative(fixture_names[i], &r, train_graded, &g);
        EXPECT(g.n_calls > 1);
        tess_executor_destroy(&g.executor);
        rig_close(&r);
        fixture_close(&f);
    }
}

/* ---- Values ---- */
/* The score is row 5 of a language model's head: its values are that column of the logits, also of an executor that
 * cannot train and of a batch without targets. */
static void values_are_the_bits_of_a_column_of_logits(void)
{
    for (int i = 0; i < 2 * N_FIXTURES; i++) {
        fixture f;
        rig one, all;
        graded g;
        int32_t rows[MAX_T];
        float value[MAX_T], trained[MAX_T];
        fixture_open(&f, fixture_names[i / 2]);
        tess_model_config config = of_one_output(&f.config), untied = f.config;
        untied.tied = false;
        untied.factors.logits_divisor = untied.factors.logits = untied.factors.logit_cap = 0; /* not of values */
        rig_open(&one, &config, i % 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 2);
        rig_open(&all, &untied, one.dtype, NULL, 1);
        EXPECT_INT(one.n_params, all.n_params);
        int64_t C = config.hidden_size, T = f.batch.n_tokens, V = untied.vocab_size;
        memcpy(one.w32[one.n_params - 1], all.w32[all.n_params - 1] + 5 * C, (size_t)C * sizeof(float));
        rig_refresh(&one);
        float *logits = test_alloc((size_t)(T * V) * sizeof(float));
        for (int32_t t = 0; t < T; t++)
            rows[t] = t;
        tess_executor *lm = rig_executor(&all, training(&f)), *evaluation;
        EXPECT_OK(tess_executor_logits(lm, &f.batch, rows, T, logits));
        tess_executor_options options = training(&f);
        options.train = false;
        evaluation = rig_executor(&one, options);
        tess_batch batch = f.batch;
        batch.targets = NULL;
        EXPECT_OK(values_of(evaluation, &f.config, &batch, value));
        open_graded(&g, &one, &f.batch, training(&f));
        EXPECT_OK(tess_executor_train(g.executor, &f.batch, &g.loss, trained));
        EXPECT_SAME(trained, value, (size_t)T);
        for (int64_t t = 0; t < T; t++)
            if (memcmp(&value[t], &logits[t * V + 5], sizeof(float)) != 0)
                test_fail(__FILE__, __LINE__, "%s: value of row %d is %a, the logit %a", fixture_names[i / 2], (int)t,
                          (double)value[t], (double)logits[t * V + 5]);
        tess_executor_destroy(&g.executor);
        tess_executor_destroy(&evaluation);
        tess_executor_destroy(&lm);
        test_free(logits);
        rig_close(&all);
        rig_close(&one);
        fixture_close(&f);
    }
}

/* ---- Values of others ---- */
/* tools/make_value_fixtures.py: trl's head stands next to a language model's, and may also be a model's only one. */
static void compare_case(const char *name, const json_t *json, bool alone)
{
    tess_model_config config;
    rig r;
    const json_t *sequences = json_object_get(json, "sequences"), *values = json_object_get(json, "values");
    bool trl = strcmp(json_string_value(json_object_get(json, "kind")), "trl") == 0;
    size_t at = 0;
    EXPECT_OK(tess_model_config_parse(json_object_get(json, "config"), name, &config));
    EXPECT(trl ? config.n_outputs == 0 : config.n_outputs == 1);
    config.value_head = trl;
    if (alone) {
        config.n_outputs = 1;
        config.tied = false;
    }
    rig_open(&r, &config, TESS_F32, NULL, 2);
    tess_executor *e = rig_executor(&r, (tess_executor_options){.max_tokens = 16, .max_position = 16});
    for (size_t i = 0; i < json_array_size(sequences); i++) {
        int32_t ids[16], pos[16];
        float value[16];
        const int64_t n = (int64_t)json_array_size(json_array_get(sequences, i));
        const int32_t cu[] = {0, (int32_t)n};
        for (int32_t t = 0; t < n; t++) {
            ids[t] = (int32_t)json_integer_value(json_array_get(json_array_get(sequences, i), (size_t)t));
            pos[t] = t;
        }
        const tess_batch batch = {.n_tokens = n, .n_seqs = 1, .ids = ids, .pos = pos, .cu_seqlens = cu};
        EXPECT_OK(values_of(e, &config, &batch, value));
        for (int64_t t = 0; t < n; t++) {
            double want = json_real_value(json_array_get(values, at++));
            if (!(fabs(value[t] - want) <= 1e-5 * (1 + fabs(want))))
                test_fail(__FILE__, __LINE__, "%s: sequence %zu, token %d: value %.9g, expected %.9g", name, i, (int)t,
                          (double)value[t], want);
        }
    }
    EXPECT(at == json_array_size(values) && at > 0);
    tess_executor_destroy(&e);
    rig_close(&r);
}

static void values_are_those_of_verl_s_and_trl_s_models(void)
{
    json_t *cases;
    const char *name;
    json_t *one;
    int n = 0;
    EXPECT_OK(tess_json_load(test_path("nn/fixtures/values.json"), 1 << 20, &cases));
    json_object_foreach (cases, name, one) {
        compare_case(name, one, false);
        if (strcmp(json_string_value(json_object_get(one, "kind")), "trl") == 0)
            compare_case(name, one, true);
        n++;
    }
    EXPECT_INT(n, 9);
    json_decref(cases);
}

/* ---- More rows than two chunks ---- */
enum { LONG = 2500, LENGTH = 25 };

/* The score's gradient in float64 from the values' derivatives and the final norm's output, which the watch sees. */
typedef struct normed {
    float *y;
    int64_t C;
    int n_values;
} normed;

static void see(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                int64_t row)
{
    normed *n = self;
    (void)unit;
    if (strcmp(what, "final norm") == 0) {
        EXPECT(dtype == TESS_F32 && first == 0 && n_rows == LONG && row == n->C);
        memcpy(n->y, data, (size_t)(n_rows * row) * sizeof(float));
    }
    n->n_values += strcmp(what, "values") == 0 && n_rows == LONG && row == 1;
    EXPECT(strcmp(what, "log-probabilities") != 0);
}

static void gradients_of_more_rows_than_a_chunk_add_up(void)
{
    fixture f;
    rig r;
    static graded g;
    static float value[LONG];
    fixture_open(&f, "llama");
    tess_model_config config = of_one_output(&f.config);
    rig_open(&r, &config, TESS_F32, NULL, 2);
    int32_t *ids = test_alloc(LONG * sizeof(int32_t)), *pos = test_alloc(LONG * sizeof(int32_t));
    int32_t *targets = test_alloc(LONG * sizeof(int32_t)), cu_seqlens[LONG / LENGTH + 1];
    for (int32_t t = 0; t < LONG; t++) {
        ids[t] = (int32_t)(tess_rng_u64(1, TESS_RNG_TEST, 0, (uint64_t)t) % 97);
        targets[t] = t % 3 - 1;
        pos[t] = t % LENGTH;
    }
    for (int32_t i = 0; i <= LONG / LENGTH; i++)
        cu_seqlens[i] = LENGTH * i;
    tess_batch batch = {LONG, LONG / LENGTH, ids, pos, targets, cu_seqlens};
    open_graded(&g, &r, &batch, (tess_executor_options){.max_tokens = LONG, .max_position = LENGTH, .train = true});
    normed n = {test_alloc((size_t)(LONG * config.hidden_size) * sizeof(float)), config.hidden_size, 0};
    tess_executor_set_watch(g.executor, &(tess_watch){&n, see});
    EXPECT_OK(tess_executor_train(g.executor, &batch, &g.loss, value));
    EXPECT_INT(g.n_calls, 1);
    EXPECT_INT(n.n_values, 1);
    for (int64_t c = 0; c < n.C; c++) {
        double want = 0, size = 0;
        for (int64_t t = 0; t < LONG; t++) {
            double term = ((double)value[t] - 0.3 * (double)(t % 5) + 0.125) * (double)n.y[t * n.C + c];
            want += term;
            size += fabs(term);
        }
        EXPECT(fabs((double)r.dw[r.n_params - 1][c] - want) <= 1e-6 * size);
    }
    test_free(n.y);
    test_free(ids);
    test_free(pos);
    test_free(targets);
    tess_executor_destroy(&g.executor);
    rig_close(&r);
    fixture_close(&f);
}

/* ---- Values next to a language model's head ---- */
typedef struct joint {
    graded values;
    bool silent; /* no derivative by the values */
    double sum;
} joint;

/* -log p (1 + (t mod 3) / 4) + H / 8 of every row that has a target. */
static tess_status grade_tokens(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                                float *dlogprob, float *dentropy)
{
    joint *j = self;
    for (int64_t i = 0; i < n; i++) {
        if (j->values.batch->targets[begin + i] < 0)
            continue;
        const double weight = 1 + (double)((begin + i) % 3) / 4;
        j->sum += -weight * logprob[i] + entropy[i] / 8;
        dlogprob[i] = (float)-weight;
        dentropy[i] = 0.125f;
    }
    return TESS_OK;
}

static tess_status grade_joint_values(void *self, int64_t n, const float *value, float *dvalue)
{
    joint *j = self;
    TESS_TRY(grade_values(&j->values, n, value, dvalue));
    if (j->silent)
        memset(dvalue, 0, (size_t)n * sizeof(*dvalue));
    return TESS_OK;
}

static void open_joint(joint *j, rig *r, const tess_batch *batch, tess_executor_options options)
{
    *j = (joint){.values = {.batch = batch, .executor = rig_executor(r, options)}};
    j->values.loss = (tess_token_loss){
        .self = j, .inv_temperature = 1.25f, .grade = grade_tokens, .grade_values = grade_joint_values};
}

static double train_joint(void *self)
{
    joint *j = self;
    float logprob[MAX_T];
    j->sum = j->values.value = 0;
    EXPECT_OK(tess_executor_train(j->values.executor, j->values.batch, &j->values.loss, logprob));
    return j->sum + j->values.value;
}

static tess_model_config with_value_head(const tess_model_config *config)
{
    tess_model_config both = *config;
    both.value_head = true;
    return both;
}

/* Weights of a value head, which begin at 0, so that values reach the trunk. */
static void set_value_head(rig *r)
{
    for (int p = r->n_params - 2; p < r->n_params; p++) {
        int64_t n = tess_shape_count(&tess_model_param(r->model, p)->shape);
        tess_rng_fill_normal(7, TESS_RNG_TEST, (uint64_t)p, 0, n, 0, 1, r->w32[p]);
    }
    rig_refresh(r);
}

static void derivatives_of_both_heads_arrive_in_the_weights(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        rig r;
        joint j;
        fixture_open(&f, fixture_names[i]);
        choose_all_experts(&f.config);
        tess_model_config config = with_value_head(&f.config);
        rig_open(&r, &config, TESS_F32, "ref", 1);
        EXPECT_TEXT(tess_model_param(r.model, r.n_params - 1)->name, "v_head.summary.bias");
        set_value_head(&r);
        open_joint(&j, &r, &f.batch, training(&f));
        EXPECT(train_joint(&j) != 0);
        EXPECT(r.dw[r.n_params - 1][0] != 0);
        expect_derivative(fixture_names[i], &r, train_joint, &j);
        tess_executor_destroy(&j.values.executor);
        rig_close(&r);
        fixture_close(&f);
    }
}

/* A value head that says nothing changes no bit of the language model; its values are a linear map of what the watch
 * sees, and evaluation has the bits of training. */
static void a_value_head_without_derivatives_changes_no_bit_beside_it(void)
{
    for (int i = 0; i < 2 * N_FIXTURES; i++) {
        fixture f;
        rig both, lm;
        joint j, plain;
        float value[MAX_T];
        fixture_open(&f, fixture_names[i / 2]);
        tess_model_config config = with_value_head(&f.config);
        rig_open(&both, &config, i % 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 2);
        rig_open(&lm, &f.config, both.dtype, NULL, 2);
        set_value_head(&both);
        EXPECT_INT(both.n_params, lm.n_params + 2);
        open_joint(&j, &both, &f.batch, training(&f));
        open_joint(&plain, &lm, &f.batch, training(&f));
        j.silent = true;
        plain.values.loss.grade_values = NULL;
        train_joint(&j);
        train_joint(&plain);
        EXPECT(j.sum == plain.sum && j.values.n_calls == 1);
        for (int p = 0; p < lm.n_params; p++)
            EXPECT_SAME(both.dw[p], lm.dw[p], (size_t)tess_shape_count(&tess_model_param(lm.model, p)->shape));
        EXPECT_OK(values_of(j.values.executor, &f.config, &f.batch, value));
        EXPECT_SAME(value, j.values.shown, (size_t)f.batch.n_tokens);
        tess_executor_destroy(&plain.values.executor);
        tess_executor_destroy(&j.values.executor);
        rig_close(&lm);
        rig_close(&both);
        fixture_close(&f);
    }
}

/* ---- Edges ---- */
static tess_status grade_in_vain(void *self, int64_t n, const float *value, float *dvalue)
{
    (void)self, (void)n, (void)value, (void)dvalue;
    return TESS_FAIL(TESS_E_NOT_FOUND, "sample 7 has no return");
}

static void heads_of_values_and_of_language_models_are_not_mistaken(void)
{
    fixture f;
    rig one, lm, two, both;
    float out[MAX_T * 128];
    int32_t row = 0;
    fixture_open(&f, "llama");
    tess_model_config config = of_one_output(&f.config);
    tess_token_loss values = {.grade_values = grade_in_vain};
    rig_open(&one, &config, TESS_F32, NULL, 1);
    rig_open(&lm, &f.config, TESS_F32, NULL, 1);
    config.n_outputs = 2;
    rig_open(&two, &config, TESS_F32, NULL, 1);
    tess_executor *e = rig_executor(&one, training(&f));
    static const char no_tokens[] = "no token has a probability";
    EXPECT_FAILS(tess_executor_train(e, &f.batch, NULL, out), TESS_E_INVALID, no_tokens);
    EXPECT_FAILS(tess_executor_logprobs(e, &f.batch, 1, out, NULL), TESS_E_INVALID, no_tokens);
    EXPECT_FAILS(tess_executor_logits(e, &f.batch, &row, 1, out), TESS_E_INVALID, no_tokens);
    EXPECT_FAILS(tess_executor_train(e, &f.batch, &values, out), TESS_E_NOT_FOUND, "sample 7 has no return");
    tess_batch empty = f.batch;
    empty.n_tokens = empty.n_seqs = 0;
    EXPECT_OK(tess_executor_train(e, &empty, &values, out)); /* nobody is asked, */
    EXPECT_OK(tess_executor_train(e, &empty, NULL, out));    /* and there need not be anybody */
    for (int p = 0; p < one.n_params; p++)
        for (int64_t k = 0; k < tess_shape_count(&tess_model_param(one.model, p)->shape); k++)
            EXPECT(one.dw[p][k] == 0);
    tess_executor_destroy(&e);
    e = rig_executor(&lm, training(&f));
    EXPECT_FAILS(tess_executor_train(e, &f.batch, &values, out), TESS_E_INVALID, "values need a score of one output");
    EXPECT_FAILS(values_of(e, &f.config, &f.batch, out), TESS_E_INVALID, "the model has 0");
    tess_executor_destroy(&e);
    e = rig_executor(&two, training(&f));
    EXPECT_FAILS(values_of(e, &f.config, &f.batch, out), TESS_E_INVALID, "the model has 2");
    tess_executor_destroy(&e);
    tess_model_config joined = with_value_head(&f.config);
    rig_open(&both, &joined, TESS_F32, NULL, 1);
    e = rig_executor(&both, training(&f));
    EXPECT_FAILS(tess_executor_train(e, &f.batch, NULL, out), TESS_E_INVALID, "says nothing of values");
    EXPECT_OK(tess_executor_train(e, &empty, NULL, out));
    EXPECT(both.dw[both.n_params - 1][0] == 0 && both.dw[both.n_params - 2][0] == 0);
    tess_executor_destroy(&e);
    rig_close(&both);
    tess_model *model;
    const tess_model_part part = {0, config.n_layers, true, true, NULL, 0, 2};
    EXPECT_FAILS(tess_model_create_part(test_mem(), &config, &part, &model), TESS_E_UNSUPPORTED,
                 "set parallelism.tensor_parallel_degree=1");
    EXPECT_FAILS(tess_model_create_part(test_mem(), &joined, &part, &model), TESS_E_UNSUPPORTED,
                 "a value head is not cut over tensor-parallel ranks");
    config.value_head = true;
    EXPECT_FAILS(tess_model_create(test_mem(), &config, &model), TESS_E_INVALID, "a value head has one output");
    config.value_head = false;
    config.tied = true;
    EXPECT_FAILS(tess_model_create(test_mem(), &config, &model), TESS_E_INVALID, "tie_word_embeddings is true");
    rig_close(&two);
    rig_close(&lm);
    rig_close(&one);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(derivatives_by_values_arrive_in_the_weights),
    CASE(values_are_the_bits_of_a_column_of_logits),
    CASE(values_are_those_of_verl_s_and_trl_s_models),
    CASE(gradients_of_more_rows_than_a_chunk_add_up),
    CASE(derivatives_of_both_heads_arrive_in_the_weights),
    CASE(a_value_head_without_derivatives_changes_no_bit_beside_it),
    CASE(heads_of_values_and_of_language_models_are_not_mistaken),
};
TEST_MAIN(cases)
