/* The critic: values of any ranks have the same bits, its head begins as asked, it learns, and the policy next to it
 * does not notice. */
#include "engine_rig.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem/named.h"
#include "rl/critic/critic.h"

/* ---- A loss: half the squared distance from the target token's number over the vocabulary ---- */
typedef struct value_loss {
    tess_token_loss loss;
    int32_t targets[TOKENS];
    double sum; /* sum of both runs, if there are two */
} value_loss;

typedef struct lesson {
    rig *rig;
    int64_t fixed; /* micro-batches are numbered from here on in every step; -1: as the source does */
    value_loss losses[MICRO];
} lesson;

static double wanted(int32_t target)
{
    return (double)target / VOCABULARY;
}

static tess_status grade(void *self, int64_t n, const float *value, float *dvalue)
{
    value_loss *v = self;
    for (int64_t i = 0; i < n; i++) {
        if (v->targets[i] < 0)
            continue;
        double off = (double)value[i] - wanted(v->targets[i]);
        v->sum += off * off / 2;
        dvalue[i] = (float)off;
    }
    return TESS_OK;
}

static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    lesson *l = self;
    value_loss *v = &l->losses[index % MICRO];
    EXPECT_OK(rig_next(l->rig, l->fixed >= 0 ? l->fixed + index % MICRO : index, batch));
    *v = (value_loss){.loss = {.self = v, .grade_values = grade}};
    memcpy(v->targets, batch->targets, sizeof(v->targets));
    batch->loss = &v->loss;
    return TESS_OK;
}

/* The mean over the step's targets: exact enough for a test. */
static tess_status judge(void *self, tess_engine_report *report)
{
    const lesson *l = self;
    const tess_engine *e = l->rig->engine;
    double sum = 0;
    for (int i = e->at.data; i < MICRO; i += e->at.n_data)
        sum += l->losses[i].sum;
    int64_t fixed_point = (int64_t)llround(sum * 0x1p40);
    TESS_TRY(tess_all_reduce(e->team, &fixed_point, &fixed_point, 1, TESS_I64, TESS_SUM, NULL));
    report->loss = (double)fixed_point * 0x1p-40 / report->divisor;
    return TESS_OK;
}

static tess_status step(tess_critic *critic, lesson *l, tess_engine_report *report)
{
    tess_batch_source source = tess_engine_source(tess_critic_engine(critic), l, next);
    source.judge = judge;
    return tess_critic_step(critic, &source, report);
}

static tess_critic *create(rig *r, const char *path, double lr)
{
    tess_critic *critic;
    const tess_critic_options options = {.path = path, .lr = lr};
    EXPECT_OK(tess_critic_create(r->engine, &options, NULL, &critic));
    return critic;
}

typedef struct values {
    float value[TOKENS];
} values;

/* The values of micro-batch `index`, the same on all ranks. */
static values values_of(tess_critic *critic, rig *r, int64_t index)
{
    values v;
    tess_batch batch;
    EXPECT_OK(rig_next(r, index, &batch));
    batch.targets = NULL;
    EXPECT_OK(tess_critic_values(critic, &batch, v.value));
    return v;
}

static void expect_values(const char *what, const values *got, const values *want)
{
    test_expect_same(__FILE__, __LINE__, what, got->value, want->value, TOKENS, sizeof(float));
}

static bool all_zero(const values *v)
{
    for (int i = 0; i < TOKENS; i++)
        if (v->value[i] != 0)
            return false;
    return true;
}

/* ---- The same bits on any ranks ---- */
enum { STEPS = 4 };
typedef struct course {
    double loss[STEPS], norm[STEPS];
    values before, after;
} course;

static const char *result_path, *result_overrides;

/* Called in a rank: writes its course to result_path. The head begins at 0, so that the trunk learns from the second
 * step on.
 */
