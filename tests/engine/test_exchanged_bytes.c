/* Ranks that share layers get from each other in a step what the formula says (docs/howto/tensor_parallel.md), and the
 * stages of a pipeline send one stream of batch x sequence x hidden elements over each boundary, in each direction:
 * counted where it moves, of every rank, with sizes that the degree divides and others. */
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "support/crossed.h"
#include "support/rig.h"
#include "engine/engine.h"
#include "nn/context_cost.h"
#include "engine/stages/rank_stage.h"
#include "config/config.h"
#include "nn/context_cost.h"

enum { ROWS = 2, LENGTH = 24, TOKENS = ROWS * LENGTH, MICRO_BATCHES = 4, PIPELINE_MICRO_BATCHES = 6 };

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 301, \"hidden_size\": 90,"
    "\"intermediate_size\": 137, \"num_hidden_layers\": 3, \"num_attention_heads\": 10, \"num_key_value_heads\": 5,"
    "\"head_dim\": 8, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";
static const char gpt2[] =
    "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 301, \"n_embd\": 80,"
    "\"n_inner\": 137, \"n_layer\": 3, \"n_head\": 10, \"n_positions\": 64, \"n_ctx\": 64,"
    "\"layer_norm_epsilon\": 1e-5, \"activation_function\": \"gelu_new\", \"tie_word_embeddings\": true}";

/* Fewer channels than tokens: ranks that share the stream cut products by its rows. */
static const char narrow[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 301, \"hidden_size\": 41,"
    "\"intermediate_size\": 137, \"num_hidden_layers\": 3, \"num_attention_heads\": 10, \"num_key_value_heads\": 5,"
    "\"head_dim\": 8, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

/* Layers for two stages on each of three ranks. */
static const char deep[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 301, \"hidden_size\": 42,"
    "\"intermediate_size\": 57, \"num_hidden_layers\": 7, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    "\"head_dim\": 8, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": true}";

static tess_status next_tokens(void *self, int64_t index, tess_batch *batch)
{
    static int32_t ids[TOKENS], pos[TOKENS], cu_seqlens[ROWS + 1];
    (void)self;
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = (int32_t)((index * 31 + i * 7) % 301);
        pos[i] = i % LENGTH;
    }
    for (int r = 0; r <= ROWS; r++)
        cu_seqlens[r] = r * LENGTH;
    *batch = (tess_batch){
        .n_tokens = TOKENS, .n_seqs = ROWS, .ids = ids, .pos = pos, .targets = ids, .cu_seqlens = cu_seqlens};
    return TESS_OK;
}

/* The sizes of the formula: all of it, and this rank's. */
typedef struct sizes {
    int64_t all, own;
} sizes;

static sizes share(const tess_engine *e, int64_t n, int64_t unit)
{
    int64_t begin, own;
    tess_cut_range((tess_cut){n, unit}, e->at.degree[TESS_AXIS_TP], e->at.place[TESS_AXIS_TP], &begin, &own);
    return (sizes){n, own};
}

/* Elements of a product of `rows` x `columns` that contracts K: the operand, and where it is cut the weight. */
static int64_t term(sizes k, int64_t rows, int64_t columns, bool has_weight)
{
    return (k.all - k.own) * (rows + (has_weight ? columns : 0));
}

/* The further exchanges of ranks that share the stream: rows of it before products and their gradients, and for each
 * norm columns, statistics of rows, and gradients. */
static int64_t rows_formula(const tess_engine *e, const tess_model_config *m, int64_t element)
{
    int64_t C = m->hidden_size, n_norms = 2 * m->n_layers + 1, n_floats = m->family == TESS_FAMILY_GPT2 ? 2 : 1;
    sizes c = share(e, C, 1), r = share(e, TOKENS, 1);
    int64_t others = r.all - r.own, norm = 2 * element * others * c.own + 4 * n_floats * (others + c.all - c.own);
    int64_t embedding_gradient = element * others * c.own;
    return element * (6 * m->n_layers + 1) * others * C + n_norms * norm + embedding_gradient;
}

