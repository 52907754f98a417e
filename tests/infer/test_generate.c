/* Generation with a tiny random model: it reports the log-probabilities of one forward over the same text, whatever
 * else is in the batch. */
#include "infer/generate.h"

#include "base/core/rng.h"
#include "nn/fixture.h"

enum { MAX_PROMPTS = 8, MAX_TOKENS = 96, V = 301 };

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
                                       .qk_norm = true,
                                       .tied = true,
                                       .bos_token_id = -1,
                                       .pad_token_id = -1};

/* What a generation reported, by prompt and position. */
typedef struct story {
    int n_prompts;
    int64_t n[MAX_PROMPTS]; /* tokens, those of the prompt included */
    int32_t ids[MAX_PROMPTS][MAX_TOKENS];
    float logprob[MAX_PROMPTS][MAX_TOKENS];
} story;

typedef struct prompts {
    int n;
    int32_t ids[MAX_PROMPTS][MAX_TOKENS];
    tess_prompt list[MAX_PROMPTS];
} prompts;

static void make_prompts(prompts *p, int n, const int64_t *lengths)
{
    p->n = n;
    for (int i = 0; i < n; i++) {
        for (int64_t t = 0; t < lengths[i]; t++)
            p->ids[i][t] = (int32_t)(tess_rng_u64(8, TESS_RNG_TEST, (uint64_t)i, (uint64_t)t) % V);
        p->list[i] = (tess_prompt){p->ids[i], lengths[i]};
    }
}

typedef struct listener {
    const prompts *prompts;
    story *story;
    int64_t refuse_at; /* position at which the callback fails, 0: never */
} listener;

static tess_status listen(void *context, int prompt, int64_t position, int32_t token, float logprob, bool generated)
{
    listener *l = context;
    EXPECT(prompt >= 0 && prompt < l->prompts->n && position < MAX_TOKENS);
    const tess_prompt *p = &l->prompts->list[prompt];
    story *s = l->story;
    if (s->n[prompt] == 0)
        s->ids[prompt][s->n[prompt]++] = p->ids[0];
    EXPECT_INT(position, s->n[prompt]); /* in order, without gaps */
    EXPECT(generated == (position >= p->n));
    if (!generated)
        EXPECT_INT(token, p->ids[position]);
    TESS_CHECK(l->refuse_at == 0 || position < l->refuse_at, TESS_E_INTERRUPTED, "enough");
    s->ids[prompt][position] = token;
    s->logprob[prompt][position] = logprob;
    s->n[prompt]++;
    return TESS_OK;
}

typedef struct setting {
    const char *level; /* of kernels */
    tess_dtype dtype;
    int n_threads;
    int64_t n_slots, chunk_tokens, max_length, max_new;
    tess_sampling sampling;
    const int64_t *end_tokens;
    int n_end;
    float inv_temperature; /* of score; 0: 1 */
} setting;

static void run(const setting *with, const prompts *p, story *s)
{
    rig r;
    tess_generator *generator = NULL;
    memset(s, 0, sizeof(*s));
    s->n_prompts = p->n;
    rig_open(&r, &tiny, with->dtype, with->level, with->n_threads);
    tess_generator_options options = {with->dtype, with->max_length, with->n_slots, with->chunk_tokens};
    EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
    listener l = {p, s, 0};
    EXPECT_OK(tess_generate(generator, p->list, p->n, with->max_new, &with->sampling, with->end_tokens, with->n_end,
                            listen, &l));
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
    EXPECT_OK(
        tess_executor_logprobs(executor, &batch, with->inv_temperature > 0 ? with->inv_temperature : 1, logprob, NULL));
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
            with.n_slots = 2;
            with.chunk_tokens = 16;
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
        .dtype = TESS_F32, .n_threads = 1, .n_slots = 2, .chunk_tokens = 16, .max_length = 64, .max_new = 20};
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

