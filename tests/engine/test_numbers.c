/* A value made bad at a chosen place is named: which rank, micro-batch, tensor, row and column; and it leaves no trace.
 */
#include <math.h>

#include "base/text/json.h"
#include "support/moments.h"
#include "support/rig.h"
#include "tessera/comm.h"
#include "device/finite.h"
#include "engine/numbers/numbers_impl.h"

enum { ROWS = 2, LENGTH = 8, TOKENS = ROWS * LENGTH, VOCABULARY = 61, WORLD = 4, MICRO = 8 };

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24,"
    "\"intermediate_size\": 37, \"num_hidden_layers\": 3, \"num_attention_heads\": 3, \"num_key_value_heads\": 1,"
    "\"head_dim\": 8, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

/* ---- An engine for the tests ---- */

typedef struct tokens {
    int32_t ids[TOKENS], pos[TOKENS], targets[TOKENS], cu_seqlens[ROWS + 1];
} tokens;

static tess_status next_tokens(void *self, int64_t index, tess_batch *batch)
{
    tokens *t = self;
    uint32_t x = 2654435761u * (uint32_t)(index + 1);
    for (int i = 0; i < TOKENS; i++) {
        x = x * 1103515245u + 12345u;
        t->ids[i] = (int32_t)(x >> 16) % VOCABULARY;
        t->pos[i] = i % LENGTH;
    }
    for (int i = 0; i < TOKENS; i++)
        t->targets[i] = i % LENGTH == LENGTH - 1 ? -1 : t->ids[i + 1];
    for (int r = 0; r <= ROWS; r++)
        t->cu_seqlens[r] = r * LENGTH;
    *batch = (tess_batch){.n_tokens = TOKENS,
                          .n_seqs = ROWS,
                          .ids = t->ids,
                          .pos = t->pos,
                          .targets = t->targets,
                          .cu_seqlens = t->cu_seqlens};
    return TESS_OK;
}

typedef struct rig {
    tess_runtime *runtime;
    tess_config config;
    tess_model_config model;
    tess_engine *engine;
    tokens tokens;
} rig;

static tess_batch_source source_of(rig *r)
{
    return tess_engine_source(r->engine, &r->tokens, next_tokens);
}

static void override(rig *r, const char *assignment)
{
    EXPECT_OK(tess_config_override(&r->config, assignment));
}

static void open_rig(rig *r, const char *const *overrides)
{
    *r = (rig){.runtime = test_stay_joined()};
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "test", &r->config));
    override(r, "training.local_batch_size=2");
    override(r, "training.global_batch_size=16");
    override(r, "training.seq_len=8");
    override(r, "training.steps=1000");
    override(r, "lr_scheduler.warmup_steps=1");
    for (int i = 0; overrides != NULL && overrides[i] != NULL; i++)
        override(r, overrides[i]);
    EXPECT_OK(tess_config_check_step(&r->config, tess_runtime_world(r->runtime)));
    test_model(model_json, &r->model);
    EXPECT_OK(tess_engine_create(r->runtime, &r->config, &r->model, NULL, &r->engine));
}

static void close_rig(rig *r)
{
    tess_engine_destroy(&r->engine);
    tess_config_free(&r->config);
}

static tess_status step(rig *r, tess_engine_report *report)
{
    tess_batch_source source = source_of(r);
    return tess_engine_step(r->engine, &source, report);
}

/* ---- A drill: one value of one tensor on one rank in one step ---- */

typedef struct drill {
    tess_engine *engine;
    const char *tensor; /* tess_watch's name of it */
    int rank;
    int64_t step, local, index; /* local: micro-batch of the rank, -1: before the first */
    double value;
    int times; /* how often it strikes; 1: the second run is finite */
} drill;

