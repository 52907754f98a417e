/* Steps of any number of micro-batches, each of any number of sequences and of a loss of its own: gradients have the
 * bits of a plain loop in one process, for any number of ranks and any strategy, and memory grows to what the largest
 * step needs and stays. */
#include <math.h>

#include "base/text/json.h"
#include "nn/model.h"
#include "support/rig.h"
#include "tessera/comm.h"
#include "engine/engine.h"
#include "engine/batch/passes.h"

enum { ROWS = 5, LENGTH = 8, TOKENS = ROWS * LENGTH, VOCABULARY = 61, LARGEST = 13 };

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24,"
    "\"intermediate_size\": 37, \"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"num_key_value_heads\": 1,"
    "\"head_dim\": 8, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

/* ---- Micro-batches ---- */
typedef struct graded {
    tess_token_loss loss;
    int64_t index;
} graded;

typedef struct tokens {
    int32_t ids[TOKENS], pos[TOKENS], targets[TOKENS], cu_seqlens[ROWS + 1];
    graded *losses; /* (LARGEST) of the step's micro-batches; NULL: -log p */
} tokens;

/* A loss that no other micro-batch or row has. */
static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    const graded *g = self;
    for (int64_t i = 0; i < n; i++) {
        float w = (float)((g->index * 7 + begin + i) % 5) - 1.5f;
        dlogprob[i] = w * (logprob[i] + 2);
        dentropy[i] = entropy[i] / 25 - 0.1f * w;
    }
    return TESS_OK;
}

/* Those of whole sequences among them, and of other temperatures. */
static const tess_token_loss *loss_of(tokens *t, int64_t index)
{
    if (t->losses == NULL)
        return NULL;
    graded *g = &t->losses[index % 100];
    *g = (graded){{g, 0.7f + 0.1f * (float)(index % 3), index % 2 == 1, grade}, index};
    return &g->loss;
}

/* Zero to five sequences of one to eight tokens; every fourth micro-batch is empty. */
static tess_status next_tokens(void *self, int64_t index, tess_batch *batch)
{
    tokens *t = self;
    uint32_t x = 2654435761u * (uint32_t)(index + 1);
    int n_seqs = index % 4 == 3 ? 0 : 1 + (int)(x >> 20) % ROWS, n = 0;
    t->cu_seqlens[0] = 0;
    for (int s = 0; s < n_seqs; s++) {
        x = x * 1103515245u + 12345u;
        int length = 1 + (int)(x >> 16) % LENGTH;
        for (int i = 0; i < length; i++, n++) {
            x = x * 1103515245u + 12345u;
            t->ids[n] = (int32_t)((x >> 16) % VOCABULARY);
            t->targets[n] = (int32_t)((x >> 8) % VOCABULARY);
            t->pos[n] = i;
        }
        t->cu_seqlens[s + 1] = n;
    }
    *batch = (tess_batch){.n_tokens = n,
                          .n_seqs = n_seqs,
                          .ids = t->ids,
                          .pos = t->pos,
                          .targets = t->targets,
                          .cu_seqlens = t->cu_seqlens,
                          .loss = loss_of(t, index)};
    return TESS_OK;
}

/* ---- The engine ---- */
typedef struct rig {
    tess_runtime *runtime;
    tess_config config;
    tess_model_config model_config;
    tess_engine *engine;
    tokens tokens;
} rig;

/* The weights stay as they are made: the learning rate is 0. `overrides`: words separated by spaces. */
static void open_rig(rig *r, const char *overrides, bool tied)
{
    json_t *json = NULL;
    *r = (rig){.runtime = test_stay_joined()};
    test_configure(&r->config, tess_runtime_world(r->runtime),
                   "training.local_batch_size=5 training.seq_len=8 training.steps=100 lr_scheduler.warmup_steps=0 "
                   "optimizer.lr=0 numbers.replica_check_interval=1 %s",
                   overrides);
    EXPECT_OK(tess_json_parse(model_json, sizeof(model_json) - 1, "test", true, &json));
    json_object_set_new(json, "tie_word_embeddings", json_boolean(tied));
    EXPECT_OK(tess_model_config_parse(json, "test", &r->model_config));
    json_decref(json);
    EXPECT_OK(tess_engine_create(r->runtime, &r->config, &r->model_config, NULL, &r->engine));
}

