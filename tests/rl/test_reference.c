/* The reference has the bits of a policy with its weights: however ranks share the policy, from whatever file, while it
 * stays and when it follows. */
#include "engine_rig.h"

#include <math.h>
#include <stdlib.h>

#include "rl/reference/reference_choice.h"
#include "rl/reference/reference_impl.h"

typedef struct scores {
    float logprob[TOKENS], entropy[TOKENS];
} scores;

/* Each rank's own tokens. */
static void next_batch(rig *r, tess_batch *batch)
{
    EXPECT_OK(rig_next(r, 1000 + tess_runtime_rank(r->runtime), batch));
}

/* The scores of the present policy; called on all ranks. */
static scores score_policy(rig *r, float inv_temperature)
{
    scores s;
    tess_batch batch;
    next_batch(r, &batch);
    const tess_compute *c = &r->engine->compute;
    float *logprob, *entropy; /* memory of the device */
    EXPECT_OK(tess_device_alloc(c->device, TESS_POOL_MISC, sizeof(s.logprob), "test", (void **)&logprob));
    EXPECT_OK(tess_device_alloc(c->device, TESS_POOL_MISC, sizeof(s.entropy), "test", (void **)&entropy));
    EXPECT_OK(tess_executor_logprobs(r->engine->executor, &batch, inv_temperature, logprob, entropy));
    EXPECT_OK(tess_fetch(c->stream, s.logprob, logprob, sizeof(s.logprob)));
    EXPECT_OK(tess_fetch(c->stream, s.entropy, entropy, sizeof(s.entropy)));
    tess_device_free(c->device, entropy);
    tess_device_free(c->device, logprob);
    return s;
}

static scores score_reference(rig *r, tess_reference *reference, float inv_temperature)
{
    scores s;
    tess_batch batch;
    next_batch(r, &batch);
    EXPECT_OK(tess_reference_logprobs(reference, &batch, inv_temperature, s.logprob, s.entropy));
    return s;
}

static void expect_scores(const char *what, const scores *got, const scores *want)
{
    EXPECT(want->logprob[0] < 0 && want->entropy[0] > 0 && want->logprob[LENGTH - 1] == 0);
    test_expect_same(__FILE__, __LINE__, what, got->logprob, want->logprob, TOKENS, sizeof(float));
    test_expect_same(__FILE__, __LINE__, what, got->entropy, want->entropy, TOKENS, sizeof(float));
}

static bool same_scores(const scores *a, const scores *b)
{
    return memcmp(a->logprob, b->logprob, sizeof(a->logprob)) == 0;
}

static tess_reference *create(rig *r, const char *path, int64_t update_interval, double ema)
{
    tess_reference *reference;
    const tess_reference_options options = {path, update_interval, ema};
    EXPECT_OK(tess_reference_create(r->engine, &options, NULL, &reference));
    return reference;
}

static double drift_of(tess_reference *reference)
{
    double drift;
    EXPECT_OK(tess_reference_drift(reference, &drift));
    return drift;
}

static const char *const ways[] = {
    "parallelism.shard_strategy=none training.mixed_precision_param=float32",
    "parallelism.shard_strategy=none training.mixed_precision_param=bfloat16",
    "parallelism.shard_strategy=full training.mixed_precision_param=float32",
    "parallelism.shard_strategy=full training.mixed_precision_param=bfloat16",
};
enum { WAYS = 4 };