/* The policy that draws is the one that a loss of its temperature trains. */
static void exact_log_probabilities_are_those_of_the_temperature(void)
{
    static float logits[MAX_TOKENS * V];
    float logprob[MAX_TOKENS];
    prompts p;
    story s, usual;
    make_prompts(&p, 5, lengths);
    for (int d = 0; d < 2; d++) {
        setting with = {.dtype = d == 0 ? TESS_F32 : TESS_BF16,
                        .n_threads = 1,
                        .n_slots = 3,
                        .chunk_tokens = 16,
                        .max_length = 64,
                        .max_new = 9,
                        .inv_temperature = (float)(1 / 0.6)};
        with.sampling = (tess_sampling){.temperature = 0.6, .top_p = 1, .seed = 3, .exact = true};
        run(&with, &p, &s);
        for (int i = 0; i < p.n; i++) {
            score(&with, &s, i, logprob, logits);
            EXPECT_SAME(s.logprob[i] + 1, logprob, (size_t)s.n[i] - 1);
        }
        with.sampling.exact = false; /* draws the same, and reports what the model says */
        with.inv_temperature = 1;
        run(&with, &p, &usual);
        for (int i = 0; i < p.n; i++) {
            score(&with, &usual, i, logprob, logits);
            EXPECT_SAME(usual.ids[i], s.ids[i], (size_t)s.n[i]);
            EXPECT_SAME(usual.logprob[i] + 1, logprob, (size_t)s.n[i] - 1);
            EXPECT(memcmp(usual.logprob[i] + 1, s.logprob[i] + 1, ((size_t)s.n[i] - 1) * sizeof(float)) != 0);
        }
    }
    EXPECT(tess_sampling_inv_temperature(&(tess_sampling){.temperature = 0, .exact = true}) == 1); /* greedy */
}

static tess_status collect(void *context, int prompt, int64_t position, int32_t token, float logprob, bool generated)
{
    int32_t **next = context;
    (void)prompt, (void)position, (void)logprob;
    if (generated)
        *(*next)++ = token;
    return TESS_OK;
}