static tess_batch_source source_of(rig *r, int64_t first, int64_t n_micro)
{
    return (tess_batch_source){.self = &r->tokens, .next = next_tokens, .first = first, .n_micro = n_micro};
}

/* ---- The plain loop ---- */
typedef struct plain {
    const tess_engine *engine;
    int n_params;
    size_t *at, n; /* element at which parameter p begins; elements of all */
    float *masters, *work, *leaves[LARGEST], *passes;
    double *sum;             /* sum of what the passes leave, in float64 */
    double *absolute;        /* sum of their absolute values */
    uint16_t *narrow, *sent; /* bfloat16: the weights, a leaf on its way */
    tess_hooks hooks;
    const void **w;
    float **dw;
    tess_executor *executor;
    float logprobs[TOKENS];
    double nll;
    int64_t n_targets;
} plain;

static void *array(size_t count, size_t size)
{
    void *out;
    EXPECT_OK(tess_mem_alloc_array(test_mem(), TESS_POOL_MISC, count, size, "reference", &out));
    return out;
}

static void open_plain(plain *p, const tess_engine *e)
{
    const tess_model *model = e->model;
    tess_executor_options options = tess_engine_activations(e->config);
    options.max_tokens = TOKENS;
    *p = (plain){.engine = e, .n_params = tess_model_n_params(model)};
    p->at = array((size_t)p->n_params + 1, sizeof(*p->at));
    for (int i = 0; i < p->n_params; i++)
        p->at[i + 1] = p->at[i] + (size_t)tess_shape_count(&tess_model_param(model, i)->shape);
    p->n = p->at[p->n_params];
    p->masters = array(p->n, sizeof(float));
    p->work = array(p->n, sizeof(float));
    p->sum = array(p->n, sizeof(double));
    p->absolute = array(p->n, sizeof(double));
    p->narrow = array(p->n, sizeof(uint16_t));
    p->sent = array(p->n, sizeof(uint16_t));
    for (int i = 0; i < LARGEST; i++)
        p->leaves[i] = array(p->n, sizeof(float));
    p->w = array((size_t)p->n_params, sizeof(*p->w));
    p->dw = array((size_t)p->n_params, sizeof(*p->dw));
    for (int i = 0; i < p->n_params; i++) {
        const tess_param *param = tess_model_param(model, i);
        const tess_box whole = tess_box_whole(&param->shape);
        tess_param_fill(param, 0, &whole, p->masters + p->at[i]);
        p->w[i] = options.dtype == TESS_F32 ? (void *)(p->masters + p->at[i]) : (void *)(p->narrow + p->at[i]);
        p->dw[i] = p->work + p->at[i];
    }
    EXPECT_OK(tess_stream_kernels(e->stream)->convert(
        e->stream,
        &(tess_convert_args){.x = p->masters, .from = TESS_F32, .y = p->narrow, .to = TESS_BF16, .n = (int64_t)p->n}));
    EXPECT_OK(tess_static_hooks(test_mem(), model, p->w, p->dw, &p->hooks));
    EXPECT_OK(tess_executor_create(e->stream, model, &p->hooks, &options, &p->executor));
}

static void close_plain(plain *p)
{
    tess_executor_destroy(&p->executor);
    tess_static_hooks_free(&p->hooks);
    for (int i = 0; i < LARGEST; i++)
        tess_mem_free(test_mem(), p->leaves[i]);
    void *const arrays[] = {p->at,     p->masters, p->work,      p->sum,       p->absolute,
                            p->narrow, p->sent,    (void *)p->w, (void *)p->dw};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        tess_mem_free(test_mem(), arrays[i]);
}