static int64_t formula(const tess_engine *e, const tess_model_config *m, int64_t element)
{
    bool fused = m->family == TESS_FAMILY_GPT2, rows = e->config->parallelism.enable_sequence_parallel;
    bool sums = m->sum_leaves > 1 && e->at.degree[TESS_AXIS_TP] != 3; /* 3 ranks have no whole subtrees of leaves */
    int64_t D = m->head_size, V = m->vocab_size;
    sizes c = share(e, m->hidden_size, 1), v = share(e, V, 1), f = share(e, m->intermediate_size, 1);
    sizes q = share(e, m->n_heads * D, m->n_heads / m->n_kv_heads * D), kv = share(e, m->n_kv_heads * D, D);
    bool by_rows = rows && TOKENS >= m->hidden_size;
    int64_t columns = TOKENS * (c.all - c.own), own_rows = share(e, TOKENS, 1).own, own = own_rows * m->hidden_size;
    int64_t slices = rows ? own_rows * (c.all - c.own) : columns; /* elements from columns to the stream */
    int64_t T = by_rows ? own_rows : TOKENS, C = by_rows ? c.all : c.own, result = by_rows ? 0 : slices;
    int64_t sum = (e->at.degree[TESS_AXIS_TP] - 1) * own * 4 + (rows ? 0 : element * (TOKENS * m->hidden_size - own));
    int64_t forward = term(q, T, C, true) + result + (sums ? 0 : term(f, T, C, true) + result);
    int64_t backward = term(q, T, C, !fused) + 2 * term(kv, T, C, !fused) + result +
                       (sums ? 0 : (fused ? 1 : 2) * term(f, T, C, true) + result);
    int64_t layer = (sums ? 2 * sum : 0) + element * (forward + backward) +
                    (fused ? 4 * 3 * (q.all - q.own) * (m->hidden_size + 1) : 0);
    int64_t loss = 4 * own_rows * (v.all - v.own) + (element * V + 4) * (TOKENS - own_rows);
    int64_t head = element * ((c.all - c.own) * v.own + columns) + loss;
    return m->n_layers * layer + element * slices + head + (rows ? rows_formula(e, m, element) : 0);
}

static void count(const char *text, const char *precision, const char *sequence_parallel, int64_t sum_leaves)
{
    tess_config config;
    tess_runtime *runtime = test_stay_joined();
    tess_model_config sizes;
    tess_engine *e;
    tess_engine_report report;
    if (!test_takes())
        return;
    int world = tess_runtime_world(runtime);
    test_model(text, &sizes);
    sizes.sum_leaves = sum_leaves;
    sizes.intermediate_size = sum_leaves > 1 ? sum_leaves * 32 : sizes.intermediate_size;
    test_configure(
        &config, world,
        "training.local_batch_size=%d training.global_batch_size=%d training.seq_len=%d training.steps=3 "
        "lr_scheduler.warmup_steps=1 parallelism.tensor_parallel_degree=%d training.mixed_precision_param=%s "
        "parallelism.enable_sequence_parallel=%s",
        ROWS, ROWS * MICRO_BATCHES, LENGTH, world, precision, sequence_parallel);
    EXPECT_OK(tess_engine_create(runtime, &config, &sizes, NULL, &e));
    tess_batch_source source = tess_engine_source(e, NULL, next_tokens);
    EXPECT_OK(tess_engine_step(e, &source, &report));
    EXPECT_INT((int64_t)report.times.exchanged_bytes,
               MICRO_BATCHES * formula(e, &sizes, strcmp(precision, "float32") == 0 ? 4 : 2));
    tess_engine_destroy(&e);
    tess_config_free(&config);
}

static void exchanged_bytes_are_the_formula(void)
{
    static const char *const shared[] = {"false", "true"};
    for (int i = 0; i < 2; i++) {
        count(llama, "bfloat16", shared[i], 1);
        count(llama, "float32", shared[i], 1);
        count(gpt2, "bfloat16", shared[i], 1);
        count(narrow, "bfloat16", shared[i], 1);
        count(llama, "bfloat16", shared[i], 8);
        count(gpt2, "float32", shared[i], 4);
    }
}

/* ---- Ranks that divide tokens ---- */
static void count_context(const char *method, const char *precision, tess_context_way way)
{
    tess_config config;
    tess_runtime *runtime = test_stay_joined();
    tess_model_config m;
    tess_engine *e;
    tess_engine_report report;
    const int world = tess_runtime_world(runtime), leaves = 2 * world;
    test_model(llama, &m);
    test_configure(&config, world,
                   "training.local_batch_size=%d training.global_batch_size=%d training.seq_len=%d training.steps=3 "
                   "lr_scheduler.warmup_steps=1 parallelism.context_parallel_degree=%d training.context_leaves=%d "
                   "parallelism.context_parallel_method=%s training.mixed_precision_param=%s",
                   ROWS, ROWS * MICRO_BATCHES, LENGTH, world, leaves, method, precision);
    EXPECT_OK(tess_engine_create(runtime, &config, &m, NULL, &e));
    tess_batch_source source = tess_engine_source(e, NULL, next_tokens);
    EXPECT_OK(tess_engine_step(e, &source, &report));
    const int64_t all = (int64_t)TESS_LEAF_UNIT * leaves; /* TOKENS are fewer */
    const tess_context_sizes sizes = {.n_heads = m.n_heads,
                                      .n_kv_heads = m.n_kv_heads,
                                      .head_size = m.head_size,
                                      .n_tokens = all,
                                      .length = LENGTH,
                                      .n_filled = all - TOKENS};
    const tess_context_cost cost = tess_context_cost_of(&sizes, &e->pieces.context, way);
    const int64_t element = strcmp(precision, "float32") == 0 ? 4 : 2;
    EXPECT_INT((int64_t)report.times.exchanged_bytes, MICRO_BATCHES * m.n_layers *
                                                          (element * (cost.forward.elements + cost.backward.elements) +
                                                           4 * (cost.forward.floats + cost.backward.floats)));
    tess_engine_destroy(&e);
    tess_config_free(&config);
}