/* ---- It stays ---- */
static void the_reference_stays_as_the_policy_began(void)
{
    for (int i = 0; i < WAYS; i++) {
        rig r;
        open_rig(&r, ways[i]);
        tess_reference *reference = create(&r, "", 0, 0);
        scores first = score_policy(&r, 1), cold = score_policy(&r, 1.4f), got = score_reference(&r, reference, 1);
        expect_scores(ways[i], &got, &first);
        got = score_reference(&r, reference, 1.4f);
        expect_scores(ways[i], &got, &cold);
        EXPECT(drift_of(reference) == 0);
        for (int k = 1; k <= 3; k++) {
            step_rig(&r);
            EXPECT_OK(tess_reference_after_step(reference, k));
        }
        got = score_reference(&r, reference, 1);
        expect_scores(ways[i], &got, &first);
        double drift = drift_of(reference);
        EXPECT(drift > 1e-4 && drift < 0.05); /* three steps of AdamW at 0.01 */
        scores moved = score_policy(&r, 1);
        EXPECT(!same_scores(&moved, &got));
        EXPECT_INT(tess_reference_n_tensors(reference), 0);
        /* Made late, it is the same. */
        tess_reference *late = create(&r, "", 0, 0);
        got = score_reference(&r, late, 1);
        expect_scores(ways[i], &got, &first);
        tess_reference_destroy(&late);
        tess_reference_destroy(&reference);
        tess_engine_destroy(&r.engine);
        tess_config_free(&r.config);
    }
    test_leave();
}

/* ---- It follows ---- */
static void the_reference_becomes_the_policy_at_every_interval(void)
{
    for (int i = 0; i < WAYS; i++) {
        rig r;
        open_rig(&r, ways[i]);
        tess_reference *reference = create(&r, "", 2, 0);
        scores first = score_policy(&r, 1), got = score_reference(&r, reference, 1);
        expect_scores(ways[i], &got, &first);
        for (int k = 1; k <= 5; k++) {
            step_rig(&r);
            scores policy = score_policy(&r, 1);
            EXPECT_OK(tess_reference_after_step(reference, k));
            got = score_reference(&r, reference, 1);
            if (k % 2 == 0) {
                expect_scores(ways[i], &got, &policy);
                EXPECT(drift_of(reference) == 0);
                first = policy;
            } else {
                expect_scores(ways[i], &got, &first);
                EXPECT(drift_of(reference) > 0);
            }
        }
        tess_reference_destroy(&reference);
        tess_engine_destroy(&r.engine);
        tess_config_free(&r.config);
    }
    test_leave();
}

static double mean_of_two(double keep, float reference, float policy)
{
    return keep * (double)reference + (1 - keep) * (double)policy;
}

/* The tensors of a checkpoint are the averages in float32; what computes is those, rounded. */
static void an_average_of_reference_and_policy_is_that_of_the_formula(void)
{
    static const double keep = 0.9;
    rig r;
    open_rig(&r, ways[3]);
    tess_reference *reference = create(&r, "", 1, keep);
    int n = tess_reference_n_tensors(reference);
    tess_ckpt_tensor tensors[64];
    float *want[64];
    EXPECT(n == tess_model_n_params(r.engine->model) && n <= 64);
    EXPECT_OK(tess_reference_tensors(reference, tensors));
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)tess_ckpt_count(&tensors[i], &tensors[i].box) * sizeof(float);
        EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, bytes, "expected", (void **)&want[i]));
        memcpy(want[i], tensors[i].data, bytes);
        EXPECT(strncmp(tensors[i].name, "reference.", 10) == 0);
        EXPECT_TEXT(tensors[i].name + 10, tess_model_param(r.engine->model, i)->name);
    }
    for (int k = 1; k <= 3; k++) {
        step_rig(&r);
        EXPECT_OK(tess_reference_after_step(reference, k));
        EXPECT_OK(tess_reference_tensors(reference, tensors));
        for (int i = 0; i < n; i++) {
            tess_shard shard;
            EXPECT_OK(tess_fsdp_shard(r.engine->fsdp, i, &shard));
            int64_t row = tess_shard_row(&shard), at = (shard.primary.begin[0] - shard.box.begin[0]) * row;
            EXPECT_INT(tess_ckpt_count(&tensors[i], &tensors[i].box), shard.primary.size[0] * row);
            for (int64_t e = 0; e < shard.primary.size[0] * row; e++)
                want[i][e] = (float)mean_of_two(keep, want[i][e], shard.master[at + e]);
            test_expect_same(__FILE__, __LINE__, tensors[i].name, tensors[i].data, want[i],
                             (size_t)(shard.primary.size[0] * row), sizeof(float));
        }
    }
    EXPECT(drift_of(reference) > 0);
    for (int i = 0; i < n; i++)
        tess_mem_free(test_mem(), want[i]);
    tess_reference_destroy(&reference);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* The tensors of a checkpoint make another reference the same. */