/* Sequences [begin, end) as a batch of their own, whose gradients go to `work`. */
static void plain_pass(plain *p, const tess_batch *whole, int64_t begin, int64_t end)
{
    int32_t cu_seqlens[ROWS + 1];
    int64_t at = whole->cu_seqlens[begin];
    for (int64_t s = begin; s <= end; s++)
        cu_seqlens[s - begin] = whole->cu_seqlens[s] - (int32_t)at;
    const tess_batch part = {.n_tokens = cu_seqlens[end - begin],
                             .n_seqs = end - begin,
                             .ids = whole->ids + at,
                             .pos = whole->pos + at,
                             .targets = whole->targets + at,
                             .cu_seqlens = cu_seqlens};
    EXPECT_OK(tess_executor_train(p->executor, &part, whole->loss, p->logprobs));
    for (int64_t t = 0; t < part.n_tokens; t++)
        p->nll -= (double)p->logprobs[t];
    p->n_targets += part.n_tokens;
    for (size_t k = 0; k < p->n; k++) {
        p->sum[k] += (double)p->work[k];
        p->absolute[k] += fabs((double)p->work[k]);
    }
}

/* The gradient of a micro-batch: of its passes, added one after the other. A pass takes sequences while they have at
 * most `limit` tokens. */
static void plain_leaf(plain *p, graded *losses, int64_t index, int64_t limit, float *leaf)
{
    tokens t = {.losses = losses};
    tess_batch batch;
    EXPECT_OK(next_tokens(&t, index, &batch));
    memset(leaf, 0, p->n * sizeof(*leaf));
    for (int64_t begin = 0, end; begin < batch.n_seqs; begin = end) {
        for (end = begin + 1; end < batch.n_seqs && t.cu_seqlens[end + 1] - t.cu_seqlens[begin] <= limit;)
            end++;
        plain_pass(p, &batch, begin, end);
        for (size_t k = 0; k < p->n; k++)
            leaf[k] = begin == 0 ? p->work[k] : leaf[k] + p->work[k];
    }
}

/* Leaves the sum of all micro-batches, as a tree of neighbours, in leaves[0]. */
static void plain_step(plain *p, graded *losses, int64_t first, int n_micro, int64_t limit)
{
    memset(p->sum, 0, p->n * sizeof(*p->sum));
    memset(p->absolute, 0, p->n * sizeof(*p->absolute));
    p->nll = 0;
    p->n_targets = 0;
    for (int i = 0; i < n_micro; i++) {
        plain_leaf(p, losses, first + i, limit, p->leaves[i]);
        if (p->engine->config->training.mixed_precision_reduce == TESS_PRECISION_F32)
            continue;
        tess_stream *stream = p->engine->stream;
        EXPECT_OK(tess_stream_kernels(stream)->convert(
            stream, &(tess_convert_args){
                        .x = p->leaves[i], .from = TESS_F32, .y = p->sent, .to = TESS_BF16, .n = (int64_t)p->n}));
        EXPECT_OK(tess_stream_kernels(stream)->convert(
            stream, &(tess_convert_args){
                        .x = p->sent, .from = TESS_BF16, .y = p->leaves[i], .to = TESS_F32, .n = (int64_t)p->n}));
    }
    for (int stride = 1; stride < n_micro; stride *= 2)
        for (int i = 0; i + stride < n_micro; i += 2 * stride)
            for (size_t k = 0; k < p->n; k++)
                p->leaves[i][k] += p->leaves[i + stride][k];
}

/* This rank's rows of the summed gradients: bit for bit those of the tree, and within rounding those of float64. */
static void compare(const plain *p, const char *what)
{
    const tess_engine *e = p->engine;
    for (int i = 0; i < p->n_params; i++) {
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(e->fsdp, i, &shard));
        int64_t row = tess_shape_row_count(&shard.shape), n = shard.box.size[0] * row;
        size_t at = p->at[i] + (size_t)(shard.box.begin[0] * row);
        for (int64_t k = 0; k < n; k++) {
            float got = shard.grad[k], want = p->leaves[0][at + (size_t)k];
            double exact = p->sum[at + (size_t)k], bound = 64 * 0x1p-24 * p->absolute[at + (size_t)k];
            if (e->config->training.mixed_precision_reduce != TESS_PRECISION_F32)
                bound = 4 * 0x1p-8 * p->absolute[at + (size_t)k];
            if (memcmp(&got, &want, sizeof(got)) != 0)
                test_fail(__FILE__, __LINE__, "%s: rank %d of %d: gradient of %s[%lld] is %a, expected %a", what,
                          e->at.rank, e->at.world, shard.name, (long long)k, (double)got, (double)want);
            if (!(fabs((double)got - exact) <= bound))
                test_fail(__FILE__, __LINE__, "%s: gradient of %s[%lld] is %g, in float64 %g", what, shard.name,
                          (long long)k, (double)got, exact);
        }
    }
}