static void penalized_tokens_agree_with_transformers(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        rig r;
        tess_generator *generator = NULL;
        int32_t expected[FIXTURE_TOKENS], got[FIXTURE_TOKENS], *next = got;
        fixture_open(&f, fixture_names[i]);
        int64_t n_new = fixture_list(f.json, "penalized", expected, FIXTURE_TOKENS);
        const tess_prompt prompt = {f.ids, json_integer_value(json_object_get(f.json, "prompt"))};
        const tess_sampling greedy = {.repetition_penalty = json_real_value(json_object_get(f.json, "penalty"))};
        rig_open(&r, &f.config, TESS_F32, NULL, 1);
        const tess_generator_options options = {TESS_F32, prompt.n + 11, 1, 0};
        EXPECT_OK(tess_generator_create(r.stream, r.model, &r.hooks, &options, &generator));
        EXPECT_OK(tess_generate(generator, &prompt, 1, n_new, &greedy, NULL, 0, collect, &next));
        EXPECT_INT(next - got, n_new);
        EXPECT_SAME(got, expected, (size_t)n_new);
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
            setting with = {.dtype = d == 0 ? TESS_F32 : TESS_BF16, .n_threads = 1, .n_slots = 1, .max_length = 64};
            with.max_new = 9;
            with.sampling = (tess_sampling){.temperature = warm, .top_p = 0.97, .seed = 12, .repetition_penalty = 1.2};
            run(&with, &p, &reference);
            for (size_t i = 0; i < 4; i++) {
                with.n_slots = slots[i];
                with.chunk_tokens = chunks[i];
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

static void seeds_decide_the_text(void)
{
    static const int64_t two[] = {5, 5};
    prompts p;
    story a, b;
    make_prompts(&p, 2, two);
    p.list[1] = p.list[0];
    setting with = {.dtype = TESS_F32, .n_threads = 1, .n_slots = 2, .max_length = 64, .max_new = 20};
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
    setting with = {.dtype = TESS_F32, .n_threads = 1, .n_slots = 2, .max_length = 64, .max_new = 12};
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

    const int64_t ends[] = {V + 5, s.ids[2][lengths[2] + 3]}; /* of prompt 2, its fourth new token at the latest */
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

static void bad_requests_are_refused(void)
{
    rig r;
    prompts p;
    story s = {0};
    listener l = {&p, &s, 0};
    tess_sampling greedy = {.top_p = 1};
    tess_generator *generator = NULL;
    make_prompts(&p, 5, lengths);
    rig_open(&r, &tiny, TESS_F32, NULL, 1);
    EXPECT_FAILS(
        tess_generator_create(r.stream, r.model, &r.hooks, &(tess_generator_options){TESS_F32, 64, 0, 0}, &generator),
        TESS_E_INVALID, "0 prompts at once");
    EXPECT_FAILS(tess_generator_create(r.stream, r.model, &r.hooks,
                                       &(tess_generator_options){TESS_F32, MAX_TOKENS + 1, 1, 0}, &generator),
                 TESS_E_INVALID, "97 tokens");
    EXPECT_OK(
        tess_generator_create(r.stream, r.model, &r.hooks, &(tess_generator_options){TESS_F32, 40, 2, 0}, &generator));
    EXPECT_FAILS(tess_generate(generator, p.list, 5, 4, &greedy, NULL, 0, listen, &l), TESS_E_INVALID,
                 "prompt 1 has 40 tokens");
    EXPECT_FAILS(tess_generate(generator, p.list, 1, -1, &greedy, NULL, 0, listen, &l), TESS_E_INVALID, "-1 new");
    const tess_prompt empty = {p.ids[0], 0};
    EXPECT_FAILS(tess_generate(generator, &empty, 1, 4, &greedy, NULL, 0, listen, &l), TESS_E_INVALID,
                 "prompt 0 has 0 tokens");
    p.ids[2][3] = V;
    EXPECT_FAILS(tess_generate(generator, &p.list[2], 1, 4, &greedy, NULL, 0, listen, &l), TESS_E_INVALID,
                 "prompt 0: batch: the target of token 2 is id 301");
    p.ids[2][3] = 5;
    memset(&s, 0, sizeof(s));
    l.refuse_at = 9; /* the error of the callback is returned, and the generator stays usable */
    prompts one = {.n = 1, .list = {p.list[2]}};
    l.prompts = &one;
    EXPECT_FAILS(tess_generate(generator, &p.list[2], 1, 4, &greedy, NULL, 0, listen, &l), TESS_E_INTERRUPTED,
                 "enough");
    EXPECT_INT(s.n[0], 9);
    memset(&s, 0, sizeof(s));
    l.refuse_at = 0;
    EXPECT_OK(tess_generate(generator, &p.list[2], 1, 4, &greedy, NULL, 0, listen, &l));
    EXPECT_INT(s.n[0], 11);
    EXPECT_OK(tess_generate(generator, NULL, 0, 4, &greedy, NULL, 0, listen, &l));
    tess_generator_destroy(&generator);
    rig_close(&r);
}

static const test_case cases[] = {
    {"greedy_takes_the_argmax_and_reports_the_models_own_bits", greedy_takes_the_argmax_and_reports_the_models_own_bits,
     0, 0},
    {"repetition_penalty_sees_the_prompt_and_what_is_new", repetition_penalty_sees_the_prompt_and_what_is_new, 0, 0},
    {"exact_log_probabilities_are_those_of_the_temperature", exact_log_probabilities_are_those_of_the_temperature},
    {"penalized_tokens_agree_with_transformers", penalized_tokens_agree_with_transformers, 0, 0},
    {"company_chunks_slots_and_threads_change_no_bit", company_chunks_slots_and_threads_change_no_bit, 0, 0},
    {"seeds_decide_the_text", seeds_decide_the_text, 0, 0},
    {"generation_ends_where_it_should", generation_ends_where_it_should, 0, 0},
    {"bad_requests_are_refused", bad_requests_are_refused, 0, 0},
};
TEST_MAIN(cases)