static void a_reference_that_follows_is_restored(void)
{
    rig r;
    open_rig(&r, ways[3]);
    tess_reference *reference = create(&r, "", 1, 0.5), *other;
    tess_ckpt_tensor saved[64], loaded[64];
    step_rig(&r);
    EXPECT_OK(tess_reference_after_step(reference, 1));
    other = create(&r, "", 1, 0.5);
    scores want = score_reference(&r, reference, 1), got = score_reference(&r, other, 1);
    EXPECT(!same_scores(&got, &want));
    EXPECT_OK(tess_reference_tensors(reference, saved));
    EXPECT_OK(tess_reference_tensors(other, loaded));
    for (int i = 0; i < tess_reference_n_tensors(reference); i++)
        memcpy(loaded[i].data, saved[i].data, (size_t)tess_ckpt_count(&saved[i], &saved[i].box) * sizeof(float));
    EXPECT_OK(tess_reference_loaded(other));
    got = score_reference(&r, other, 1);
    expect_scores("restored", &got, &want);
    tess_reference_destroy(&other);
    tess_reference_destroy(&reference);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* ---- However the policy is cut ---- */
/* The reference after three steps, which it follows. */
static scores follow(const char *overrides)
{
    rig r;
    open_rig(&r, overrides);
    tess_reference *reference = create(&r, "", 3, 0.25);
    for (int k = 1; k <= 3; k++) {
        step_rig(&r);
        EXPECT_OK(tess_reference_after_step(reference, k));
    }
    scores s = score_reference(&r, reference, 1);
    EXPECT(drift_of(reference) > 0);
    tess_reference_destroy(&reference);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    return s;
}

static void a_reference_that_follows_has_the_same_bits_however_ranks_share_the_policy(void)
{
    static const char *const shared[] = {
        "parallelism.shard_strategy=full", "parallelism.shard_strategy=zero2", "parallelism.tensor_parallel_degree=2",
        "parallelism.pipeline_parallel_degree=2",
        "parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2"};
    scores want = follow("parallelism.shard_strategy=none");
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
        scores got = follow(shared[i]);
        expect_scores(shared[i], &got, &want);
    }
    test_leave();
}

/* ---- Files ---- */
/* A policy that begins with a folder, and a reference of it next to one with random weights. */
static void it_is_read_from_a_folder(void)
{
    for (int i = 0; i < 2 * WAYS; i++) {
        rig r;
        char overrides[1024], folder[512];
        tess_dtype stored = i < WAYS ? TESS_F32 : TESS_BF16;
        snprintf(folder, sizeof(folder), "%s", write_folder(i < WAYS ? "wide" : "narrow", model_json, 7, stored));
        snprintf(overrides, sizeof(overrides), "%s model.path=%s", ways[i % WAYS], folder);
        open_rig(&r, overrides);
        scores want = score_policy(&r, 1);
        tess_reference *of_run = create(&r, "", 0, 0);
        scores got = score_reference(&r, of_run, 1);
        expect_scores(overrides, &got, &want);
        tess_reference_destroy(&of_run);
        tess_engine_destroy(&r.engine);
        tess_config_free(&r.config);

        open_rig(&r, ways[i % WAYS]);
        tess_reference *reference = create(&r, folder, 0, 0), *follows = create(&r, folder, 4, 0);
        scores other = score_policy(&r, 1);
        got = score_reference(&r, reference, 1);
        EXPECT(!same_scores(&got, &other));
        expect_scores(overrides, &got, &want);
        got = score_reference(&r, follows, 1);
        expect_scores(overrides, &got, &want);
        EXPECT(drift_of(reference) > 0 && drift_of(reference) == drift_of(follows));
        /* Stored as it is computed, nothing is copied. */
        EXPECT((reference->copy.bytes == 0) == (stored == (i % 2 == 0 ? TESS_F32 : TESS_BF16)));
        EXPECT(follows->copy.bytes > 0);
        tess_reference_destroy(&follows);
        tess_reference_destroy(&reference);
        tess_engine_destroy(&r.engine);
        tess_config_free(&r.config);
    }
    test_leave();
}