/* ---- The cases ---- */
static tess_pool_stats sums_of(const rig *r)
{
    return tess_mem_stats(tess_runtime_mem(r->runtime), TESS_POOL_GRADS);
}

/* Steps of changing size. The third with the divisor 4, the fifth with half of it. */
static void run_steps(const char *overrides, bool tied, int64_t limit, bool own_losses)
{
    static const int n_micro[] = {1, 5, LARGEST, 3, 8, 2, LARGEST, 1};
    static const double divisor[] = {0, 0, 4, 0, 0.5, 0, 0, 0};
    rig r;
    plain p;
    graded losses[LARGEST], plain_losses[LARGEST];
    open_rig(&r, overrides, tied);
    open_plain(&p, r.engine);
    r.tokens.losses = own_losses ? losses : NULL;
    tess_pool_stats largest = {0};
    for (int i = 0; i < 8; i++) {
        tess_engine_report report;
        tess_batch_source source = source_of(&r, 100 * i, n_micro[i]);
        source.divisor = divisor[i];
        EXPECT_OK(tess_engine_step(r.engine, &source, &report));
        plain_step(&p, own_losses ? plain_losses : NULL, 100 * i, n_micro[i], limit);
        compare(&p, overrides);
        double by = divisor[i] > 0 ? divisor[i] : (double)p.n_targets;
        EXPECT_INT(report.n_tokens, p.n_targets);
        EXPECT_INT(report.n_micro, n_micro[i]);
        EXPECT(report.divisor == by);
        EXPECT(fabs(report.loss - p.nll / by) <= 1e-12 * report.loss);
        tess_pool_stats now = sums_of(&r);
        EXPECT(i <= 2 || (now.bytes == largest.bytes && now.n_blocks == largest.n_blocks));
        EXPECT(now.bytes >= largest.bytes);
        largest = now;
    }
    close_plain(&p);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
}

static const char *const strategies[] = {"none", "zero1", "zero2", "full", "hybrid"};

/* Every strategy; hybrid with two replicas where that is possible. */
static void every_strategy(const char *more, bool tied, int64_t limit, bool own_losses)
{
    char overrides[256];
    for (int i = 0; i < 5; i++) {
        bool two = i == 4 && tess_runtime_world(test_stay_joined()) % 2 == 0;
        snprintf(overrides, sizeof(overrides), "parallelism.shard_strategy=%s %s %s", strategies[i],
                 two ? "parallelism.data_parallel_replicate_degree=2" : "", more);
        if (test_takes()) /* all ranks take the same ones */
            run_steps(overrides, tied, limit, own_losses);
    }
}

static void steps_of_any_size_give_the_bits_of_a_plain_loop(void)
{
    every_strategy("training.mixed_precision_param=float32", false, TOKENS, false);
    every_strategy("training.mixed_precision_param=bfloat16 training.mixed_precision_reduce=bfloat16", true, TOKENS,
                   false);
    test_leave();
}

static void batches_with_losses_of_their_own_give_the_bits_of_a_plain_loop(void)
{
    every_strategy("training.mixed_precision_param=float32", true, TOKENS, true);
    every_strategy("training.mixed_precision_param=bfloat16", false, TOKENS, true);
    test_leave();
}

/* A pass takes at most 24, 16 or 8 tokens: the second has sequences in all micro-batches but the small ones, the last
 * of four never has any. */
static void passes_give_the_bits_of_a_plain_loop(void)
{
    static const char *const more[] = {
        "training.passes=2 training.mixed_precision_param=float32",
        "training.passes=4 training.mixed_precision_param=bfloat16 training.mixed_precision_reduce=bfloat16",
        "training.passes=5 training.mixed_precision_param=float32 activation_checkpoint.mode=full"};
    static const int64_t limit[] = {3 * LENGTH, 2 * LENGTH, LENGTH};
    for (int i = 0; i < 3; i++)
        every_strategy(more[i], i == 1, limit[i], false);
    test_leave();
}

