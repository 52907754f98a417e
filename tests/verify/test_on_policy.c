/* Training, evaluation and generation are one policy for models of every kind, and what is not is named. */
#include "verify/on_policy.h"

#include <math.h>

#include "base/core/rng.h"
#include "nn/fixture.h"

enum { N_PROMPTS = 5, NEW_TOKENS = 7, MOST = 40 };
static const int64_t lengths[N_PROMPTS] = {1, 30, 4, 17, 2};

/* A model with weights of both precisions, and prompts for it. */
typedef struct bench {
    fixture f;
    rig rigs[2];
    int32_t ids[N_PROMPTS][MOST];
    tess_on_policy_prompt prompts[N_PROMPTS];
    tess_on_policy_plan plan;
    tess_on_policy_result *result;
} bench;

static bench *bench_open(const char *name, tess_dtype dtype)
{
    bench *b = test_alloc(sizeof(*b));
    fixture_open(&b->f, name);
    if (b->f.config.rope.kind == TESS_ROPE_DYNAMIC) /* beyond what it was trained for */
        EXPECT_OK(tess_model_config_set_max_length(&b->f.config, MOST, "the case"));
    rig_open(&b->rigs[0], &b->f.config, TESS_F32, NULL, 1);
    rig_open(&b->rigs[1], &b->f.config, TESS_BF16, NULL, 1);
    for (int i = 0; i < N_PROMPTS; i++) {
        for (int64_t t = 0; t < lengths[i]; t++)
            b->ids[i][t] =
                (int32_t)(tess_rng_u64(4, TESS_RNG_TEST, (uint64_t)i, (uint64_t)t) % (uint64_t)b->f.config.vocab_size);
        b->prompts[i] = (tess_on_policy_prompt){b->ids[i], lengths[i]};
    }
    b->result = test_alloc(sizeof(*b->result));
    b->plan = (tess_on_policy_plan){
        .model = b->rigs[0].model,
        .w = {(const void *const *)b->rigs[0].w, (const void *const *)b->rigs[1].w},
        .dtype = dtype,
        .against = "none",
        .temperature = 1,
        .n_threads = 2,
        .prompts = b->prompts,
        .n_prompts = N_PROMPTS,
        .new_tokens = NEW_TOKENS,
        .seed = 5,
    };
    return b;
}

static void bench_close(bench *b)
{
    test_free(b->result);
    rig_close(&b->rigs[0]);
    rig_close(&b->rigs[1]);
    fixture_close(&b->f);
    test_free(b);
}

static const tess_on_policy_result *verify(bench *b)
{
    EXPECT_OK(tess_on_policy_verify(test_mem(), &b->plan, b->result));
    return b->result;
}

/* The number of a group's cases that must be equal or need not be. */
static int count(const tess_on_policy_result *r, const char *group, bool must_equal)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += strcmp(r->cases[i].group, group) == 0 && r->cases[i].must_equal == must_equal &&
             r->cases[i].skipped[0] == '\0';
    return n;
}

static const tess_on_policy_case *find(const tess_on_policy_result *r, const char *setting)
{
    for (int i = 0; i < r->n; i++)
        if (strstr(r->cases[i].setting, setting) != NULL)
            return &r->cases[i];
    test_fail(__FILE__, __LINE__, "no case '%s'", setting);
}

static void expect_one_policy(const tess_on_policy_result *r)
{
    const tess_on_policy_case *first = tess_on_policy_first(r);
    if (first != NULL)
        test_fail(__FILE__, __LINE__, "%s: %s: %lld of %lld tokens differ, at most by %g; first layer: %s",
                  first->group, first->setting, (long long)first->n_different, (long long)first->n_tokens,
                  first->max_abs, first->layer);
    for (int i = 0; i < r->n; i++)
        if (r->cases[i].skipped[0] == '\0')
            EXPECT_INT(r->cases[i].n_tokens, (r->cases[i].shared > 0 ? 0 : 29 + 3 + 16 + 1) +
                                                 N_PROMPTS * NEW_TOKENS); /* each but the first */
}