/* Key heads that the ranks do not divide, and rows that fill no leaf. */
static void bytes_of_attention_over_ranks_are_the_formula(void)
{
    count_context("ulysses", "bfloat16", TESS_WAY_ULYSSES);
    count_context("ulysses", "float32", TESS_WAY_ULYSSES);
    count_context("gather", "bfloat16", TESS_WAY_GATHER);
    test_leave();
}

/* ---- Messages of a pipeline ---- */
/* Whether a boundary between the stages `lower` and lower + 1 is one between ranks, seen from `rank`: the rank that
 * sends the stream, or the one that sends the gradient back. */
static int sends_over(const tess_engine *e, int lower, bool forward)
{
    const tess_pipeline_schedule *shape = &e->stage_plan->shape;
    const int below = tess_pipeline_rank_of(shape, lower), above = tess_pipeline_rank_of(shape, lower + 1);
    return below != above && e->stage_plan->rank == (forward ? below : above);
}

static void count_messages(const char *text, const char *overrides, int64_t element)
{
    tess_config config;
    tess_runtime *runtime = test_stay_joined();
    tess_model_config sizes;
    tess_engine *e;
    tess_engine_report report;
    if (!test_takes())
        return;
    test_model(text, &sizes);
    test_configure(&config, tess_runtime_world(runtime),
                   "training.local_batch_size=%d training.global_batch_size=%d training.seq_len=%d training.steps=3 "
                   "lr_scheduler.warmup_steps=1 parallelism.shard_strategy=none training.mixed_precision_param=%s %s",
                   ROWS, ROWS * PIPELINE_MICRO_BATCHES, LENGTH, element == 4 ? "float32" : "bfloat16", overrides);
    EXPECT_OK(tess_engine_create(runtime, &config, &sizes, NULL, &e));
    tess_batch_source source = tess_engine_source(e, NULL, next_tokens);
    EXPECT_OK(tess_engine_step(e, &source, &report));
    const int64_t n_micro = PIPELINE_MICRO_BATCHES / e->at.n_data;
    /* batch x sequence x hidden x bytes; of ranks that share a stage and its stream, each sends its rows */
    const int64_t tokens = e->at.degree[TESS_AXIS_TP] > 1 && config.parallelism.enable_sequence_parallel
                               ? share(e, ROWS * LENGTH, 1).own
                               : ROWS * LENGTH;
    const int64_t stream = tokens * sizes.hidden_size * element;
    const int n_stages = e->stage_plan->shape.ranks * e->stage_plan->shape.chunks;
    int64_t streams = 0, gradients = 0;
    for (int lower = 0; lower + 1 < n_stages; lower++) {
        streams += n_micro * sends_over(e, lower, true);
        gradients += n_micro * sends_over(e, lower, false);
    }
    const bool hands_table =
        sizes.tied && e->stage_plan->rank == 0 && tess_pipeline_rank_of(&e->stage_plan->shape, n_stages - 1) != 0;
    const int64_t tables = hands_table ? n_micro : 0;
    const tess_stage_traffic sent = tess_stage_get_traffic(e->stage);
    EXPECT_INT(sent.messages[TESS_PIPELINE_SEND_F], streams);
    EXPECT_INT(sent.bytes[TESS_PIPELINE_SEND_F], streams * stream);
    EXPECT_INT(sent.messages[TESS_PIPELINE_SEND_B], gradients);
    EXPECT_INT(sent.bytes[TESS_PIPELINE_SEND_B], gradients * stream);
    EXPECT_INT(sent.messages[TESS_PIPELINE_SEND_T], tables);
    EXPECT_INT(sent.bytes[TESS_PIPELINE_SEND_T], tables * stream);
    tess_engine_destroy(&e);
    tess_config_free(&config);
}

