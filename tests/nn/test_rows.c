/* Rows are independent: a token's log-probability has the same bits in training and in evaluation, from the logits that
 * generation samples from, token by token or in pieces through a key/value cache, alone or next to other sequences,
 * with any number of threads, at every kernel level. */
#include <math.h>

#include "base/core/rng.h"
#include "fixture.h"

/* A text to score: the last sequence of a packed batch. */
typedef struct text {
    tess_model_config config;
    tess_batch batch;
    int64_t max_position;
} text;

enum { MAX_T = 512 };

/* Lengths of the pieces of a text, repeated; 0: the rest. */
typedef struct pieces {
    int n;
    int32_t length[4];
} pieces;

static tess_executor_options options_for(const text *f, bool train)
{
    return (tess_executor_options){
        .max_tokens = f->batch.n_tokens + 8, .max_position = f->max_position, .train = train};
}

enum { MAX_PAGES = 16 };

typedef struct cache {
    tess_kv_cache kv;
    void **k, **v;
    int64_t n_layers;
    int32_t table[2][MAX_PAGES]; /* tables of two sequences, whose pages lie across one another, in reverse */
} cache;

static void cache_open(cache *c, const rig *r, int64_t max_length)
{
    const tess_model_config *config = &r->config;
    int64_t row = config->n_kv_heads * config->head_size;
    int32_t n = (int32_t)((max_length + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK);
    EXPECT(n <= MAX_PAGES);
    c->n_layers = config->n_layers;
    c->k = test_alloc((size_t)c->n_layers * sizeof(void *));
    c->v = test_alloc((size_t)c->n_layers * sizeof(void *));
    for (int64_t l = 0; l < c->n_layers; l++) {
        c->k[l] = test_alloc((size_t)(2 * n * TESS_ATTENTION_BLOCK * row) * sizeof(float));
        c->v[l] = test_alloc((size_t)(2 * n * TESS_ATTENTION_BLOCK * row) * sizeof(float));
    }
    for (int32_t j = 0; j < 2 * n; j++)
        c->table[j % 2][j / 2] = 2 * n - 1 - j;
    c->kv = (tess_kv_cache){c->k, c->v, TESS_ATTENTION_BLOCK * row, 2 * n, r->dtype};
}

static void cache_close(cache *c)
{
    for (int64_t l = 0; l < c->n_layers; l++) {
        test_free(c->k[l]);
        test_free(c->v[l]);
    }
    test_free(c->k);
    test_free(c->v);
}

/* Evaluates a batch and asks for the logits of all its rows at the same time: generation samples from them. Put through
 * the loss's kernel, they must give the same log-probabilities and entropies. */
static void score(rig *r, tess_executor *executor, const tess_batch *batch, float inv_temperature, float *logprob,
                  float *entropy)
{
    const int64_t T = batch->n_tokens, V = r->config.vocab_size;
    const tess_range all = {.end = tess_model_n_units(r->model), .batch = batch};
    float *logits = test_alloc((size_t)(T * V) * sizeof(float)), again[2][MAX_T];
    int32_t rows[MAX_T];
    for (int32_t t = 0; t < T; t++)
        rows[t] = t;
    const tess_head_task task = {inv_temperature, logprob, entropy, .rows = rows, .n_rows = T, .logits = logits};
    EXPECT_OK(tess_executor_score(executor, &all, NULL, NULL, &task));
    EXPECT_OK(tess_stream_kernels(r->stream)->cross_entropy(r->stream,
                                                            &(tess_cross_entropy){.n = T,
                                                                                  .V = V,
                                                                                  .logits = logits,
                                                                                  .ld = V,
                                                                                  .targets = batch->targets,
                                                                                  .inv_temperature = inv_temperature,
                                                                                  .logprob = again[0],
                                                                                  .entropy = again[1],
                                                                                  .dtype = r->dtype}));
    EXPECT_SAME(again[0], logprob, (size_t)T);
    EXPECT_SAME(again[1], entropy, (size_t)T);
    test_free(logits);
}

/* The sequence in pieces through a cache, next to another sequence that grows there. */
static void logprobs_by_cache(const text *f, rig *r, const pieces *cut, bool with_neighbour, float *logprob)
{
    tess_executor *executor = rig_executor(r, options_for(f, false));
    cache c;
    cache_open(&c, r, f->max_position);
    int32_t begin = f->batch.cu_seqlens[f->batch.n_seqs - 1], length = (int32_t)f->batch.n_tokens - begin;
    int32_t ids[MAX_T], pos[MAX_T], targets[MAX_T];
    float out[MAX_T], entropy[MAX_T];
    int32_t other = 0; /* tokens of the neighbour so far */
    for (int32_t done = 0, piece = 0; done < length; piece++) {
        int32_t n = cut->length[piece % cut->n];
        n = n > 0 && n < length - done ? n : length - done;
        int32_t front = with_neighbour ? 2 : 0;
        for (int32_t t = 0; t < front; t++) {
            ids[t] = (other * 7 + 3) % (int32_t)f->config.vocab_size;
            pos[t] = other++;
            targets[t] = -1;
        }
        for (int32_t t = 0; t < n; t++) {
            ids[front + t] = f->batch.ids[begin + done + t];
            pos[front + t] = done + t;
            targets[front + t] = f->batch.targets[begin + done + t];
        }
        int32_t cu_seqlens[] = {0, front, front + n};
        const int32_t *tables[] = {c.table[0], c.table[1]};
        int skip = with_neighbour ? 0 : 1;
        tess_batch batch = {.n_tokens = front + n,
                            .n_seqs = 2 - skip,
                            .ids = ids,
                            .pos = pos,
                            .targets = targets,
                            .cu_seqlens = cu_seqlens + skip,
                            .cache = &c.kv,
                            .pages = tables + skip};
        score(r, executor, &batch, 1, out, entropy);
        memcpy(logprob + done, out + front, (size_t)n * sizeof(float));
        done += n;
    }
    cache_close(&c);
    tess_executor_destroy(&executor);
}

static tess_status keep_logprobs(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                                 float *dlogprob, float *dentropy)
{
    (void)entropy, (void)dlogprob, (void)dentropy;
    memcpy((float *)self + begin, logprob, (size_t)n * sizeof(float));
    return TESS_OK;
}

static void check_rows(const text *f, const char *level, tess_dtype dtype)
{
    static const pieces whole = {1, {0}}, tokens = {1, {1}}, chunks = {4, {7, 1, 35, 2}};
    float packed[MAX_T], trained[MAX_T], entropy[MAX_T], got[MAX_T];
    int32_t begin = f->batch.cu_seqlens[f->batch.n_seqs - 1];
    size_t length = (size_t)(f->batch.n_tokens - begin);
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        rig r;
        rig_open(&r, &f->config, dtype, level, n_threads);
        tess_executor *executor = rig_executor(&r, options_for(f, true));
        EXPECT_OK(tess_executor_train(executor, &f->batch, NULL, trained));
        if (n_threads == 1)
            memcpy(packed, trained, sizeof(packed));
        EXPECT_SAME(trained, packed, (size_t)f->batch.n_tokens);
        score(&r, executor, &f->batch, 1, got, entropy);
        EXPECT_SAME(got, packed, (size_t)f->batch.n_tokens);
        for (int64_t t = 0; t < f->batch.n_tokens; t++)
            EXPECT(f->batch.targets[t] < 0 ||
                   (entropy[t] > 0 && entropy[t] <= logf((float)f->config.vocab_size) * 1.0001f));
        tess_token_loss warm = {trained, 0.7f, false, keep_logprobs};
        EXPECT_OK(tess_executor_train(executor, &f->batch, &warm, got));
        score(&r, executor, &f->batch, 0.7f, got, entropy);
        EXPECT_SAME(trained, got, (size_t)f->batch.n_tokens);
        tess_executor_destroy(&executor);
        logprobs_by_cache(f, &r, &whole, false, got);
        EXPECT_SAME(got, packed + begin, length);
        if (n_threads == 2 || length < 64) {
            logprobs_by_cache(f, &r, &tokens, false, got);
            EXPECT_SAME(got, packed + begin, length);
        }
        logprobs_by_cache(f, &r, &chunks, true, got);
        EXPECT_SAME(got, packed + begin, length);
        rig_close(&r);
    }
}