static int32_t bounds[] = {0, 3, 8, 8 + 7, 8 + 7 + 1, 8 + 7 + 1 + 2};

static void expect_ends(int n_seqs, int n_passes, int64_t max_tokens, const int64_t *want)
{
    int64_t ends[8];
    const tess_batch batch = {.n_tokens = bounds[n_seqs], .n_seqs = n_seqs, .cu_seqlens = bounds};
    EXPECT_OK(tess_passes_cut(&(tess_passes){n_passes, max_tokens, ends, NULL}, &batch));
    for (int p = 0; p < n_passes; p++)
        EXPECT_INT(ends[p], want[p]);
}

static void passes_are_cut_between_sequences(void)
{
    int64_t ends[2];
    int32_t own[4];
    tess_passes passes = {2, 8, ends, own};
    expect_ends(5, 1, 4, (int64_t[]){5}); /* one pass takes all; the executor knows what it can hold */
    expect_ends(5, 3, 8, (int64_t[]){2, 4, 5});
    expect_ends(5, 2, 15, (int64_t[]){3, 5});
    expect_ends(2, 4, 8, (int64_t[]){2, 2, 2, 2});
    expect_ends(0, 2, 8, (int64_t[]){0, 0});
    tess_batch batch = {.n_tokens = 18, .n_seqs = 5, .cu_seqlens = bounds};
    EXPECT_FAILS(tess_passes_cut(&passes, &batch), TESS_E_INVALID,
                 "5 sequences of 18 tokens do not fit into training.passes=2 passes of 8 tokens each");
    passes.max_tokens = 6;
    EXPECT_FAILS(tess_passes_cut(&passes, &batch), TESS_E_INVALID, "sequence 2 has 7; set fewer passes");
    static const int32_t ids[18] = {[8] = 80, [15] = 150};
    batch.ids = batch.pos = batch.targets = ids;
    ends[0] = 2;
    ends[1] = 5;
    tess_batch part = tess_passes_part(&passes, &batch, 1);
    EXPECT(part.n_seqs == 3 && part.n_tokens == 10 && part.ids[0] == 80 && part.targets[7] == 150);
    EXPECT(own[0] == 0 && own[1] == 7 && own[2] == 8 && own[3] == 10);
}

static void a_micro_batch_has_a_row_for_each_pass(void)
{
    tess_config config;
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "test", &config));
    EXPECT_OK(tess_config_override(&config, "training.local_batch_size=3"));
    EXPECT_OK(tess_config_override(&config, "training.passes=3"));
    EXPECT_OK(tess_config_check_step(&config, 2));
    EXPECT_OK(tess_config_override(&config, "training.passes=4"));
    EXPECT_FAILS(tess_config_check_step(&config, 2), TESS_E_INVALID,
                 "4 passes for the 3 rows of a micro-batch: set training.passes=3 or less");
    EXPECT_FAILS(tess_config_override(&config, "training.passes=0"), TESS_E_INVALID, "training.passes");
    tess_config_free(&config);
}