/* A run that begins with a checkpoint of another: its reference is that. */
static void a_run_that_begins_with_a_checkpoint_has_that_as_its_reference(void)
{
    rig r;
    char overrides[1024], folder[512];
    snprintf(folder, sizeof(folder), "%s", write_folder("start", model_json, 9, TESS_F32));
    snprintf(overrides, sizeof(overrides), "%s checkpoint.initial_load_path=%s", ways[0], folder);
    open_rig(&r, overrides);
    tess_reference *of_run = create(&r, "", 0, 0), *named = create(&r, folder, 0, 0);
    scores got = score_reference(&r, of_run, 1), want = score_reference(&r, named, 1), policy = score_policy(&r, 1);
    expect_scores("warm start", &got, &want);
    EXPECT(!same_scores(&got, &policy));
    tess_reference_destroy(&named);
    tess_reference_destroy(&of_run);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);

    snprintf(overrides + strlen(overrides), sizeof(overrides) - strlen(overrides),
             " checkpoint.exclude_from_loading=[\"lm_head.weight\"]");
    open_rig(&r, overrides);
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){"", 0, 0}, NULL, &of_run),
                 TESS_E_UNSUPPORTED, "name the reference's weights in reference.path");
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* `model_json` with a number changed. */
static const char *other_json(const char *key, int value)
{
    static char text[1024];
    json_t *json = NULL;
    EXPECT_OK(tess_json_parse(model_json, sizeof(model_json) - 1, "test", true, &json));
    json_object_set_new(json, key, json_integer(value));
    char *dumped = json_dumps(json, 0);
    snprintf(text, sizeof(text), "%s", dumped);
    free(dumped);
    json_decref(json);
    return text;
}