static void strike(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                   int64_t row)
{
    drill *d = self;
    (void)unit;
    (void)first;
    bool here = strcmp(what, d->tensor) == 0 && d->engine->at.rank == d->rank && d->engine->step + 1 == d->step &&
                tess_numbers_local(d->engine->numbers) == d->local && d->index < n_rows * row;
    if (!here || d->times == 0)
        return;
    d->times--;
    if (dtype == TESS_F32)
        ((float *)data)[d->index] = (float)d->value;
    else
        ((uint16_t *)data)[d->index] = isnan(d->value) ? 0x7fc0 : 0x7f80;
}

enum { ALWAYS = 1 << 30 };

static void set_drill(rig *r, drill *d)
{
    d->engine = r->engine;
    tess_numbers_set_drill(r->engine->numbers, &(tess_watch){d, strike});
}

static const char *const strategies[] = {"parallelism.shard_strategy=none", "parallelism.shard_strategy=zero1",
                                         "parallelism.shard_strategy=zero2", "parallelism.shard_strategy=full",
                                         "parallelism.shard_strategy=hybrid"};

/* Hybrid on four ranks: two replicas of two shards. */
static const char *degree_of(size_t strategy)
{
    return strategy == 4 && tess_runtime_world(test_stay_joined()) == 4 ? "parallelism.data_parallel_shard_degree=2"
                                                                        : NULL;
}

typedef struct named_case {
    const char *tensor;
    int64_t index;
    double value;
    const char *message; /* %d: rank; %d: micro-batch */
} named_case;

static const named_case named[] = {
    {"attention output model.layers.1", 24 * 5 + 7, NAN,
     "first came rank %d, micro-batch %d of 0..7: attention output 'model.layers.1' is nan at row 5, column 7 (1 of "
     "384 values are bad); all weights were finite"},
    {"output embed", 24 * 15 + 23, INFINITY,
     "first came rank %d, micro-batch %d of 0..7: output 'embed' is inf at row 15, column 23 (1 of 384"},
    {"feed-forward output model.layers.2", 0, NAN,
     "first came rank %d, micro-batch %d of 0..7: feed-forward output 'model.layers.2' is nan at row 0, column 0"},
    {"log-probabilities head", 3, NAN,
     "first came rank %d, micro-batch %d of 0..7: log-probabilities 'head' is nan at row 3, column 0"},
    {"input gradient model.layers.0", 24 * 2 + 1, INFINITY,
     "first came rank %d, micro-batch %d of 0..7: input gradient 'model.layers.0' is inf at row 2, column 1"},
    {"gradient model.layers.0.mlp.up_proj.weight", 24 * 36 + 4, INFINITY,
     "first came rank %d, micro-batch %d of 0..7: gradient 'model.layers.0.mlp.up_proj.weight' is inf at row 36, "
     "column 4 (1 of 888 values are bad)"},
};

/* A bad value on the last rank, in its last micro-batch but one, with every strategy. */
static void the_first_bad_value_is_named(void)
{
    rig r;
    tess_engine_report report;
    char message[256];
    for (size_t s = 0; s < sizeof(strategies) / sizeof(strategies[0]); s++) {
        open_rig(&r, (const char *const[]){strategies[s], degree_of(s), NULL});
        int world = tess_runtime_world(r.runtime), rank = world - 1, local = MICRO / world - 2;
        EXPECT_OK(step(&r, &report));
        for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
            drill d = {.tensor = named[i].tensor,
                       .rank = rank,
                       .step = 2,
                       .local = local,
                       .index = named[i].index,
                       .value = named[i].value,
                       .times = ALWAYS};
            set_drill(&r, &d);
            tess_status status = step(&r, &report);
            EXPECT_INT(status, TESS_E_NOT_FINITE);
            EXPECT_CONTAINS(tess_error_message(), "step 2: loss ");
            snprintf(message, sizeof(message), named[i].message, rank, local * world + rank);
            EXPECT_CONTAINS(tess_error_message(), message);
            tess_error_clear();
        }
        close_rig(&r);
    }
    test_leave();
}