static void messages_of_a_pipeline_are_the_formula(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zbv"};
    char overrides[256];
    const int world = tess_runtime_world(test_stay_joined());
    for (int i = 0; i < 4; i++) {
        snprintf(overrides, sizeof(overrides),
                 "parallelism.pipeline_parallel_degree=%d parallelism.pipeline_parallel_schedule=%s", world,
                 schedules[i]);
        count_messages(deep, overrides, 2);
        count_messages(deep, overrides, 4);
        if (i < 2) /* it has too few layers for two stages on each rank */
            count_messages(llama, overrides, 2);
    }
}

/* Two pipelines share the micro-batches, or two ranks share each stage. */
static void messages_of_several_pipelines_are_the_formula(void)
{
    count_messages(llama, "parallelism.pipeline_parallel_degree=2", 2);
    count_messages(llama,
                   "parallelism.pipeline_parallel_degree=2 parallelism.tensor_parallel_degree=2 "
                   "parallelism.enable_sequence_parallel=false",
                   2);
    count_messages(llama, "parallelism.pipeline_parallel_degree=2 parallelism.tensor_parallel_degree=2", 2);
}

/* The bytes that have crossed between this rank's GPU and the host in a step of a pipeline on GPUs, and the bytes of
 * its messages, in both directions. Shards are in memory of the host, which does not depend on what peers reach. */
static size_t crossed_in_a_step(const char *fake, const char *nccl, size_t *of_messages, tess_engine_report *report)
{
    tess_config config;
    tess_runtime *runtime = test_stay_joined();
    tess_model_config sizes;
    tess_engine *e;
    EXPECT_INT(setenv("CUDA_FAKE", fake, 1), 0);
    EXPECT_INT(setenv("TESSERA_NCCL", nccl, 1), 0);
    test_model(llama, &sizes);
    test_configure(&config, tess_runtime_world(runtime),
                   "training.local_batch_size=%d training.global_batch_size=%d training.seq_len=%d training.steps=3 "
                   "lr_scheduler.warmup_steps=1 parallelism.shard_strategy=none training.mixed_precision_param=float32 "
                   "parallelism.pipeline_parallel_degree=2 job.device=cuda job.shards=host job.ignore_memory=true",
                   ROWS, ROWS * MICRO_BATCHES, LENGTH);
    EXPECT_OK(tess_engine_create(runtime, &config, &sizes, NULL, &e));
    tess_batch_source source = tess_engine_source(e, NULL, next_tokens);
    EXPECT_OK(tess_engine_step(e, &source, report));
    const size_t before = test_crossed();
    EXPECT_OK(tess_engine_step(e, &source, report));
    const size_t crossed = test_crossed() - before;
    const tess_stage_traffic sent = tess_stage_get_traffic(e->stage);
    /* The rank receives as many bytes as it sends, and the traffic is that of two steps. */
    *of_messages = sent.bytes[TESS_PIPELINE_SEND_F] + sent.bytes[TESS_PIPELINE_SEND_B];
    tess_engine_destroy(&e);
    tess_config_free(&config);
    return crossed;
}

/* Each message that this rank sends or receives passes through the host, but not if GPUs reach each other: on one host,
 * or by NCCL. No other byte differs, and no bit of the results. */
static void messages_between_gpus_pass_through_the_host_only_if_they_must(void)
{
    if (getenv("TESS_TEST_DEVICE") == NULL)
        return;
    size_t messages[2];
    tess_engine_report reports[2];
    char nccl[4096];
    snprintf(nccl, sizeof(nccl), "%s", getenv("TESSERA_NCCL") != NULL ? getenv("TESSERA_NCCL") : "off");
    /* It comes first, because an open library stays open. */
    const size_t bounced = crossed_in_a_step("devices=8", "off", &messages[1], &reports[1]);
    const size_t reached = crossed_in_a_step("devices=8,ipc=1", nccl, &messages[0], &reports[0]);
    EXPECT_INT(messages[0], messages[1]);
    EXPECT_INT(bounced - reached, messages[0]);
    EXPECT(reports[0].loss == reports[1].loss && reports[0].grad_norm == reports[1].grad_norm);
    test_leave();
}

/* ---- Leaves of a ring ---- */
enum { RING_LENGTH = 544, RING_LEAVES = 8, RING_TOKENS = 768 }; /* leaves of 96, which fill up the row */

