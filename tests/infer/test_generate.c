/* Generation with a tiny random model: it reports the log-probabilities of one forward over the same text, whatever
 * else is in the batch. */
#include "infer/generate.h"

#include <semaphore.h>

#include "base/core/rng.h"
#include "infer/generate_impl.h"
#include "infer/kv_pages.h"
#include "nn/points_rig.h"

enum { MAX_PROMPTS = 40, MAX_TOKENS = 96, V = 301 };

static const tess_model_config tiny = {.family = TESS_FAMILY_QWEN3,
                                       .vocab_size = V,
                                       .hidden_size = 48,
                                       .intermediate_size = 72,
                                       .n_layers = 2,
                                       .n_heads = 3,
                                       .n_kv_heads = 1,
                                       .head_size = 16,
                                       .max_position = MAX_TOKENS,
                                       .sum_leaves = 1,
                                       .norm_eps = 1e-6,
                                       .rope = {.kind = TESS_ROPE_DEFAULT, .theta = 10000},
                                       .parts.qk_norm = true,
                                       .tied = true,
                                       .bos_token_id = -1,
                                       .pad_token_id = -1};

/* The reports of a generation, by prompt and position. */
typedef struct story {
    int n_prompts;
    int64_t n[MAX_PROMPTS]; /* tokens, those of the prompt included */
    int32_t ids[MAX_PROMPTS][MAX_TOKENS];
    float logprob[MAX_PROMPTS][MAX_TOKENS];
} story;

typedef struct prompt {
    const int32_t *ids;
    int64_t n;
} prompt;

typedef struct prompts {
    int n;
    int32_t ids[MAX_PROMPTS][MAX_TOKENS];
    prompt list[MAX_PROMPTS];
} prompts;

static void make_prompts(prompts *p, int n, const int64_t *lengths)
{
    p->n = n;
    for (int i = 0; i < n; i++) {
        for (int64_t t = 0; t < lengths[i]; t++)
            p->ids[i][t] = (int32_t)(tess_rng_u64(8, TESS_RNG_TEST, (uint64_t)i, (uint64_t)t) % V);
        p->list[i] = (prompt){p->ids[i], lengths[i]};
    }
}

/* A source of prompts, which are requests 0, 1, ..., and what is heard of them. */
typedef struct listener {
    const prompts *prompts;
    story *story;
    int64_t max_new, budget;
    int64_t refuse_at; /* position at which the callback fails, 0: never */
    int64_t stop_at;   /* position whose token ends a text, 0: none */
    uint64_t prefix;   /* prefix number of all of them, 0: none */
    bool quiet;        /* about log-probabilities of prompts */
    bool keep;
    int next, n_finished;
    tess_finish why[MAX_PROMPTS];
} listener;

static tess_status next(void *self, tess_request *r, bool *none)
{
    listener *l = self;
    *none = l->next == l->prompts->n;
    if (*none)
        return TESS_OK;
    const prompt *p = &l->prompts->list[l->next];
    *r = (tess_request){.id = (uint64_t)l->next++,
                        .ids = p->ids,
                        .n = p->n,
                        .n_prompt = p->n,
                        .max_new_tokens = l->max_new,
                        .budget = l->budget,
                        .prefix = l->prefix,
                        .want_prompt_logprobs = !l->quiet,
                        .keep = l->keep,
                        .user = l};
    return TESS_OK;
}

static tess_status token(void *self, const tess_request *r, int64_t position, int32_t token, float logprob,
                         bool generated, bool *stop)
{
    listener *l = self;
    int i = (int)r->id;
    EXPECT(r->id < (uint64_t)l->prompts->n && position < MAX_TOKENS && r->user == self && !*stop);
    const prompt *p = &l->prompts->list[i];
    story *s = l->story;
    if (s->n[i] == 0) {
        s->n[i] = l->quiet ? p->n : 1;
        memcpy(s->ids[i], p->ids, (size_t)s->n[i] * sizeof(int32_t));
    }
    EXPECT_INT(position, s->n[i]); /* positions come in order, without gaps */
    EXPECT(generated == (position >= p->n));
    if (!generated)
        EXPECT_INT(token, p->ids[position]);
    TESS_CHECK(l->refuse_at == 0 || position < l->refuse_at, TESS_E_INTERRUPTED, "enough");
    s->ids[i][position] = token;
    s->logprob[i][position] = logprob;
    s->n[i]++;
    *stop = l->stop_at > 0 && position == l->stop_at;
    return TESS_OK;
}

static tess_status finished(void *self, const tess_request *r, tess_finish why)
{
    listener *l = self;
    EXPECT((int)l->why[r->id] == 0);
    l->why[r->id] = why + 1;
    l->n_finished++;
    return TESS_OK;
}

static tess_status generate(tess_generator *g, const tess_sampling *sampling, const int64_t *end_tokens, int n_end,
                            listener *l)
{
    l->next = l->n_finished = 0;
    memset(l->why, 0, sizeof(l->why));
    const tess_request_source source = {l, next, token, finished};
    TESS_TRY(tess_generator_run(g, sampling, end_tokens, n_end, &source));
    EXPECT_INT(l->n_finished, l->prompts->n);
    return TESS_OK;
}

typedef struct setting {
    const char *level; /* level of kernels */
    tess_dtype dtype;
    int n_threads;
    int64_t max_sequences, pass_tokens, max_length, max_new;
    tess_sampling sampling;
    const int64_t *end_tokens;
    int n_end;
    int64_t n_pages; /* pages of the cache; 0: enough */
    uint64_t prefix; /* prefix number of all prompts */
    bool quiet;
    tess_generator_stats *stats;
} setting;