/* Each rank that shares the stream sees some rows: a place is that in the micro-batch. */
static void a_bad_row_of_a_shared_stream_is_named(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){"parallelism.tensor_parallel_degree=2", NULL});
    drill d = {.tensor = "attention output model.layers.1",
               .rank = 1,
               .step = 1,
               .local = 3,
               .index = 24 * 5 + 7,
               .value = NAN,
               .times = ALWAYS};
    set_drill(&r, &d);
    EXPECT_INT(step(&r, &report), TESS_E_NOT_FINITE);
    EXPECT_CONTAINS(tess_error_message(), "first came rank 1, micro-batch 3 of 0..7: attention output "
                                          "'model.layers.1' is nan at row 13, column 7 (1 of 192 values are bad)");
    tess_error_clear();
    close_rig(&r);
    test_leave();
}

/* Ranks that divide tokens have them in the order of leaves: a place is that in the micro-batch. */
static void a_bad_row_of_divided_tokens_is_named(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){"training.context_leaves=4", "parallelism.context_parallel_degree=2", NULL});
    drill d = {.tensor = "attention output model.layers.1",
               .rank = 1, /* its pieces of 32 tokens are the second and the third of four */
               .step = 1,
               .local = 3,
               .index = 24 * 40 + 7,
               .value = NAN,
               .times = ALWAYS};
    set_drill(&r, &d);
    EXPECT_INT(step(&r, &report), TESS_E_NOT_FINITE);
    EXPECT_CONTAINS(tess_error_message(), "first came rank 1, micro-batch 3 of 0..7: attention output "
                                          "'model.layers.1' is nan at row 72, column 7 (1 of 1536 values are bad)");
    tess_error_clear();
    close_rig(&r);
    test_leave();
}

/* FNV-1a over this rank's weights. */
static uint64_t weights_of(const rig *r)
{
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < tess_fsdp_shards(r->engine->fsdp); i++) {
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(r->engine->fsdp, i, &shard));
        const uint8_t *bytes = (const uint8_t *)shard.master;
        for (int64_t k = 0; k < 4 * shard.box.size[0] * tess_shape_row_count(&shard.shape); k++)
            hash = (hash ^ bytes[k]) * 1099511628211u;
    }
    return hash;
}

/* A run with a drill in step 3 against one without, which skips the update of step 3 or not. */
static void run_five(size_t strategy, bool drilled, int times, double *losses, uint64_t *weights, char *note,
                     size_t size)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){strategies[strategy], "numbers.on_nonfinite=skip", degree_of(strategy), NULL});
    drill d = {.tensor = "gradient model.layers.1.self_attn.q_proj.weight",
               .rank = tess_runtime_world(r.runtime) / 2,
               .step = 3,
               .local = 1,
               .index = 11,
               .value = NAN,
               .times = times};
    if (drilled)
        set_drill(&r, &d);
    for (int i = 0; i < 5; i++) {
        EXPECT_OK(step(&r, &report));
        losses[i] = report.loss;
        if (i == 2)
            snprintf(note, size, "%s", report.note);
        weights[i] = weights_of(&r);
    }
    close_rig(&r);
}

/* The rank that sums gradients sees whose was bad. A single rank has no peers, and other hosts send only sums. */
static void expect_source(const char *note)
{
    char text[160];
    int world = tess_runtime_world(test_stay_joined()), rank = world / 2;
    if (world == 1 || tess_runtime_hosts(test_stay_joined()) > 1)
        snprintf(text, sizeof(text), "owns the rows: summed gradient");
    else
        snprintf(text, sizeof(text), "rank %d, micro-batch %d of 0..7: gradient", rank, world + rank);
    EXPECT_CONTAINS(note, "computed again it is well; what was seen first: rank ");
    EXPECT_CONTAINS(note, text);
    EXPECT_CONTAINS(note, "gradient 'model.layers.1.self_attn.q_proj.weight' is nan at row 0, column 11");
}