/* Another size of model will do while it stays; another vocabulary never. */
static void a_reference_of_another_size_does_and_of_another_vocabulary_does_not(void)
{
    rig r;
    char folder[512];
    tess_reference *reference;
    double drift;
    open_rig(&r, ways[1]);
    snprintf(folder, sizeof(folder), "%s", write_folder("small", other_json("num_hidden_layers", 1), 3, TESS_BF16));
    reference = create(&r, folder, 0, 0);
    scores got = score_reference(&r, reference, 1);
    EXPECT(got.logprob[0] < 0);
    EXPECT_OK(tess_reference_drift(reference, &drift));
    EXPECT(isnan(drift));
    tess_reference_destroy(&reference);
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){folder, 5, 0}, NULL, &reference),
                 TESS_E_INVALID, "is another model than the policy");
    EXPECT(reference == NULL);
    snprintf(folder, sizeof(folder), "%s", write_folder("words", other_json("vocab_size", 62), 3, TESS_BF16));
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){folder, 0, 0}, NULL, &reference),
                 TESS_E_INVALID, "the reference has 62 tokens, the policy 61");
    char scored[1024];
    const char *rest = strstr(model_json, "CausalLM");
    snprintf(scored, sizeof(scored), "%.*sSequenceClassification%s", (int)(rest - model_json), model_json, rest + 8);
    snprintf(folder, sizeof(folder), "%s", write_folder("scored", scored, 3, TESS_BF16));
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){folder, 0, 0}, NULL, &reference),
                 TESS_E_INVALID, "is no language model: its head has 2 outputs");
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static void options_without_sense_are_refused(void)
{
    rig r;
    tess_reference *reference;
    open_rig(&r, ways[0]);
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){"", -1, 0}, NULL, &reference),
                 TESS_E_INVALID, "update_interval is -1");
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){"", 1, 1}, NULL, &reference), TESS_E_INVALID,
                 "ema is 1; it must be in [0, 1)");
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){"", 0, 0.5}, NULL, &reference),
                 TESS_E_INVALID, "set update_interval");
    EXPECT_FAILS(tess_reference_create(r.engine, &(tess_reference_options){"/nowhere", 0, 0}, NULL, &reference),
                 TESS_E_NOT_FOUND, "/nowhere");
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* ---- The vote for a kind of reference ---- */
static void expect_choice(tess_reference_case of, tess_reference_kind kind, int n_swap, int n_independent, double saved)
{
    tess_reference_choice got = tess_reference_choose(&of);
    EXPECT(got.kind == kind);
    EXPECT_INT(got.n_swap, n_swap);
    EXPECT_INT(got.n_independent, n_independent);
    EXPECT_INT(got.n_votes, n_swap + n_independent);
    EXPECT(fabs(got.saved_gb - saved) < 1e-12);
}

static void the_choice_of_kinds_is_the_documents_vote(void)
{
    expect_choice((tess_reference_case){5, 40, 20, true, false}, TESS_REFERENCE_INDEPENDENT, 0, 3, 0);
    expect_choice((tess_reference_case){30, 40, 5, false, false}, TESS_REFERENCE_SWAP, 3, 0, 21);
    tess_reference_choice tight = tess_reference_choose(&(tess_reference_case){30, 40, 5, false, false});
    EXPECT_TEXT(tight.votes[0].factor, "MEMORY_TIGHT");
    EXPECT_TEXT(tess_reference_kind_name(tight.kind), "weight_swapping");
    tess_reference_choice critical = tess_reference_choose(&(tess_reference_case){30, 38.9, 9, false, false});
    EXPECT_TEXT(critical.votes[0].factor, "MEMORY_CRITICAL");
    EXPECT_TEXT(critical.votes[2].factor, "RARE_SYNC");
    /* Twice the model is enough, ten steps are often, two votes each are swapping. */
    expect_choice((tess_reference_case){20, 40, 9, false, true}, TESS_REFERENCE_SWAP, 2, 2, 0);
    expect_choice((tess_reference_case){20, 40, 10, false, true}, TESS_REFERENCE_INDEPENDENT, 1, 3, 0);
    expect_choice((tess_reference_case){20, 39.9, 10, true, false}, TESS_REFERENCE_INDEPENDENT, 1, 2, 14);
}

static const test_case cases[] = {
    CASE(the_reference_stays_as_the_policy_began, -1),
    CASE(the_reference_becomes_the_policy_at_every_interval, -1),
    CASE(an_average_of_reference_and_policy_is_that_of_the_formula, -1),
    CASE(a_reference_that_follows_is_restored, 2),
    CASE(a_reference_that_follows_has_the_same_bits_however_ranks_share_the_policy, 2),
    {"a_reference_of_a_folder_has_the_bits_of_a_policy_of_it", it_is_read_from_a_folder, 1, 0},
    {"ranks_share_a_reference_of_a_folder", it_is_read_from_a_folder, 4, 0},
    CASE(a_run_that_begins_with_a_checkpoint_has_that_as_its_reference, 1),
    CASE(a_reference_of_another_size_does_and_of_another_vocabulary_does_not, 2),
    CASE(options_without_sense_are_refused, 1),
    CASE(the_choice_of_kinds_is_the_documents_vote),
};
TEST_MAIN(cases)