static void run(const setting *with, const prompts *p, story *s)
{
    rig r;
    tess_generator *generator = NULL;
    memset(s, 0, sizeof(*s));
    s->n_prompts = p->n;
    rig_open(&r, &tiny, with->dtype, with->level, with->n_threads);
    tess_generator_options options = {with->dtype, with->max_length, with->max_sequences, with->pass_tokens,
                                      (size_t)with->n_pages * tess_kv_page_bytes(r.model, with->dtype)};
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
    listener l = {.prompts = p, .story = s, .max_new = with->max_new, .prefix = with->prefix, .quiet = with->quiet};
    EXPECT_OK(generate(generator, &with->sampling, with->end_tokens, with->n_end, &l));
    if (with->stats != NULL)
        *with->stats = tess_generator_get_stats(generator);
    tess_generator_destroy(&generator);
    rig_close(&r);
}

/* The reference for sequence `i`, one forward without a cache: log-probabilities, and the logits of each row. */
static void score(const setting *with, const story *s, int i, float *logprob, float *logits)
{
    rig r;
    int64_t T = s->n[i];
    int32_t pos[MAX_TOKENS], targets[MAX_TOKENS], rows[MAX_TOKENS], cu_seqlens[] = {0, (int32_t)T};
    for (int64_t t = 0; t < T; t++) {
        pos[t] = rows[t] = (int32_t)t;
        targets[t] = t + 1 < T ? s->ids[i][t + 1] : -1;
    }
    tess_batch batch = {
        .n_tokens = T, .n_seqs = 1, .ids = s->ids[i], .pos = pos, .targets = targets, .cu_seqlens = cu_seqlens};
    rig_open(&r, &tiny, with->dtype, with->level, 1);
    tess_executor *executor =
        rig_executor(&r, (tess_executor_options){.max_tokens = MAX_TOKENS, .max_position = MAX_TOKENS});
    EXPECT_OK(tess_executor_logprobs(executor, &batch, tess_sampling_inv_temperature(&with->sampling), logprob, NULL));
    EXPECT_OK(tess_executor_logits(executor, &batch, rows, T, logits));
    tess_executor_destroy(&executor);
    rig_close(&r);
}

static void expect_same_story(const story *got, const story *want)
{
    EXPECT_INT(got->n_prompts, want->n_prompts);
    for (int i = 0; i < want->n_prompts; i++) {
        EXPECT_INT(got->n[i], want->n[i]);
        EXPECT_SAME(got->ids[i], want->ids[i], (size_t)want->n[i]);
        EXPECT_SAME(got->logprob[i] + 1, want->logprob[i] + 1, (size_t)want->n[i] - 1);
    }
}

static const int64_t lengths[] = {1, 40, 7, 23, 2};

static void greedy_takes_the_argmax_and_reports_the_models_own_bits(void)
{
    static float logits[MAX_TOKENS * V];
    float logprob[MAX_TOKENS];
    prompts p;
    story s;
    make_prompts(&p, 5, lengths);
    for (int k = 0; k < N_LEVELS; k++)
        for (int d = 0; d < 2 && have_level(kernel_levels[k]); d++) {
            setting with = {.level = kernel_levels[k], .dtype = d == 0 ? TESS_F32 : TESS_BF16, .n_threads = 1};
            with.max_sequences = 2;
            with.pass_tokens = 16;
            with.max_length = 64;
            with.max_new = 11;
            run(&with, &p, &s);
            for (int i = 0; i < p.n; i++) {
                EXPECT_INT(s.n[i], lengths[i] + 11);
                score(&with, &s, i, logprob, logits);
                EXPECT_SAME(s.logprob[i] + 1, logprob, (size_t)s.n[i] - 1);
                for (int64_t t = lengths[i] - 1; t + 1 < s.n[i]; t++) {
                    int32_t best = 0;
                    for (int32_t v = 1; v < V; v++)
                        best = logits[t * V + v] > logits[t * V + best] ? v : best;
                    EXPECT_INT(s.ids[i][t + 1], best);
                }
            }
        }
}

static void repetition_penalty_sees_the_prompt_and_what_is_new(void)
{
    static float logits[MAX_TOKENS * V];
    float logprob[MAX_TOKENS];
    prompts p;
    story s;
    int n_moved = 0;
    make_prompts(&p, 5, lengths);
    setting with = {
        .dtype = TESS_F32, .n_threads = 1, .max_sequences = 2, .pass_tokens = 16, .max_length = 64, .max_new = 20};
    with.sampling.repetition_penalty = 1.4;
    run(&with, &p, &s);
    for (int i = 0; i < p.n; i++) {
        bool seen[V] = {false};
        EXPECT_INT(s.n[i], lengths[i] + 20);
        score(&with, &s, i, logprob, logits);
        EXPECT_SAME(s.logprob[i] + 1, logprob, (size_t)s.n[i] - 1); /* the model's own, without the penalty */
        for (int64_t t = 0; t + 1 < s.n[i]; t++) {
            float *row = logits + t * V;
            int32_t likeliest = 0, best = 0;
            seen[s.ids[i][t]] = true;
            for (int32_t v = 1; v < V; v++)
                likeliest = row[v] > row[likeliest] ? v : likeliest;
            for (int32_t v = 0; v < V; v++)
                row[v] = !seen[v] ? row[v] : row[v] < 0 ? row[v] * 1.4f : row[v] / 1.4f;
            for (int32_t v = 1; v < V; v++)
                best = row[v] > row[best] ? v : best;
            if (t + 1 < lengths[i])
                continue;
            EXPECT_INT(s.ids[i][t + 1], best);
            n_moved += best != likeliest;
        }
    }
    EXPECT(n_moved > 5);
}