/* Runs on all levels from `first` on: "ref" is slow, and its code does not depend on sizes. */
static void on_levels(const text *f, int first)
{
    for (int k = first; k < N_LEVELS; k++)
        if (have_level(kernel_levels[k])) {
            check_rows(f, kernel_levels[k], TESS_F32);
            check_rows(f, kernel_levels[k], TESS_BF16);
        }
}

static void tiny_models_of_every_family_have_independent_rows(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        text tiny = {f.config, f.batch, f.max_position};
        on_levels(&tiny, 0);
        fixture_close(&f);
    }
}

/* Sizes that fast kernels handle: several key blocks, several tiles of rows. */
static void long_text(int64_t window, int64_t vocab_size)
{
    enum { SHORT = 33, LONG = 132, T = SHORT + LONG };
    static const int32_t cu_seqlens[] = {0, SHORT, T};
    int32_t ids[T], pos[T], targets[T];
    for (int32_t t = 0; t < T; t++) {
        ids[t] = (int32_t)(tess_rng_u64(3, TESS_RNG_TEST, 0, (uint64_t)t) % (uint64_t)vocab_size);
        targets[t] = (int32_t)(tess_rng_u64(3, TESS_RNG_TEST, 1, (uint64_t)t) % (uint64_t)vocab_size);
        pos[t] = t < SHORT ? t : t - SHORT;
    }
    text f = {.max_position = 200};
    f.config = (tess_model_config){.family = TESS_FAMILY_QWEN3,
                                   .vocab_size = vocab_size,
                                   .hidden_size = 96,
                                   .intermediate_size = 160,
                                   .n_layers = 2,
                                   .n_heads = 4,
                                   .n_kv_heads = 2,
                                   .head_size = 32,
                                   .max_position = 256,
                                   .sum_leaves = 4,
                                   .norm_eps = 1e-6,
                                   .rope = {.kind = TESS_ROPE_DEFAULT, .theta = 10000},
                                   .sliding_window = window,
                                   .layers = {window > 0 ? TESS_LAYER_FULL : 0},
                                   .parts.qk_norm = true,
                                   .tied = true,
                                   .bos_token_id = -1,
                                   .pad_token_id = -1};
    f.batch =
        (tess_batch){.n_tokens = T, .n_seqs = 2, .ids = ids, .pos = pos, .targets = targets, .cu_seqlens = cu_seqlens};
    on_levels(&f, 1);
}

static void rows_of_long_texts_are_independent(void)
{
    long_text(0, 256);
}

static void rows_of_long_texts_with_a_window_are_independent(void)
{
    long_text(70, 301);
}

static const test_case cases[] = {
    CASE(tiny_models_of_every_family_have_independent_rows),
    CASE(rows_of_long_texts_are_independent),
    CASE(rows_of_long_texts_with_a_window_are_independent),
};
TEST_MAIN(cases)