static void a_fault_that_does_not_repeat_leaves_no_trace(void)
{
    double clean[5], hit[5];
    uint64_t clean_weights[5], hit_weights[5];
    char note[1024];
    for (size_t s = 0; s < sizeof(strategies) / sizeof(strategies[0]); s++) {
        run_five(s, false, 0, clean, clean_weights, note, sizeof(note));
        EXPECT_TEXT(note, "");
        run_five(s, true, 1, hit, hit_weights, note, sizeof(note));
        expect_source(note);
        EXPECT_CONTAINS(note, "the run goes on with the second result");
        test_expect_same(__FILE__, __LINE__, "losses", clean, hit, 5, sizeof(double));
        test_expect_same(__FILE__, __LINE__, "weights", clean_weights, hit_weights, 5, sizeof(uint64_t));
    }
    test_leave();
}

static void a_skipped_step_changes_no_weight(void)
{
    double losses[5];
    uint64_t weights[5];
    char note[1024];
    for (size_t s = 0; s < sizeof(strategies) / sizeof(strategies[0]); s++) {
        run_five(s, true, ALWAYS, losses, weights, note, sizeof(note));
        EXPECT_CONTAINS(note, "gradient 'model.layers.1.self_attn.q_proj.weight' is nan");
        EXPECT_CONTAINS(note, "its update is skipped (1 so far)");
        EXPECT(weights[1] == weights[2]);
        EXPECT(weights[2] != weights[3]);
        EXPECT(isfinite(losses[3]) && isfinite(losses[4]));
    }
    test_leave();
}

static void too_many_skips_end_the_run(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){"numbers.on_nonfinite=skip", "numbers.max_skips=2", NULL});
    tess_shard shard;
    EXPECT_OK(tess_fsdp_shard(r.engine->fsdp, 1, &shard));
    if (tess_runtime_rank(r.runtime) == 0)
        shard.master[2] = INFINITY;
    EXPECT_OK(tess_fsdp_params_changed(r.engine->fsdp));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(step(&r, &report));
        EXPECT(report.skipped);
        EXPECT_CONTAINS(report.note,
                        "first came rank 0: weight 'model.layers.0.input_layernorm.weight' is inf at row 2");
        EXPECT_CONTAINS(report.note, "the weights were bad before this step: go back to a checkpoint");
    }
    EXPECT_INT(step(&r, &report), TESS_E_NOT_FINITE);
    EXPECT_CONTAINS(tess_error_message(), "2 steps in a row were skipped before it (numbers.max_skips=2)");
    close_rig(&r);
    test_leave();
}

/* numbers.check=always also finds what does not repeat. */
static void checks_on_the_way_name_what_does_not_repeat(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){"numbers.check=always", NULL});
    int rank = tess_runtime_world(r.runtime) - 1;
    drill d = {.tensor = "feed-forward output model.layers.0",
               .rank = rank,
               .step = 2,
               .local = 1,
               .index = 24 + 3,
               .value = NAN,
               .times = 1};
    set_drill(&r, &d);
    EXPECT_OK(step(&r, &report));
    EXPECT_INT(step(&r, &report), TESS_E_MISMATCH);
    char text[160];
    snprintf(text, sizeof(text),
             "what was seen first: rank %d, micro-batch %d of 0..7: feed-forward output "
             "'model.layers.0' is nan at row 1, column 3",
             rank, tess_runtime_world(r.runtime) + rank);
    EXPECT_CONTAINS(tess_error_message(), text);
    close_rig(&r);
    test_leave();
}