static void penalized_tokens_agree_with_transformers(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        rig r;
        story s = {0};
        tess_generator *generator = NULL;
        int32_t expected[FIXTURE_TOKENS];
        fixture_open(&f, fixture_names[i]);
        int64_t n_new = fixture_list(f.json, "penalized", expected, FIXTURE_TOKENS);
        const prompts p = {.n = 1, .list = {{f.ids, json_integer_value(json_object_get(f.json, "prompt"))}}};
        const tess_sampling greedy = {.repetition_penalty = json_real_value(json_object_get(f.json, "penalty"))};
        listener l = {.prompts = &p, .story = &s, .max_new = n_new, .quiet = true};
        rig_open(&r, &f.config, TESS_F32, NULL, 1);
        const tess_generator_options options = {TESS_F32, p.list[0].n + 11, 1, 0, 0};
        EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
        EXPECT_OK(generate(generator, &greedy, NULL, 0, &l));
        EXPECT_INT(s.n[0], n_new > 0 ? p.list[0].n + n_new : 0);
        EXPECT_SAME(s.ids[0] + p.list[0].n, expected, (size_t)n_new);
        tess_generator_destroy(&generator);
        rig_close(&r);
        fixture_close(&f);
    }
}

static void company_chunks_slots_and_threads_change_no_bit(void)
{
    static const int64_t slots[] = {1, 2, 3, 8}, chunks[] = {1, 7, 40, 0};
    prompts p, alone;
    story reference, other;
    make_prompts(&p, 5, lengths);
    for (int warm = 0; warm < 2; warm++)
        for (int d = 0; d < 2; d++) {
            setting with = {
                .dtype = d == 0 ? TESS_F32 : TESS_BF16, .n_threads = 1, .max_sequences = 1, .max_length = 64};
            with.max_new = 9;
            with.sampling = (tess_sampling){.temperature = warm, .top_p = 0.97, .seed = 12, .repetition_penalty = 1.2};
            run(&with, &p, &reference);
            for (size_t i = 0; i < 4; i++) {
                with.max_sequences = slots[i];
                with.pass_tokens = chunks[i];
                with.n_threads = 1 + (int)i % 2;
                with.max_length = i % 2 == 0 ? 64 : 49;
                run(&with, &p, &other);
                expect_same_story(&other, &reference);
            }
            alone.n = 1;
            alone.list[0] = p.list[0]; /* draws depend on the prompt's number, so only the first can run alone */
            run(&with, &alone, &other);
            EXPECT_INT(other.n[0], reference.n[0]);
            EXPECT_SAME(other.ids[0], reference.ids[0], (size_t)reference.n[0]);
            EXPECT_SAME(other.logprob[0] + 1, reference.logprob[0] + 1, (size_t)reference.n[0] - 1);
        }
}

/* More keys and values of single tokens than a call copies to the cache, at places around the end of a page. */
static void many_texts_grow_together_and_change_no_bit(void)
{
    int64_t many[MAX_PROMPTS];
    prompts p;
    story reference, other;
    for (int i = 0; i < MAX_PROMPTS; i++)
        many[i] = 59 + i % 8;
    make_prompts(&p, MAX_PROMPTS, many);
    for (int d = 0; d < 2; d++) {
        setting with = {.dtype = d == 0 ? TESS_F32 : TESS_BF16,
                        .n_threads = 1,
                        .max_sequences = 3,
                        .max_length = 96,
                        .max_new = 7,
                        .sampling = {.temperature = 1, .top_p = 0.97, .seed = 12}};
        run(&with, &p, &reference);
        with.max_sequences = MAX_PROMPTS;
        run(&with, &p, &other);
        expect_same_story(&other, &reference);
    }
}

/* Log-probabilities of a story's new tokens are those of one forward, of the temperature that they were drawn at. */
static void expect_models_bits(const setting *with, const prompts *p, const story *s)
{
    static float logits[MAX_TOKENS * V];
    float logprob[MAX_TOKENS];
    for (int i = 0; i < p->n; i++) {
        score(with, s, i, logprob, logits);
        EXPECT_SAME(s->logprob[i] + p->list[i].n, logprob + p->list[i].n - 1, (size_t)(s->n[i] - p->list[i].n));
    }
}

static void expect_same_new_tokens(const story *got, const story *want, const prompts *p)
{
    for (int i = 0; i < p->n; i++) {
        int64_t first = p->list[i].n;
        EXPECT_INT(got->n[i], want->n[i]);
        EXPECT_SAME(got->ids[i], want->ids[i], (size_t)want->n[i]);
        EXPECT_SAME(got->logprob[i] + first, want->logprob[i] + first, (size_t)(want->n[i] - first));
    }
}

static void exact_sampling_reports_training_at_every_temperature(void)
{
    static const double temperatures[] = {0.6, 1, 1.3};
    prompts p;
    story s;
    make_prompts(&p, 5, lengths);
    for (int k = 0; k < N_LEVELS; k++)
        for (int d = 0; d < 2 && have_level(kernel_levels[k]); d++)
            for (int i = 0; i < 3; i++) {
                setting with = {.level = kernel_levels[k], .dtype = d == 0 ? TESS_F32 : TESS_BF16, .n_threads = 1};
                with.max_sequences = 3;
                with.pass_tokens = 16;
                with.max_length = 64;
                with.max_new = 9;
                with.quiet = i == 1;
                with.sampling = (tess_sampling){.temperature = temperatures[i], .top_p = 1, .seed = 3, .exact = true};
                run(&with, &p, &s);
                expect_models_bits(&with, &p, &s);
            }
}

static void make_group(prompts *p, int n, int64_t length)
{
    const int64_t all[] = {length, length, length, length, length, length, length, length};
    make_prompts(p, n, all);
    for (int i = 1; i < n; i++)
        memcpy(p->ids[i], p->ids[0], sizeof(p->ids[0]));
}