static void settings_of_one_policy_have_the_bits_of_training(void)
{
    static const char *const models[] = {"llama", "qwen3", "mistral", "llama_dynamic", "gpt2"};
    static const double temperatures[] = {1, 0.6};
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
        for (int d = TESS_F32; d <= TESS_BF16; d++) {
            bench *b = bench_open(models[m], (tess_dtype)d);
            b->plan.temperature = temperatures[(m + (size_t)d) % 2];
            const tess_on_policy_result *r = verify(b);
            expect_one_policy(r);
            EXPECT_INT(count(r, "batch size", true), 9); /* 1, 2, 3 of 5 texts by three engines */
            EXPECT_INT(count(r, "chunk size", true), 5);
            EXPECT_INT(count(r, "cache", true), 3);
            EXPECT(find(r, "prompts read once")->shared >= 30); /* at least the longest prompt */
            EXPECT_INT(count(r, "order", true), 6);
            EXPECT_INT(count(r, "neighbours", true), 6);
            EXPECT_INT(count(r, "threads", true), 6);
            EXPECT_INT(count(r, "temperature", true), 4);
            const tess_on_policy_case *other = find(r, d == TESS_F32 ? "bfloat16 against" : "float32 against");
            EXPECT(other->n_different > other->n_tokens / 2 && other->max_abs > 1e-5 && isfinite(other->max_abs));
            bench_close(b);
        }
}

static void another_temperature_is_another_policy_with_the_same_layers(void)
{
    bench *b = bench_open("llama", TESS_F32);
    const tess_on_policy_case *warm = find(verify(b), "T = 1.3 against");
    EXPECT(!warm->must_equal);
    EXPECT_INT(warm->n_different, warm->n_tokens);
    EXPECT(warm->max_abs > 1e-3);
    EXPECT_CONTAINS(warm->layer, "the log-probabilities (all layers are the same)");
    bench_close(b);
}