static void run_course(void)
{
    rig r;
    course c;
    lesson l = {.rig = &r, .fixed = -1};
    open_rig(&r, result_overrides);
    tess_critic *critic = create(&r, "", 0.01);
    c.before = values_of(critic, &r, 50);
    for (int i = 0; i < STEPS; i++) {
        tess_engine_report report;
        EXPECT_OK(step(critic, &l, &report));
        c.loss[i] = report.loss;
        c.norm[i] = report.grad_norm;
    }
    c.after = values_of(critic, &r, 50);
    if (test_rank() == 0) {
        FILE *file = fopen(result_path, "w");
        EXPECT(file != NULL && fwrite(&c, sizeof(c), 1, file) == 1 && fclose(file) == 0);
    }
    tess_critic_destroy(&critic);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static course course_of(int n_ranks, const char *overrides)
{
    static char path[512];
    course c;
    snprintf(path, sizeof(path), "%s/course", test_folder());
    result_path = path;
    result_overrides = overrides;
    EXPECT_INT(test_run_ranks(n_ranks, run_course, 600), 0);
    FILE *file = fopen(path, "r");
    EXPECT(file != NULL && fread(&c, sizeof(c), 1, file) == 1 && fclose(file) == 0);
    return c;
}

static void values_and_steps_have_the_same_bits_on_any_ranks(void)
{
    static const char *const dtypes[] = {"float32", "bfloat16"}, *const strategies[] = {"none", "full", "zero1"};
    static const int n_ranks[] = {2, 3, 4};
    char overrides[256];
    for (int d = 0; d < 2; d++) {
        snprintf(overrides, sizeof(overrides), "training.mixed_precision_param=%s", dtypes[d]);
        course want = course_of(1, overrides);
        EXPECT(all_zero(&want.before) && !all_zero(&want.after) && want.norm[0] > 0);
        for (int s = 0; s < 3; s++)
            for (int i = 0; i < 3; i++) {
                snprintf(overrides, sizeof(overrides),
                         "parallelism.shard_strategy=%s training.mixed_precision_param=%s", strategies[s], dtypes[d]);
                course got = course_of(n_ranks[i], overrides);
                expect_values(overrides, &got.before, &want.before);
                expect_values(overrides, &got.after, &want.after);
                test_expect_same(__FILE__, __LINE__, overrides, got.norm, want.norm, STEPS, sizeof(double));
                for (int k = 0; k < STEPS; k++)
                    EXPECT(fabs(got.loss[k] - want.loss[k]) < 1e-9);
            }
    }
}

/* ---- It learns ---- */
static void it_learns(void)
{
    rig r;
    tess_engine_report report;
    lesson l = {.rig = &r, .fixed = 7};
    open_rig(&r, "parallelism.shard_strategy=full training.mixed_precision_param=float32");
    tess_critic *critic = create(&r, "", 0.01);
    values zero = values_of(critic, &r, 7);
    EXPECT(all_zero(&zero));
    EXPECT_OK(step(critic, &l, &report));
    double first = report.loss, mean_square = 0;
    int64_t n = 0;
    for (int i = 0; i < MICRO; i++) {
        tess_batch batch;
        EXPECT_OK(rig_next(&r, 7 + i, &batch));
        for (int t = 0; t < TOKENS; t++)
            if (batch.targets[t] >= 0) {
                mean_square += wanted(batch.targets[t]) * wanted(batch.targets[t]) / 2;
                n++;
            }
    }
    EXPECT_INT(report.n_tokens, n);
    EXPECT(fabs(first - mean_square / (double)n) < 1e-9); /* the values are 0 */
    for (int i = 1; i < 60; i++)
        EXPECT_OK(step(critic, &l, &report));
    EXPECT(report.loss < first / 20);
    EXPECT_INT(tess_critic_engine(critic)->step, 60);
    tess_critic_destroy(&critic);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* ---- The policy next to it ---- */
static void run_policy(bool with_critic, double norm[STEPS])
{
    rig r;
    lesson l = {.rig = &r, .fixed = -1};
    tess_critic *critic = NULL;
    open_rig(&r, "parallelism.shard_strategy=full");
    if (with_critic)
        critic = create(&r, "", 0.05);
    for (int i = 0; i < STEPS; i++) {
        tess_engine_report report;
        if (with_critic)
            EXPECT_OK(step(critic, &l, &report));
        tess_batch_source source = tess_engine_source(r.engine, &r, rig_next);
        EXPECT_OK(tess_engine_step(r.engine, &source, &report));
        norm[i] = report.grad_norm;
        if (with_critic)
            values_of(critic, &r, i);
    }
    tess_critic_destroy(&critic);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
}

static void the_policy_beside_a_critic_does_not_notice(void)
{
    double with[STEPS], without[STEPS];
    run_policy(false, without);
    run_policy(true, with);
    EXPECT_SAME(with, without, STEPS);
    test_leave();
}

/* A store that has names of the policy, and counts who asks. */
static tess_status refuse_region(void *store, const char *name, size_t bytes, void **out, bool *found)
{
    (void)bytes, (void)out, (void)found;
    ++*(int *)store;
    return TESS_FAIL(TESS_E_INTERNAL, "a critic asked for the memory named '%s'", name);
}

static void a_critic_takes_no_names_from_the_store(void)
{
    rig r;
    int n_asked = 0;
    tess_engine_report report;
    lesson l = {.rig = &r, .fixed = -1};
    open_rig(&r, "parallelism.shard_strategy=none");
    tess_mem_set_store(r.engine->mem, refuse_region, &n_asked);
    tess_critic *critic = create(&r, "", 0.01);
    EXPECT_OK(step(critic, &l, &report));
    EXPECT_OK(step(critic, &l, &report));
    tess_critic_destroy(&critic);
    tess_mem_set_store(r.engine->mem, NULL, NULL);
    EXPECT_INT(n_asked, 0);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* ---- Checkpoints ---- */
enum { MOST_TENSORS = 128 };

static void a_critic_is_restored(void)
{
    rig r;
    tess_engine_report want, got;
    lesson l = {.rig = &r, .fixed = -1};
    static tess_ckpt_tensor saved[MOST_TENSORS], loaded[MOST_TENSORS];
    open_rig(&r, "parallelism.shard_strategy=full lr_scheduler.decay_type=linear");
    tess_critic *critic = create(&r, "", 0.01), *other = create(&r, "", 0.01);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(step(critic, &l, &want));
    int n = tess_critic_n_tensors(critic);
    EXPECT(n <= MOST_TENSORS && n % 3 == 0);
    EXPECT_OK(tess_critic_tensors(critic, saved));
    EXPECT_OK(tess_critic_tensors(other, loaded));
    EXPECT_TEXT(saved[n - 1].name, "critic.v_head.summary.bias");
    EXPECT(strcmp(saved[n - 1].state, "exp_avg_sq") == 0 && saved[n - 3].state == NULL);
    for (int i = 0; i < n; i++) {
        EXPECT_TEXT(loaded[i].name, saved[i].name);
        memcpy(loaded[i].data, saved[i].data, (size_t)tess_ckpt_count(&saved[i], &saved[i].box) * sizeof(float));
    }
    json_t *described = tess_critic_describe(critic), *nothing = json_object();
    EXPECT_FAILS(tess_critic_loaded(other, nothing), TESS_E_FORMAT, "it is of a run without a critic");
    EXPECT_OK(tess_critic_loaded(other, described));
    json_decref(nothing);
    json_decref(described);
    values a = values_of(critic, &r, 9), b = values_of(other, &r, 9);
    expect_values("restored", &b, &a);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(step(critic, &l, &want));
        EXPECT_OK(step(other, &l, &got));
        EXPECT(got.grad_norm == want.grad_norm && got.lr == want.lr && got.loss == want.loss && want.lr < 0.01);
    }
    a = values_of(critic, &r, 9);
    b = values_of(other, &r, 9);
    expect_values("two steps later", &b, &a);
    tess_critic_destroy(&other);
    tess_critic_destroy(&critic);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* ---- Folders ---- */
/* `model_json` as another architecture, for classification of `what` with `labels` labels; 0: a language model. */
static const char *other_json(bool tied, const char *what, int labels)
{
    static char text[1024];
    json_t *json = NULL;
    EXPECT_OK(tess_json_parse(model_json, sizeof(model_json) - 1, "test", true, &json));
    json_object_set_new(json, "tie_word_embeddings", json_boolean(tied));
    if (labels > 0) {
        snprintf(text, sizeof(text), "LlamaFor%sClassification", what);
        json_object_set_new(json, "architectures", json_pack("[s]", text));
        json_object_set_new(json, "num_labels", json_integer(labels));
    }
    char *dumped = json_dumps(json, 0);
    snprintf(text, sizeof(text), "%s", dumped);
    free(dumped);
    json_decref(json);
    return text;
}

static int n_warnings;

static void warn(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "%s\n", text);
    n_warnings++;
}

/* The trunk is the folder's: with the folder's own head as well, values are those of a model that was put together by
 * hand; a language model's head is left out without a warning. */
static void it_begins_with_a_folder(void)
{
    rig r;
    char lm[512], tied[512], scored[512];
    tess_critic *critic;
    const tess_reporter reporter = {.line = warn};
    open_rig(&r, "training.mixed_precision_param=float32");
    snprintf(lm, sizeof(lm), "%s", write_folder("lm", other_json(false, "", 0), 5, TESS_BF16));
    snprintf(tied, sizeof(tied), "%s", write_folder("tied", other_json(true, "", 0), 5, TESS_F32));
    snprintf(scored, sizeof(scored), "%s", write_folder("scored", other_json(false, "Sequence", 1), 5, TESS_F32));
    tess_critic *with_head = create(&r, scored, 0);
    values want = values_of(with_head, &r, 3);
    EXPECT(!all_zero(&want));
    const char *const folders[] = {lm, tied};
    for (int i = 0; i < 2; i++) {
        const tess_critic_options options = {.path = folders[i], .lr = 0};
        EXPECT_OK(tess_critic_create(r.engine, &options, &reporter, &critic));
        values got = values_of(critic, &r, 3);
        EXPECT(all_zero(&got));
        /* The trunks are equal: with the same head so are the values. */
        tess_shard from, to;
        int head = tess_model_n_params(tess_critic_engine(with_head)->model) - 1;
        EXPECT_OK(tess_fsdp_shard(tess_critic_engine(with_head)->fsdp, head, &from));
        EXPECT_OK(tess_fsdp_shard(tess_critic_engine(critic)->fsdp, head, &to));
        EXPECT_TEXT(from.name, "score.weight");
        EXPECT_TEXT(to.name, "v_head.summary.weight");
        memcpy(to.master, from.master, (size_t)tess_shard_count(&from) * sizeof(float));
        EXPECT_OK(tess_fsdp_params_changed(tess_critic_engine(critic)->fsdp));
        got = values_of(critic, &r, 3);
        expect_values(folders[i], &got, &want);
        tess_critic_destroy(&critic);
    }
    EXPECT_INT(n_warnings, 0);
    /* A critic of verl has a bias, which is 0 here. */
    int n = tess_model_n_params(tess_critic_engine(with_head)->model);
    tess_critic_destroy(&with_head);
    critic = create(&r, write_folder("token", other_json(false, "Token", 1), 5, TESS_F32), 0);
    EXPECT_TEXT(tess_model_param(tess_critic_engine(critic)->model, n)->name, "score.bias");
    values of_tokens = values_of(critic, &r, 3);
    expect_values("token classification", &of_tokens, &want);
    tess_critic_destroy(&critic);
    snprintf(scored, sizeof(scored), "%s", write_folder("two", other_json(false, "Token", 2), 5, TESS_F32));
    EXPECT_FAILS(tess_critic_create(r.engine, &(tess_critic_options){.path = scored}, NULL, &critic), TESS_E_INVALID,
                 "has 2 outputs (num_labels); a value is one");
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static void a_critics_head_is_not_cut(void)
{
    rig r;
    tess_critic *critic;
    open_rig(&r, "parallelism.tensor_parallel_degree=2");
    EXPECT_FAILS(tess_critic_create(r.engine, &(tess_critic_options){.path = ""}, NULL, &critic), TESS_E_UNSUPPORTED,
                 "is not cut over tensor-parallel ranks");
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    open_rig(&r, "");
    EXPECT_FAILS(tess_critic_create(r.engine, &(tess_critic_options){.path = "", .lr = -1}, NULL, &critic),
                 TESS_E_INVALID, "lr -1");
    EXPECT_FAILS(tess_critic_create(r.engine, &(tess_critic_options){.path = "/nowhere"}, NULL, &critic),
                 TESS_E_NOT_FOUND, "/nowhere");
    EXPECT(critic == NULL);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static const test_case cases[] = {
    CASE(values_and_steps_have_the_same_bits_on_any_ranks),
    {"a_critic_learns_from_a_head_of_zeros", it_learns, 1, 0},
    {"a_critic_learns_on_three_ranks", it_learns, 3, 0},
    CASE(the_policy_beside_a_critic_does_not_notice, 2),
    CASE(a_critic_takes_no_names_from_the_store, 1),
    CASE(a_critic_is_restored, 2),
    {"a_critic_begins_with_a_folder_with_a_score_or_without", it_begins_with_a_folder, 1, 0},
    {"ranks_read_a_critic_of_a_folder", it_begins_with_a_folder, 2, 0},
    CASE(a_critics_head_is_not_cut, 2),
};
TEST_MAIN(cases)