/* Prompts that end inside of a page, at its end, and after it; with places for all, and for fewer. */
static void a_shared_prompt_is_read_once_and_changes_no_bit(void)
{
    static const int64_t prompt_lengths[] = {1, 37, 63, 64, 65, 70};
    for (size_t i = 0; i < sizeof(prompt_lengths) / sizeof(prompt_lengths[0]); i++)
        for (int d = 0; d < 2; d++) {
            prompts p;
            story own, together;
            tess_generator_stats stats;
            setting with = {
                .dtype = d == 0 ? TESS_F32 : TESS_BF16, .n_threads = 1, .max_sequences = 6, .max_length = 96};
            make_group(&p, 6, prompt_lengths[i]);
            with.max_new = 20;
            with.quiet = true;
            with.stats = &stats;
            with.sampling = (tess_sampling){.temperature = 1, .top_p = 1, .seed = 9, .exact = true};
            run(&with, &p, &own);
            EXPECT_INT(stats.prefilled, 6 * prompt_lengths[i]);
            EXPECT(memcmp(own.ids[0], own.ids[1], sizeof(own.ids[0])) != 0);
            with.prefix = 77;
            for (with.max_sequences = 6; with.max_sequences >= 2; with.max_sequences -= 4)
                for (with.pass_tokens = 0; with.pass_tokens <= 7; with.pass_tokens += 7) {
                    run(&with, &p, &together);
                    expect_same_new_tokens(&together, &own, &p);
                    EXPECT_INT(stats.prefilled, prompt_lengths[i]);
                    EXPECT_INT(stats.shared, 6 * prompt_lengths[i]);
                    EXPECT_INT(stats.drawn, 120);
                    EXPECT_INT(stats.preemptions, 0);
                    /* Each writes into a page that it shares, unless the prompt ends with one; the last one left owns
                     * it. */
                    EXPECT(prompt_lengths[i] % 64 == 0 ? stats.copied_pages == 0 : stats.copied_pages >= 5);
                }
            expect_models_bits(&with, &p, &together);
        }
}

/* A cache for one text and a little more: texts are dropped and read again. */
static void pages_that_run_out_change_no_bit(void)
{
    static const int64_t long_ones[] = {60, 2, 40, 63, 64, 1, 33, 50};
    prompts p;
    story free, tight;
    make_prompts(&p, 8, long_ones);
    for (int shared = 0; shared < 2; shared++)
        for (int d = 0; d < 2; d++) {
            tess_generator_stats stats;
            setting with = {
                .dtype = d == 0 ? TESS_F32 : TESS_BF16, .n_threads = 2, .max_sequences = 8, .max_length = 96};
            if (shared == 1)
                make_group(&p, 8, 60);
            with.max_new = 31;
            with.quiet = true;
            with.stats = &stats;
            with.sampling = (tess_sampling){.temperature = 1, .top_p = 1, .seed = 2, .exact = true};
            run(&with, &p, &free);
            EXPECT_INT(stats.preemptions, 0);
            expect_models_bits(&with, &p, &free);
            with.prefix = (uint64_t)shared;
            int64_t most = 0;
            for (with.n_pages = 2; with.n_pages < 8; with.n_pages++)
                for (with.pass_tokens = 8; with.pass_tokens <= 40; with.pass_tokens += 32) {
                    run(&with, &p, &tight);
                    expect_same_new_tokens(&tight, &free, &p);
                    EXPECT(stats.peak_pages <= with.n_pages);
                    most = stats.preemptions > most ? stats.preemptions : most;
                }
            EXPECT(most > 0);
        }
}

static void prompts_are_scored_again_after_they_were_dropped(void)
{
    static const int64_t long_ones[] = {50, 60, 70, 63};
    prompts p;
    story free, tight;
    tess_generator_stats stats;
    make_prompts(&p, 4, long_ones);
    setting with = {.dtype = TESS_F32, .n_threads = 1, .max_sequences = 4, .max_length = 96, .max_new = 25};
    with.stats = &stats;
    run(&with, &p, &free);
    with.n_pages = 3;
    with.pass_tokens = 16;
    run(&with, &p, &tight);
    EXPECT(stats.preemptions > 0);
    expect_same_story(&tight, &free);
}

static void seeds_decide_the_text(void)
{
    static const int64_t two[] = {5, 5};
    prompts p;
    story a, b;
    make_prompts(&p, 2, two);
    p.list[1] = p.list[0];
    setting with = {.dtype = TESS_F32, .n_threads = 1, .max_sequences = 2, .max_length = 64, .max_new = 20};
    with.sampling = (tess_sampling){.temperature = 1.5, .top_p = 1, .seed = 1};
    run(&with, &p, &a);
    run(&with, &p, &b);
    expect_same_story(&b, &a);
    EXPECT(memcmp(a.ids[0], a.ids[1], sizeof(a.ids[0])) != 0); /* prompts with equal text continue differently */
    with.sampling.seed = 2;
    run(&with, &p, &b);
    EXPECT(memcmp(a.ids[0], b.ids[0], sizeof(a.ids[0])) != 0);
}