/* Texts that grow from one page to four, in a cache for one of them. */
static void a_cache_that_turns_texts_out_changes_no_bit(void)
{
    enum { LONG = 200, DRAWN = 140, N = 3 };
    static const int64_t long_ones[N] = {60, 50, 7};
    bench *b = bench_open("llama_dynamic", TESS_BF16);
    int32_t ids[N][LONG];
    EXPECT_OK(tess_model_config_set_max_length(&b->f.config, LONG, "the case"));
    for (int d = 0; d < 2; d++) {
        rig_close(&b->rigs[d]);
        rig_open(&b->rigs[d], &b->f.config, d == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        b->plan.w[d] = (const void *const *)b->rigs[d].w;
    }
    b->plan.model = b->rigs[0].model;
    for (int i = 0; i < N; i++) {
        for (int64_t t = 0; t < long_ones[i]; t++)
            ids[i][t] = (int32_t)((t * 31 + i * 7) % b->f.config.vocab_size);
        b->prompts[i] = (tess_on_policy_prompt){ids[i], long_ones[i]};
    }
    b->plan.n_prompts = N;
    b->plan.new_tokens = DRAWN;
    const tess_on_policy_result *r = verify(b);
    EXPECT(tess_on_policy_first(r) == NULL);
    const tess_on_policy_case *full = find(r, "pages for one text alone"), *shared = find(r, "prompts read once");
    EXPECT(full->turned_out > 0);
    EXPECT_INT(full->n_tokens, 59 + 49 + 6 + N * DRAWN);
    EXPECT(shared->shared >= 60 && shared->turned_out == 0);
    EXPECT_INT(shared->n_tokens, N * DRAWN);
    bench_close(b);
}

static void every_kernel_table_is_a_policy_of_its_own(void)
{
    const tess_kernels *best;
    bench *b = bench_open("qwen3", TESS_BF16);
    EXPECT_OK(tess_kernels_select(NULL, &best));
    b->plan.against = NULL;
    const tess_on_policy_result *r = verify(b);
    EXPECT_TEXT(r->kernels, best->name);
    expect_one_policy(r);
    int tried = 0;
    for (int k = 0; k < N_LEVELS; k++)
        tried += have_level(kernel_levels[k]) && strcmp(kernel_levels[k], best->name) != 0;
    EXPECT_INT(count(r, "kernel table", true), 4 * tried); /* two precisions by two engines */
    EXPECT_INT(count(r, "kernel table", false), tried);
    b->plan.against = "ref";
    r = verify(b);
    expect_one_policy(r);
    EXPECT_INT(count(r, "kernel table", true), strcmp(best->name, "ref") != 0 ? 4 : 0);
    bench_close(b);
}

static void a_planted_fault_is_named_by_its_first_layer(void)
{
    static const struct {
        const char *fault, *layer, *well; /* the first layer that differs, and a setting that is well */
        tess_on_policy_engine engine;
    } drills[] = {{"generation:1:attention output", "model.layers.0, attention output",
                   "evaluation, the same micro-batch", TESS_ENGINE_GENERATION},
                  {"evaluation:2:feed-forward output", "model.layers.1, feed-forward output", "generation, all at once",
                   TESS_ENGINE_EVALUATION},
                  {"evaluation:0:output", "embed, output", "generation, all at once", TESS_ENGINE_EVALUATION},
                  {"training:3:final norm", "head, final norm", "training, once more", TESS_ENGINE_TRAINING}};
    for (size_t i = 0; i < sizeof(drills) / sizeof(drills[0]); i++) {
        bench *b = bench_open("llama", i % 2 == 0 ? TESS_F32 : TESS_BF16);
        EXPECT_OK(tess_on_policy_fault_parse(drills[i].fault, b->plan.model, &b->plan.fault));
        EXPECT_INT(b->plan.fault.engine, drills[i].engine);
        const tess_on_policy_result *r = verify(b);
        const tess_on_policy_case *first = tess_on_policy_first(r);
        EXPECT(first != NULL && first->max_abs > 0);
        EXPECT_CONTAINS(first->layer, drills[i].layer);
        EXPECT_INT(find(r, drills[i].well)->n_different, 0);
        bench_close(b);
    }
    bench *b = bench_open("llama", TESS_F32);
    const tess_model *model = b->plan.model;
    static const char *const bad[] = {"",
                                      "generation",
                                      "generation:1",
                                      "nobody:1:output",
                                      "generation:0:final norm",
                                      "generation:4:final norm",
                                      "generation:-1:output",
                                      "training:1:output:",
                                      "training:1:log-probabilities",
                                      "training:x:output"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(tess_on_policy_fault_parse(bad[i], model, &b->plan.fault), TESS_E_INVALID, "no place for a fault");
    bench_close(b);
}

/* ---- A kernel that is not batch-invariant ---- */
enum { CROWD = 60 };
static tess_status (*good_rmsnorm)(tess_stream *s, const tess_norm_args *a);

/* The sum of squares runs in ascending order when there are many rows, not over 64 lanes. */
static tess_status bad_rmsnorm(tess_stream *s, const tess_norm_args *a)
{
    TESS_TRY(good_rmsnorm(s, a));
    const float *rows = a->residual != NULL ? a->h_out : a->x, *w = a->w;
    for (int64_t t = 0; t < a->T && a->T > CROWD && a->dtype == TESS_F32; t++) {
        const float *h = rows + t * a->C;
        float sum = 0;
        for (int64_t i = 0; i < a->C; i++)
            sum = fmaf(h[i], h[i], sum);
        float r = 1 / sqrtf(sum / (float)a->C + a->eps);
        for (int64_t i = 0; i < a->C; i++)
            ((float *)a->y)[t * a->C + i] = h[i] * r * w[i];
    }
    return TESS_OK;
}

static void a_kernel_that_sums_in_another_order_in_a_crowd_is_found(void)
{
    tess_kernels *table; /* a table of this process alone, which ends with the case */
    bench *b = bench_open("llama", TESS_F32);
    EXPECT_OK(tess_kernels_select("ref", (const tess_kernels **)&table));
    good_rmsnorm = table->rmsnorm_forward;
    table->rmsnorm_forward = bad_rmsnorm;
    b->plan.kernels = "ref";
    const tess_on_policy_result *r = verify(b);
    EXPECT(tess_on_policy_first(r) != NULL);
    const tess_on_policy_case *alone = find(r, "training, 1 text at a time");
    EXPECT(alone->n_different > 0 && alone->max_abs > 0 && alone->max_abs < 1e-3);
    EXPECT_CONTAINS(alone->layer, "model.layers.0, attention output");
    EXPECT_INT(find(r, "training, once more")->n_different, 0); /* it is reproducible, and yet wrong */
    bench_close(b);
}

/* ---- Reports ---- */
static void reports_say_what_was_found(void)
{
    bench *b = bench_open("llama", TESS_F32);
    tess_buffer text = {.mem = test_mem()};
    json_t *json;
    EXPECT_OK(tess_on_policy_print(verify(b), false, &text));
    EXPECT_CONTAINS(text.data, "exactly on-policy: ");
    EXPECT_CONTAINS(text.data, "what changes bits, as it should: temperature, precision\n");
    tess_buffer_free(&text);
    text.mem = test_mem();
    EXPECT_OK(tess_on_policy_fault_parse("evaluation:1:attention output", b->plan.model, &b->plan.fault));
    const tess_on_policy_result *r = verify(b);
    EXPECT_OK(tess_on_policy_print(r, false, &text));
    EXPECT_CONTAINS(text.data, "not on-policy: ");
    EXPECT_CONTAINS(text.data, "the first layer that differs: model.layers.0, attention output");
    tess_buffer_free(&text);
    text.mem = test_mem();
    EXPECT_OK(tess_on_policy_print(r, true, &text));
    EXPECT_OK(tess_json_parse(text.data, text.size, "report", true, &json));
    EXPECT(json_is_false(json_object_get(json, "same")));
    json_t *cases = json_object_get(json, "cases");
    EXPECT_INT(json_array_size(cases), r->n);
    for (int i = 0; i < r->n; i++)
        EXPECT_INT(json_integer_value(json_object_get(json_array_get(cases, (size_t)i), "different")),
                   r->cases[i].n_different);
    json_decref(json);
    tess_buffer_free(&text);
    bench_close(b);
}

static void bad_plans_are_refused(void)
{
    bench *b = bench_open("llama", TESS_F32);
    tess_on_policy_plan plan = b->plan;
    plan.temperature = 0;
    EXPECT_FAILS(tess_on_policy_verify(test_mem(), &plan, b->result), TESS_E_INVALID, "temperature 0");
    plan = b->plan;
    plan.n_prompts = 0;
    EXPECT_FAILS(tess_on_policy_verify(test_mem(), &plan, b->result), TESS_E_INVALID, "0 prompts");
    plan = b->plan;
    plan.new_tokens = tess_model_config_max_length(&b->f.config) - 20;
    EXPECT_FAILS(tess_on_policy_verify(test_mem(), &plan, b->result), TESS_E_INVALID, "prompt 1 has 30 tokens");
    plan.new_tokens = 0;
    EXPECT_FAILS(tess_on_policy_verify(test_mem(), &plan, b->result), TESS_E_INVALID, "0 new tokens");
    plan = b->plan;
    plan.against = "nonsense";
    EXPECT_FAILS(tess_on_policy_verify(test_mem(), &plan, b->result), TESS_E_INVALID, "'nonsense' is unknown");
    plan = b->plan;
    b->ids[2][3] = (int32_t)b->f.config.vocab_size;
    EXPECT_FAILS(tess_on_policy_verify(test_mem(), &plan, b->result), TESS_E_INVALID, "prompt 2: token 3 is id");
    b->prompts[2].n = 0;
    EXPECT_FAILS(tess_on_policy_verify(test_mem(), &plan, b->result), TESS_E_INVALID, "prompt 2 has 0 tokens");
    bench_close(b);
}

static const test_case cases[] = {
    CASE(settings_of_one_policy_have_the_bits_of_training),
    CASE(another_temperature_is_another_policy_with_the_same_layers),
    CASE(a_cache_that_turns_texts_out_changes_no_bit),
    CASE(every_kernel_table_is_a_policy_of_its_own),
    CASE(a_planted_fault_is_named_by_its_first_layer),
    CASE(a_kernel_that_sums_in_another_order_in_a_crowd_is_found),
    CASE(reports_say_what_was_found),
    CASE(bad_plans_are_refused),
};
TEST_MAIN(cases)