/* A bad gathered copy is gathered again, and is not mistaken for bad weights. */
static void a_bad_gathered_parameter_is_named_with_its_owner(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){"numbers.on_nonfinite=skip", NULL});
    int world = tess_runtime_world(r.runtime);
    drill d = {.tensor = "parameter model.layers.2.mlp.up_proj.weight",
               .rank = 0,
               .step = 1,
               .local = 0,
               .index = 24 * 36,
               .value = NAN,
               .times = ALWAYS};
    set_drill(&r, &d);
    EXPECT_OK(step(&r, &report));
    EXPECT(report.skipped);
    char text[160];
    snprintf(text, sizeof(text),
             "rank %d, micro-batch %d of 0..7: parameter 'model.layers.2.mlp.up_proj.weight' is nan "
             "at row 36, column 0",
             world - 1, world - 1);
    EXPECT_CONTAINS(report.note, text);
    EXPECT_OK(step(&r, &report));
    EXPECT(!report.skipped && report.note[0] == '\0');
    close_rig(&r);
    test_leave();
}

static int64_t first_bad(tess_stream *s, const void *x, tess_dtype dtype, int64_t n)
{
    int64_t first = -2;
    EXPECT_OK(tess_stream_kernels(s)->find_not_finite(
        s, &(tess_find_not_finite_args){.x = x, .dtype = dtype, .n = n, .first = &first}));
    return first;
}

static void searching_finds_the_first_of_any_length(void)
{
    enum { N = 20011 };
    static float x[N];
    static uint16_t y[N];
    tess_stream *s;
    EXPECT_OK(tess_stream_create(test_mem(), 3, NULL, &s));
    for (int64_t i = 0; i < N; i++) {
        x[i] = 3.4e38f; /* the largest finite exponent */
        y[i] = 0xff7f;
    }
    EXPECT_INT(first_bad(s, x, TESS_F32, N), -1);
    EXPECT_INT(first_bad(s, y, TESS_BF16, N), -1);
    static const int64_t places[] = {0, 1, 4095, 4096, 9999, N - 1};
    for (size_t i = sizeof(places) / sizeof(places[0]); i-- > 0;) {
        x[places[i]] = i % 2 == 0 ? NAN : -INFINITY;
        y[places[i]] = i % 2 == 0 ? 0xffc1 : 0xff80;
        EXPECT_INT(first_bad(s, x, TESS_F32, N), places[i]);
        EXPECT_INT(first_bad(s, y, TESS_BF16, N), places[i]);
        EXPECT_INT(first_bad(s, x, TESS_F32, places[i]), -1);
        EXPECT_INT(tess_count_not_finite(x, TESS_F32, N), sizeof(places) / sizeof(places[0]) - i);
    }
    tess_stream_destroy(&s);
}

static void a_spike_stands_out_of_its_window(void)
{
    tess_spikes spikes = {.n = 0};
    for (int i = 0; i < TESS_SPIKE_WINDOW - 1; i++)
        EXPECT(isnan(tess_spikes_add(&spikes, i % 2 == 0 ? 1 : 3)));
    EXPECT(fabs(tess_spikes_add(&spikes, 3) - 1) < 1e-12); /* mean 2, deviation 1 */
    double z = tess_spikes_add(&spikes, 1e9);
    EXPECT(z > 11.26 && z < 11.27); /* sqrt(127) */
    for (int i = 0; i < TESS_SPIKE_WINDOW; i++)
        z = tess_spikes_add(&spikes, 5);
    EXPECT(z == 0);
}

/* A loss of a hundred deviations above the window: the update is skipped, once the window is full. */
static void a_spike_of_the_loss_is_skipped_when_asked_to(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){"numbers.skip_update_lossz=8", "training.global_batch_size=8", NULL});
    drill d = {.tensor = "log-probabilities head",
               .rank = 0,
               .step = 131,
               .local = 0,
               .index = 0,
               .value = -1e6,
               .times = ALWAYS};
    set_drill(&r, &d);
    for (int i = 1; i <= 132; i++) {
        uint64_t before = weights_of(&r);
        EXPECT_OK(step(&r, &report));
        EXPECT_INT(report.skipped, i == 131);
        EXPECT_INT(weights_of(&r) == before, i == 131);
        EXPECT_INT(isnan(report.zloss), i < 128);
        EXPECT_INT(report.note[0] != '\0', i == 131);
    }
    close_rig(&r);
    test_leave();
}