static void generation_ends_where_it_should(void)
{
    prompts p;
    story s, cut;
    make_prompts(&p, 5, lengths);
    setting with = {.dtype = TESS_F32, .n_threads = 1, .max_sequences = 2, .max_length = 64, .max_new = 12};
    run(&with, &p, &s);

    with.max_new = 0; /* scores the prompt and adds nothing */
    run(&with, &p, &cut);
    EXPECT_INT(cut.n[0], 0); /* a single token has no log-probability */
    for (int i = 1; i < p.n; i++) {
        EXPECT_INT(cut.n[i], lengths[i]);
        EXPECT_SAME(cut.logprob[i] + 1, s.logprob[i] + 1, (size_t)lengths[i] - 1);
    }

    with.max_new = 1000; /* the longest prompt fills its slot to the last token, shorter ones have more room */
    with.max_length = 44;
    run(&with, &p, &cut);
    for (int i = 0; i < p.n; i++) {
        EXPECT_INT(cut.n[i], 44);
        int64_t both = s.n[i] < 44 ? s.n[i] : 44;
        EXPECT_SAME(cut.ids[i], s.ids[i], (size_t)both);
    }

    const int64_t ends[] = {V + 5, s.ids[2][lengths[2] + 3]}; /* prompt 2 ends at its fourth new token at the latest */
    with.max_length = 64;
    with.max_new = 12;
    with.end_tokens = ends;
    with.n_end = 2;
    run(&with, &p, &cut);
    for (int i = 0; i < p.n; i++) {
        int64_t n = lengths[i];
        while (n < s.n[i] && s.ids[i][n++] != ends[1])
            ;
        EXPECT_INT(cut.n[i], n); /* the end token is reported; a prompt may hold it */
        EXPECT_SAME(cut.ids[i], s.ids[i], (size_t)n);
    }
    EXPECT(cut.n[2] <= lengths[2] + 4);
}

/* A text that ends with its budget and goes on later, and one that the source stops. */
static void a_text_goes_on_where_it_ended(void)
{
    rig r;
    prompts p;
    story whole = {0}, parts = {0};
    tess_generator *generator = NULL;
    const tess_sampling sampling = {.temperature = 1, .top_p = 1, .seed = 8, .exact = true};
    make_prompts(&p, 5, lengths);
    rig_open(&r, &tiny, TESS_F32, NULL, 1);
    const tess_generator_options options = {TESS_F32, 64, 2, 0, 0};
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
    listener l = {.prompts = &p, .story = &whole, .max_new = 20, .quiet = true};
    EXPECT_OK(generate(generator, &sampling, NULL, 0, &l));
    EXPECT_INT(l.why[0], TESS_FINISH_LENGTH + 1);
    for (int64_t done = 0; done < 20; done += 7) {
        l = (listener){.prompts = &p, .story = &parts, .max_new = 20 - done, .budget = 7, .quiet = true};
        EXPECT_OK(generate(generator, &sampling, NULL, 0, &l));
        for (int i = 0; i < 5; i++) {
            EXPECT_INT(l.why[i], (done < 14 ? TESS_FINISH_BUDGET : TESS_FINISH_LENGTH) + 1);
            p.list[i] = (prompt){parts.ids[i], parts.n[i]};
        }
    }
    make_prompts(&p, 5, lengths);
    expect_same_new_tokens(&parts, &whole, &p);
    memset(&parts, 0, sizeof(parts));
    l = (listener){.prompts = &p, .story = &parts, .max_new = 20, .quiet = true, .stop_at = 42};
    EXPECT_OK(generate(generator, &sampling, NULL, 0, &l));
    for (int i = 0; i < 5; i++) {
        bool stops = lengths[i] + 20 >= 43;
        EXPECT_INT(l.why[i], (stops ? TESS_FINISH_STOP : TESS_FINISH_LENGTH) + 1);
        EXPECT_INT(parts.n[i], stops ? 43 : whole.n[i]);
        EXPECT_SAME(parts.ids[i], whole.ids[i], (size_t)parts.n[i]);
    }
    tess_generator_destroy(&generator);
    rig_close(&r);
}

/* A conversation: each request begins with the text of the one before it. */
static void what_is_kept_is_not_read_again_and_changes_no_bit(void)
{
    rig r;
    prompts p;
    tess_generator *generator = NULL;
    const tess_sampling sampling = {.temperature = 1, .top_p = 1, .seed = 8, .exact = true};
    const int64_t one[] = {MAX_TOKENS};
    static story kept, fresh;
    int32_t text[MAX_TOKENS];
    make_prompts(&p, 1, one);
    memcpy(text, p.ids[0], sizeof(text));
    rig_open(&r, &tiny, TESS_F32, NULL, 1);
    /* Two places and one page to spare, so that others' pages are taken back, too. */
    const tess_generator_options options = {TESS_F32, 96, 2, 0, 3 * tess_kv_page_bytes(r.model, TESS_F32)};
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
    static const struct {
        int64_t n, shared; /* tokens of the request, and how many of them were kept */
        int64_t from;      /* first token that differs from the text so far; -1: it goes on */
        bool keep, sleeps;
    } turns[] = {{20, 0, -1, true, false},  /* draws 5: positions 20 .. 24, of which the last is not computed */
                 {40, 24, -1, true, false}, /* all of it, and 16 more */
                 {40, 39, -1, true, false}, /* once more: one is computed */
                 {35, 30, 30, true, false}, /* parts from it at 30 */
                 {36, 0, -1, false, false}, /* one that keeps nothing, and shares nothing */
                 {45, 39, -1, true, false}, /* it takes what the last but one left */
                 {50, 0, -1, true, true}};  /* after a sleep nothing is left */
    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
        for (int64_t t = turns[i].from; t >= 0 && t < MAX_TOKENS; t++)
            text[t] = (text[t] + 1) % V;
        p.list[0] = (prompt){text, turns[i].n};
        memset(&kept, 0, sizeof(kept));
        memset(&fresh, 0, sizeof(fresh));
        if (turns[i].sleeps)
            tess_generator_sleep(generator);
        int64_t shared = tess_generator_get_stats(generator).shared;
        listener l = {.prompts = &p, .story = &kept, .max_new = 5, .quiet = true, .keep = turns[i].keep};
        EXPECT_OK(generate(generator, &sampling, NULL, 0, &l));
        EXPECT_INT(tess_generator_get_stats(generator).shared - shared, turns[i].shared);
        const setting alone = {.dtype = TESS_F32,
                               .n_threads = 1,
                               .max_sequences = 1,
                               .max_length = 96,
                               .max_new = 5,
                               .sampling = sampling,
                               .quiet = true};
        run(&alone, &p, &fresh);
        EXPECT_INT(kept.n[0], turns[i].n + 5);
        expect_same_new_tokens(&kept, &fresh, &p);
        if (turns[i].keep)
            memcpy(text, kept.ids[0], (size_t)kept.n[0] * sizeof(*text));
    }
    tess_generator_destroy(&generator);
    rig_close(&r);
}