static void the_gradient_norm_is_divided_too(void)
{
    rig r;
    tess_engine_report by_tokens, by_two;
    open_rig(&r, "", false);
    tess_batch_source source = source_of(&r, 0, 6);
    EXPECT_OK(tess_engine_step(r.engine, &source, &by_tokens));
    source.divisor = 2;
    EXPECT_OK(tess_engine_step(r.engine, &source, &by_two));
    double tokens = (double)by_tokens.n_tokens;
    EXPECT(fabs(by_two.grad_norm - by_tokens.grad_norm * tokens / 2) <= 1e-15 * by_two.grad_norm);
    EXPECT(fabs(by_two.loss - by_tokens.loss * tokens / 2) <= 1e-15 * by_two.loss);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* The first update of a weight with these settings is g / (|g| + 1), where g is its gradient by the divisor. */
static void the_update_is_by_the_divisor(void)
{
    rig r;
    tess_engine_report report;
    static const double divisor = 3;
    open_rig(&r,
             "optimizer.lr=1 lr_scheduler.decay_type=constant optimizer.eps=1 optimizer.weight_decay=0 "
             "training.max_norm=0 training.mixed_precision_param=float32",
             false);
    tess_batch_source source = source_of(&r, 0, 6);
    source.divisor = divisor;
    EXPECT_OK(tess_engine_step(r.engine, &source, &report));
    for (int i = 0; i < tess_fsdp_shards(r.engine->fsdp); i++) {
        float before[2000];
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(r.engine->fsdp, i, &shard));
        int64_t n = tess_shape_count(&shard.shape);
        EXPECT(n <= 2000);
        tess_param_fill(tess_model_param(r.engine->model, i), 0, &shard.box, before);
        for (int64_t k = 0; k < n; k++) {
            double g = (double)shard.grad[k] / divisor, want = (double)before[k] - g / (fabs(g) + 1);
            EXPECT(fabs((double)shard.master[k] - want) <= 1e-6 * (1 + fabs(want)));
        }
    }
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static void a_source_without_sense_is_refused(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, "", false);
    tess_batch_source source = source_of(&r, 0, 0);
    EXPECT_FAILS(tess_engine_step(r.engine, &source, &report), TESS_E_INVALID, "at least one micro-batch");
    source = source_of(&r, 0, 1);
    source.divisor = NAN;
    EXPECT_FAILS(tess_engine_step(r.engine, &source, &report), TESS_E_INVALID, "a finite divisor");
    source = source_of(&r, 3, 1);
    EXPECT_FAILS(tess_engine_step(r.engine, &source, &report), TESS_E_INVALID, "step 1 has no target tokens");
    source = source_of(&r, 0, 2);
    EXPECT_OK(tess_engine_step(r.engine, &source, &report));
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static tess_status next_too_large(void *self, int64_t index, tess_batch *batch)
{
    EXPECT_OK(next_tokens(self, index, batch));
    batch->n_tokens = TOKENS + 1;
    return TESS_OK;
}

static void a_micro_batch_that_is_too_large_is_refused(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, "", false);
    tess_batch_source source = source_of(&r, 0, 1);
    source.next = next_too_large;
    EXPECT_FAILS(tess_engine_step(r.engine, &source, &report), TESS_E_INVALID, "micro-batch 0 has 41 tokens");
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

/* Ranks have equally many local micro-batches, so that all collectives meet; yet the last leaf counts on one rank
 * alone. */
static void ranks_with_other_numbers_are_found(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, "", false);
    tess_batch_source source = source_of(&r, 0, test_rank() == 0 ? 2 : 1);
    EXPECT_FAILS(tess_engine_step(r.engine, &source, &report), TESS_E_MISMATCH, "");
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static void ranks_with_other_divisors_are_found(void)
{
    rig r;
    tess_engine_report report;
    open_rig(&r, "", false);
    tess_batch_source source = source_of(&r, 0, 4);
    source.divisor = test_rank() == 1 ? 3 : 2;
    EXPECT_FAILS(tess_engine_step(r.engine, &source, &report), TESS_E_MISMATCH, "another rank has other numbers");
    EXPECT(strstr(tess_error_message(), "the odd one out: rank 1:") != NULL);
    tess_engine_destroy(&r.engine);
    tess_config_free(&r.config);
    test_leave();
}

static const test_case cases[] = {
    CASE(steps_of_any_size_give_the_bits_of_a_plain_loop, -1),
    CASE(batches_with_losses_of_their_own_give_the_bits_of_a_plain_loop, -1),
    CASE(passes_give_the_bits_of_a_plain_loop, -1),
    CASE(passes_are_cut_between_sequences),
    CASE(a_micro_batch_has_a_row_for_each_pass),
    CASE(the_gradient_norm_is_divided_too, 1),
    CASE(the_update_is_by_the_divisor, 1),
    CASE(a_source_without_sense_is_refused, 1),
    CASE(a_micro_batch_that_is_too_large_is_refused, 1),
    CASE(ranks_with_other_numbers_are_found, 2),
    CASE(ranks_with_other_divisors_are_found, 3),
};
TEST_MAIN(cases)