/* ---- Replicas ---- */

static void votes_go_by_majority(void)
{
    bool odd[5];
    static const uint64_t same[] = {7, 7, 7}, one[] = {7, 7, 9, 7}, two[] = {1, 7, 7, 9, 7}, tie[] = {7, 9},
                          pairs[] = {7, 9, 7, 9, 3};
    EXPECT_INT(tess_vote_on(same, 1, 3, odd), TESS_VOTE_SAME);
    EXPECT_INT(tess_vote_on(one, 1, 4, odd), TESS_VOTE_ODD);
    EXPECT(!odd[0] && !odd[1] && odd[2] && !odd[3]);
    EXPECT_INT(tess_vote_on(two, 1, 5, odd), TESS_VOTE_ODD);
    EXPECT(odd[0] && !odd[1] && !odd[2] && odd[3] && !odd[4]);
    EXPECT_INT(tess_vote_on(tie, 1, 2, odd), TESS_VOTE_TIE);
    EXPECT(!odd[0] && !odd[1]);
    EXPECT_INT(tess_vote_on(pairs, 1, 5, odd), TESS_VOTE_TIE);
    EXPECT_INT(tess_vote_on(one + 1, 2, 2, odd), TESS_VOTE_SAME);
}

static const char *const kinds[] = {"weight", "exp_avg of", "exp_avg_sq of"};

/* The bits of parameter `index` on this rank: weights or a moment. */
static uint32_t *state_of(rig *r, int index, int kind, int64_t *n)
{
    tess_shard shard;
    float *m, *v;
    EXPECT_OK(tess_fsdp_shard(r->engine->fsdp, index, &shard));
    moments_of(r->engine->optimizer, index, &m, &v);
    *n = shard.box.size[0] * tess_shape_row_count(&shard.shape);
    return (uint32_t *)(kind == 0 ? shard.master : kind == 1 ? m : v);
}

/* Flips one bit of the state of one rank, which is found, and flips it back. All ranks draw the same choice. */
static void flip_bits(rig *r, int n_flips)
{
    int world = tess_runtime_world(r->runtime), rank = tess_runtime_rank(r->runtime);
    uint64_t x = 88172645463325252u;
    char message[160];
    for (int i = 0; i < n_flips; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        int64_t n;
        int victim = (int)(x % (uint64_t)world), kind = (int)((x >> 8) % 3),
            index = (int)((x >> 16) % (uint64_t)tess_fsdp_shards(r->engine->fsdp)), bit = (int)((x >> 40) % 32);
        uint32_t *word = state_of(r, index, kind, &n) + (int64_t)((x >> 24) % (uint64_t)n);
        if (rank == victim)
            *word ^= 1u << bit;
        EXPECT_INT(tess_numbers_compare(r->engine->numbers), TESS_E_MISMATCH);
        snprintf(message, sizeof(message),
                 "replicas have diverged: rank %d: %s '%s': other bits than on %d of %d ranks", victim, kinds[kind],
                 tess_model_param(r->engine->model, index)->name, world - 1, world);
        EXPECT_CONTAINS(tess_error_message(), message);
        tess_error_clear();
        if (rank == victim)
            *word ^= 1u << bit;
    }
    EXPECT_OK(tess_numbers_compare(r->engine->numbers));
}

static void a_flipped_bit_of_a_replica_is_found(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, (const char *const[]){"parallelism.shard_strategy=none", NULL});
    EXPECT_OK(step(&r, &report));
    flip_bits(&r, 700);
    close_rig(&r);
    open_rig(&r, (const char *const[]){"parallelism.shard_strategy=hybrid",
                                       "parallelism.data_parallel_replicate_degree=4", NULL});
    EXPECT_OK(step(&r, &report));
    flip_bits(&r, 300);
    close_rig(&r);
    test_leave();
}