/* Plans a pass of two ranks that read texts of these lengths together. Returns the tokens of the oldest text in it. */
static int64_t plan_of_readers(const int64_t *sizes, int n, bool *shares)
{
    rig r;
    prompts p;
    tess_generator *g = NULL;
    int64_t n_tokens, first;
    make_prompts(&p, n, sizes);
    rig_open(&r, &tiny, TESS_F32, NULL, 1);
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks,
                                    &(tess_generator_options){.dtype = TESS_F32, .max_length = 96, .max_sequences = 3},
                                    &g));
    g->options.readers.degree = 2; /* the plan alone reads it here */
    for (int i = 0; i < n; i++)
        EXPECT_OK(tess_generate_admit(
            g, &(tess_request){.ids = p.list[i].ids, .n = sizes[i], .n_prompt = sizes[i], .max_new_tokens = 1}));
    EXPECT_OK(tess_generate_plan(g, &n_tokens));
    first = g->running[0]->take;
    *shares = g->shares_pass;
    tess_generator_destroy(&g);
    rig_close(&r);
    return first;
}

static void readers_start_no_text_before_an_older_one(void)
{
    bool shares;
    EXPECT_INT(plan_of_readers((const int64_t[]){70, 8}, 2, &shares), 68); /* the last token is for a pass of all */
    EXPECT(shares);
    EXPECT_INT(plan_of_readers((const int64_t[]){8, 70}, 2, &shares), 8);
    EXPECT(!shares);
}

static void sleep_gives_all_of_the_cache_back(void)
{
    rig r;
    prompts p;
    story before = {0}, after = {0};
    tess_generator *generator = NULL;
    const tess_sampling greedy = {.top_p = 1};
    make_prompts(&p, 5, lengths);
    rig_open(&r, &tiny, TESS_F32, NULL, 1);
    const tess_generator_options options = {TESS_F32, 64, 2, 0, 0};
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
    const tess_generator_stats stats = tess_generator_get_stats(generator);
    EXPECT_INT((int64_t)tess_mem_stats(test_mem(), TESS_POOL_KV_CACHE).bytes,
               stats.n_pages * (int64_t)stats.page_bytes);
    listener l = {.prompts = &p, .story = &before, .max_new = 9};
    EXPECT_OK(generate(generator, &greedy, NULL, 0, &l));
    size_t awake = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes;
    tess_generator_sleep(generator);
    tess_generator_sleep(generator);
    EXPECT_INT((int64_t)tess_mem_stats(test_mem(), TESS_POOL_KV_CACHE).bytes, 0);
    EXPECT(tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes < awake / 2);
    l.story = &after;
    EXPECT_OK(generate(generator, &greedy, NULL, 0, &l)); /* wakes */
    expect_same_story(&after, &before);
    EXPECT_INT(tess_generator_get_stats(generator).drawn, 90);
    EXPECT_INT((int64_t)tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes, (int64_t)awake);
    tess_generator_destroy(&generator);
    rig_close(&r);
}

static void bad_requests_are_refused(void)
{
    rig r;
    prompts p;
    story s = {0};
    tess_sampling greedy = {.top_p = 1};
    tess_generator *generator = NULL;
    make_prompts(&p, 5, lengths);
    listener l = {.prompts = &p, .story = &s, .max_new = 4};
    rig_open(&r, &tiny, TESS_F32, NULL, 1);
    const struct {
        tess_generator_options options;
        const char *message;
    } bad[] = {{{TESS_F32, 64, 0, 0, 0}, "0 sequences at once"},
               {{TESS_F32, MAX_TOKENS + 1, 1, 0, 0}, "97 tokens"},
               {{TESS_F32, 96, 1, 0, 20000}, "one text of 96 tokens are 2 pages of 16384 bytes"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(tess_generator_create(r.stream, r.model, &r.hooks, &bad[i].options, &generator), TESS_E_INVALID,
                     bad[i].message);
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &(tess_generator_options){TESS_F32, 40, 2, 0, 0},
                                    &generator));
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_INVALID, "request 1: 4 new tokens");
    prompts one = {.n = 1, .list = {p.list[2]}};
    l.prompts = &one;
    l.max_new = -1;
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_INVALID, "-1 new");
    l.max_new = 4;
    one.list[0].n = 0;
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_INVALID, "request 0: a text of 0 tokens");
    one.list[0].n = 41;
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_INVALID, "request 0: a text of 41 tokens");
    one.list[0].n = 7;
    p.ids[2][3] = V;
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_INVALID, "the target of token 2 is id 301");
    p.ids[2][3] = 5;
    const tess_sampling exact = {.temperature = 1, .top_p = 0.9, .exact = true};
    EXPECT_FAILS(generate(generator, &exact, NULL, 0, &l), TESS_E_INVALID, "ask for inexact sampling");
    memset(&s, 0, sizeof(s));
    l.refuse_at = 9; /* the error of the callback is returned, and the generator stays usable */
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_INTERRUPTED, "enough");
    EXPECT_INT(s.n[0], 9);
    memset(&s, 0, sizeof(s));
    l.refuse_at = 0;
    EXPECT_OK(generate(generator, &greedy, NULL, 0, &l));
    EXPECT_INT(s.n[0], 11);
    one.n = 0;
    EXPECT_OK(generate(generator, &greedy, NULL, 0, &l));
    p.list[1] = p.list[0];
    p.n = 2;
    p.list[0] = p.list[2];
    memset(&s, 0, sizeof(s));
    l = (listener){.prompts = &p, .story = &s, .max_new = 4, .quiet = true, .prefix = 5};
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_INVALID,
                 "request 1: its prompt of 1 tokens is not that of the other requests with prefix 5");
    tess_generator_destroy(&generator);
    rig_close(&r);
}