static tess_status next_row(void *self, int64_t index, tess_batch *batch)
{
    static int32_t ids[RING_LENGTH], pos[RING_LENGTH], cu_seqlens[2] = {0, RING_LENGTH};
    (void)self;
    for (int i = 0; i < RING_LENGTH; i++) {
        ids[i] = (int32_t)((index * 31 + i * 7) % 301);
        pos[i] = i;
    }
    *batch = (tess_batch){
        .n_tokens = RING_LENGTH, .n_seqs = 1, .ids = ids, .pos = pos, .targets = ids, .cu_seqlens = cu_seqlens};
    return TESS_OK;
}

static void count_leaves(const char *precision, int64_t window)
{
    tess_config config;
    tess_runtime *runtime = test_stay_joined();
    tess_model_config sizes;
    tess_engine *e;
    tess_engine_report report;
    const int world = tess_runtime_world(runtime), rank = tess_team_rank(tess_runtime_team(runtime));
    test_model(llama, &sizes);
    sizes.sliding_window = window;
    sizes.max_position = RING_LENGTH;
    test_configure(&config, world,
                   "training.local_batch_size=1 training.global_batch_size=2 training.seq_len=%d training.steps=3 "
                   "lr_scheduler.warmup_steps=1 parallelism.context_parallel_degree=%d training.context_leaves=%d "
                   "parallelism.context_parallel_method=ring training.mixed_precision_param=%s",
                   RING_LENGTH, world, RING_LEAVES, precision);
    EXPECT_OK(tess_engine_create(runtime, &config, &sizes, NULL, &e));
    tess_batch_source source = tess_engine_source(e, NULL, next_row);
    EXPECT_OK(tess_engine_step(e, &source, &report));
    const tess_context_sizes context = {.n_heads = sizes.n_heads,
                                        .n_kv_heads = sizes.n_kv_heads,
                                        .head_size = sizes.head_size,
                                        .n_tokens = RING_TOKENS,
                                        .length = RING_LENGTH,
                                        .n_filled = RING_TOKENS - RING_LENGTH,
                                        .window = window};
    const tess_context_cost cost = tess_context_cost_of(&context, &e->pieces.context, TESS_WAY_RING);
    const int64_t element = strcmp(precision, "float32") == 0 ? 4 : 2;
    const int64_t elements = cost.forward.elements + cost.backward.elements, floats = cost.backward.floats;
    if (window == 0 && world == 4 && rank == 3) /* it has pieces 3 and 4, and needs 0, 1 and 2 */
        EXPECT_INT(cost.forward.elements, 3 * 96 * 2 * sizes.n_kv_heads * sizes.head_size);
    EXPECT_INT((int64_t)report.times.exchanged_bytes, 2 * sizes.n_layers * (elements * element + floats * 4));
    EXPECT_INT((int64_t)report.times.leaves, 2 * sizes.n_layers * (cost.forward.exchanges + cost.backward.exchanges));
    EXPECT(report.times.leaves_in_time <= report.times.leaves);
    tess_engine_destroy(&e);
    tess_config_free(&config);
}

/* Rank r of c gets c - 1 - r / 2 times its own tokens, if there is no window and no tokens follow the row. */
static void leaves_of_a_ring_are_the_formula(void)
{
    count_leaves("bfloat16", 0);
    count_leaves("float32", 0);
    count_leaves("bfloat16", 150);
    count_leaves("bfloat16", 97);
}

static const test_case cases[] = {
    {"what_2_ranks_exchange_is_the_formula", exchanged_bytes_are_the_formula, 2, 0},
    {"what_3_ranks_exchange_is_the_formula", exchanged_bytes_are_the_formula, 3, 0},
    {"what_4_ranks_exchange_is_the_formula", exchanged_bytes_are_the_formula, 4, 0},
    {"what_2_ranks_exchange_for_attention_is_the_formula", bytes_of_attention_over_ranks_are_the_formula, 2, 0},
    {"what_4_ranks_exchange_for_attention_is_the_formula", bytes_of_attention_over_ranks_are_the_formula, 4, 0},
    {"messages_of_2_stages_are_the_formula", messages_of_a_pipeline_are_the_formula, 2, 0},
    {"messages_of_3_stages_are_the_formula", messages_of_a_pipeline_are_the_formula, 3, 0},
    CASE(messages_of_several_pipelines_are_the_formula, 4),
    {"leaves_of_a_ring_of_2_are_the_formula", leaves_of_a_ring_are_the_formula, 2, 0},
    {"leaves_of_a_ring_of_4_are_the_formula", leaves_of_a_ring_are_the_formula, 4, 0},
    CASE(messages_between_gpus_pass_through_the_host_only_if_they_must, 2, 0, TEST_ALONE),
};
TEST_MAIN(cases)
