/* Ranks that share layers get from each other in a step what the formula says (docs/howto/tensor_parallel.md):
 * counted where it moves, of every rank, with sizes that the degree divides and others. */
#include <stdio.h>
#include <string.h>

#include "base/text/json.h"
#include "support/rig.h"
#include "engine/engine.h"
#include "config/config.h"

enum { ROWS = 2, LENGTH = 24, TOKENS = ROWS * LENGTH, MICRO_BATCHES = 4 };

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

static const test_case cases[] = {
    {"what_2_ranks_exchange_is_the_formula", exchanged_bytes_are_the_formula, 2, 0},
    {"what_3_ranks_exchange_is_the_formula", exchanged_bytes_are_the_formula, 3, 0},
    {"what_4_ranks_exchange_is_the_formula", exchanged_bytes_are_the_formula, 4, 0},
};
TEST_MAIN(cases)