/* ---- Ranks that each have a part of the model ---- */
enum { MAX_STAGES = 4 };

/* The ranks of a pipeline: stage g is layer g, on rank g % n_ranks. */
typedef struct pipeline {
    int n_ranks, n_stages;
    sem_t full[MAX_STAGES], empty[MAX_STAGES]; /* the stream that a stage reads */
    char stream[MAX_STAGES][MAX_TOKENS * 64 * sizeof(float)];
    pthread_barrier_t barrier;
    void *shown;
} pipeline;

typedef struct member {
    points_rank at;
    pipeline *line;
    int rank; /* its place in the pipeline */
    int64_t layers[MAX_STAGES];
    rig rig;
    tess_generator *generator;
    const setting *with;
    listener listener;
    story story;
    tess_status status;
} member;

static size_t stream_bytes(const member *m, const tess_executor *executor, int64_t n_tokens)
{
    return (size_t)(tess_executor_stream_rows(m->rig.model, tess_executor_get_options(executor), n_tokens) *
                    m->rig.config.hidden_size) *
           tess_dtype_size(m->rig.dtype);
}

static tess_status forward(void *self, tess_executor *executor, const tess_batch *batch, const tess_head_task *task)
{
    member *m = self;
    pipeline *line = m->line;
    const size_t bytes = stream_bytes(m, executor, batch->n_tokens);
    const tess_model_part *part = tess_model_get_part(m->rig.model);
    int unit = m->rig.config.tied && part->head && !part->embedding; /* a table that only the head reads */
    for (int g = m->rank; g < line->n_stages; g += line->n_ranks) {
        const bool first = g == 0, last = g == line->n_stages - 1;
        const tess_range range = {0, unit, unit + 1 + first + last, batch};
        void *in = first ? NULL : tess_executor_input(executor, 0, unit);
        if (!first) {
            sem_wait(&line->full[g]);
            memcpy(in, line->stream[g], bytes);
            sem_post(&line->empty[g]);
        }
        if (!last)
            sem_wait(&line->empty[g + 1]);
        TESS_TRY(tess_executor_score(executor, &range, in, last ? NULL : line->stream[g + 1], task));
        if (!last)
            sem_post(&line->full[g + 1]);
        unit = range.end;
    }
    return TESS_OK;
}

static tess_status share(void *self, tess_status status, void *data, size_t bytes)
{
    member *m = self;
    const bool head = tess_model_get_part(m->rig.model)->head;
    if (head)
        m->line->shown = data;
    pthread_barrier_wait(&m->line->barrier);
    if (!head)
        memcpy(data, m->line->shown, bytes);
    pthread_barrier_wait(&m->line->barrier);
    return status;
}

static void *run_member(void *argument)
{
    member *m = argument;
    m->status = generate(m->generator, &m->with->sampling, NULL, 0, &m->listener);
    return NULL;
}

/* How a model is divided over ranks. */
typedef struct division {
    int n_heads, n_kv_heads, n_layers, tp, pp;
    bool rows; /* rows of the stream are shared, too */
} division;

static void open_pipeline(pipeline *line, const division *by)
{
    line->n_ranks = by->pp;
    line->n_stages = by->n_layers;
    EXPECT_INT(pthread_barrier_init(&line->barrier, NULL, (unsigned)by->pp), 0);
    for (int g = 0; g < line->n_stages; g++) {
        EXPECT_INT(sem_init(&line->full[g], 0, 0), 0);
        EXPECT_INT(sem_init(&line->empty[g], 0, 1), 0);
    }
}

static void open_member(member *m, const division *by, const setting *with, const prompts *p, const rig *whole)
{
    tess_model_part part = {.layers = m->layers,
                            .embedding = m->rank == 0,
                            .head = (by->n_layers - 1) % by->pp == m->rank,
                            .tp_rank = m->at.points.rank,
                            .tp_degree = by->tp};
    for (int g = m->rank; g < by->n_layers; g += by->pp)
        m->layers[part.n_layers++] = g;
    rig_open_part(&m->rig, &whole->config, &part, with->dtype, NULL, 1);
    give_weights(&m->at.points, &m->rig, whole);
    tess_generator_options options = {with->dtype, with->max_length, with->max_sequences, with->pass_tokens,
                                      (size_t)with->n_pages * tess_kv_page_bytes(whole->model, with->dtype)};
    options.page_bytes = tess_kv_page_bytes(whole->model, with->dtype);
    options.points = m->at.points;
    options.sequence_parallel = by->rows;
    if (by->pp > 1)
        options.stages = (tess_generator_stages){m, forward, share};
    EXPECT_OK(tess_generator_create(m->rig.stream, m->rig.model, &m->rig.hooks, &options, &m->generator));
    m->with = with;
    m->story.n_prompts = p->n;
    m->listener = (listener){
        .prompts = p, .story = &m->story, .max_new = with->max_new, .prefix = with->prefix, .quiet = with->quiet};
}