/* Two replicas of two shards: there is no majority. */
static void two_replicas_that_differ_are_a_tie(void)
{
    rig r;
    open_rig(&r, (const char *const[]){strategies[4], degree_of(4), NULL});
    int64_t n;
    if (tess_runtime_rank(r.runtime) == 3)
        *state_of(&r, 2, 2, &n) ^= 1;
    EXPECT_INT(tess_numbers_compare(r.engine->numbers), TESS_E_MISMATCH);
    EXPECT_CONTAINS(tess_error_message(), "ranks 1 and 3 hold exp_avg_sq of 'model.layers.0.self_attn.q_proj.weight' "
                                          "with different bits; no majority says who is right (a tie)");
    close_rig(&r);
    test_leave();
}

/* A weight that differs from its gathered copy: the message names the owner. */
static void a_weight_that_left_its_gathered_copy_is_found(void)
{
    rig r;
    tess_engine_report report;
    for (size_t s = 1; s <= 2; s++) {
        open_rig(&r, (const char *const[]){strategies[s], "numbers.replica_check_interval=2", NULL});
        EXPECT_OK(step(&r, &report));
        int64_t n;
        if (tess_runtime_rank(r.runtime) == 1)
            *state_of(&r, 5, 0, &n) ^= 1u << 30;
        EXPECT_INT(step(&r, &report), TESS_E_MISMATCH);
        EXPECT_CONTAINS(tess_error_message(), "step 2: replicas have diverged: rank 1: the gathered copy of "
                                              "'model.layers.0.self_attn.o_proj.weight' is not what");
        EXPECT_CONTAINS(tess_error_message(), " at row 12, column 0");
        close_rig(&r);
    }
    test_leave();
}

/* Nothing is found with any strategy, at any step. */
static void sound_replicas_are_left_in_peace(void)
{
    rig r;
    tess_engine_report report;
    for (size_t s = 0; s < sizeof(strategies) / sizeof(strategies[0]); s++) {
        open_rig(&r, (const char *const[]){strategies[s], "numbers.replica_check_interval=1", degree_of(s), NULL});
        for (int i = 0; i < 6; i++)
            EXPECT_OK(step(&r, &report));
        close_rig(&r);
    }
    test_leave();
}

static const test_case cases[] = {
    CASE(searching_finds_the_first_of_any_length),
    CASE(a_spike_stands_out_of_its_window),
    {"the_first_bad_value_is_named_alone", the_first_bad_value_is_named, 1},
    {"the_first_bad_value_is_named_by_two", the_first_bad_value_is_named, 2},
    {"the_first_bad_value_is_named_by_four", the_first_bad_value_is_named, 4},
    CASE(a_bad_row_of_a_shared_stream_is_named, 2),
    CASE(a_bad_row_of_divided_tokens_is_named, 2),
    CASE(a_fault_that_does_not_repeat_leaves_no_trace, 2),
    {"a_fault_that_does_not_repeat_leaves_no_trace_on_four", a_fault_that_does_not_repeat_leaves_no_trace, 4},
    CASE(a_skipped_step_changes_no_weight, 4),
    CASE(too_many_skips_end_the_run, 2),
    CASE(checks_on_the_way_name_what_does_not_repeat, 2),
    CASE(a_bad_gathered_parameter_is_named_with_its_owner, 2),
    CASE(votes_go_by_majority),
    CASE(a_flipped_bit_of_a_replica_is_found, 4),
    CASE(two_replicas_that_differ_are_a_tie, 4),
    CASE(a_weight_that_left_its_gathered_copy_is_found, 2),
    CASE(sound_replicas_are_left_in_peace, 1),
    {"sound_replicas_are_left_in_peace_on_four", sound_replicas_are_left_in_peace, 4},
    CASE(a_spike_of_the_loss_is_skipped_when_asked_to, 2),
};

TEST_MAIN(cases)