/* All ranks tell the story of the whole model. */
static void run_divided(const division *by, const setting *with, const prompts *p, const rig *whole, const story *want)
{
    static member members[MAX_RANKS];
    static pipeline lines[MAX_RANKS];
    static team teams[MAX_STAGES];
    pthread_t threads[MAX_RANKS];
    int n = by->tp * by->pp;
    for (int t = 0; t < by->tp; t++)
        open_pipeline(&lines[t], by);
    for (int s = 0; s < by->pp; s++) {
        teams[s] = (team){.degree = by->tp};
        EXPECT_INT(pthread_barrier_init(&teams[s].barrier, NULL, (unsigned)by->tp), 0);
    }
    for (int i = 0; i < n; i++) {
        member *m = &members[i];
        *m = (member){.at = {&teams[i / by->tp], {&m->at, i % by->tp, by->tp, exchange}, 0},
                      .line = &lines[i % by->tp],
                      .rank = i / by->tp};
        open_member(m, by, with, p, whole);
    }
    for (int i = 0; i < n; i++)
        EXPECT_INT(pthread_create(&threads[i], NULL, run_member, &members[i]), 0);
    for (int i = 0; i < n; i++)
        EXPECT_INT(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < n; i++) {
        EXPECT_OK(members[i].status);
        expect_same_new_tokens(&members[i].story, want, p);
        tess_generator_destroy(&members[i].generator);
        rig_close(&members[i].rig);
    }
}

static void ranks_with_parts_of_the_model_draw_as_one(void)
{
    static const division divisions[] = {
        {3, 1, 2, 2, 1, false},                         /* the query heads of a key head are on several ranks */
        {8, 2, 2, 3, 1, true},  {8, 4, 2, 3, 1, false}, /* unequal shares of the key heads */
        {2, 2, 2, 3, 1, true},                          /* a rank without heads */
        {3, 1, 2, 1, 2, false}, {3, 1, 3, 1, 3, false}, {3, 1, 4, 1, 2, false}, /* two stages a rank */
        {3, 1, 2, 2, 2, false}, {8, 4, 4, 3, 2, true}};
    static story want;
    for (size_t i = 0; i < sizeof(divisions) / sizeof(divisions[0]); i++)
        for (int d = 0; d < 2; d++) {
            const division *by = &divisions[i];
            rig whole;
            prompts p;
            tess_generator *generator = NULL;
            tess_model_config config = tiny;
            config.n_heads = by->n_heads;
            config.n_kv_heads = by->n_kv_heads;
            config.n_layers = by->n_layers;
            setting with = {
                .dtype = d == 0 ? TESS_F32 : TESS_BF16, .max_sequences = 3, .max_length = 96, .quiet = true};
            with.sampling = (tess_sampling){.temperature = 1.3, .top_p = 1, .seed = 3, .exact = true};
            with.max_new = 30;
            with.prefix = 4 * (uint64_t)d; /* a group whose prompt ends in the second page */
            if (d == 0)
                make_prompts(&p, 5, lengths);
            else
                make_group(&p, 5, 65);
            memset(&want, 0, sizeof(want));
            want.n_prompts = p.n;
            rig_open(&whole, &config, with.dtype, NULL, 1);
            const tess_generator_options options = {with.dtype, 96, 5, 0, 0};
            EXPECT_OK(tess_generator_create(whole.stream, whole.model, &whole.hooks, &options, &generator));
            listener l = {.prompts = &p, .story = &want, .max_new = 30, .prefix = with.prefix, .quiet = true};
            EXPECT_OK(generate(generator, &with.sampling, NULL, 0, &l));
            tess_generator_destroy(&generator);
            for (with.pass_tokens = 16; with.pass_tokens <= 80; with.pass_tokens += 64) {
                with.n_pages = with.pass_tokens > 16 ? 0 : 3; /* few: texts give theirs back */
                run_divided(by, &with, &p, &whole, &want);
            }
            rig_close(&whole);
        }
}

static void a_pipeline_reports_no_logprobs_of_prompts(void)
{
    rig r;
    prompts p;
    story s = {0};
    tess_generator *generator = NULL;
    const tess_sampling greedy = {.top_p = 1};
    make_prompts(&p, 1, lengths);
    listener l = {.prompts = &p, .story = &s, .max_new = 4};
    rig_open(&r, &tiny, TESS_F32, NULL, 1);
    const tess_generator_options options = {
        .dtype = TESS_F32, .max_length = 64, .max_sequences = 2, .stages.forward = forward};
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
    EXPECT_FAILS(generate(generator, &greedy, NULL, 0, &l), TESS_E_UNSUPPORTED, "the last rank of a pipeline only");
    tess_generator_destroy(&generator);
    rig_close(&r);
}

static const test_case cases[] = {
    CASE(a_pipeline_reports_no_logprobs_of_prompts),
    CASE(ranks_with_parts_of_the_model_draw_as_one),
    CASE(greedy_takes_the_argmax_and_reports_the_models_own_bits),
    CASE(repetition_penalty_sees_the_prompt_and_what_is_new),
    CASE(penalized_tokens_agree_with_transformers),
    CASE(company_chunks_slots_and_threads_change_no_bit),
    CASE(many_texts_grow_together_and_change_no_bit),
    CASE(exact_sampling_reports_training_at_every_temperature),
    CASE(a_shared_prompt_is_read_once_and_changes_no_bit),
    CASE(pages_that_run_out_change_no_bit),
    CASE(prompts_are_scored_again_after_they_were_dropped),
    CASE(seeds_decide_the_text),
    CASE(generation_ends_where_it_should),
    CASE(a_text_goes_on_where_it_ended),
    CASE(what_is_kept_is_not_read_again_and_changes_no_bit),
    CASE(readers_start_no_text_before_an_older_one),
    CASE(sleep_gives_all_of_the_cache_back),
    CASE(bad_requests_are_refused),
};
TEST_MAIN(cases)
