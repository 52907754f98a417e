/* A loss as an object: the plain loss in its clothes has the plain bits, derivatives by log-probability, entropy and
 * temperature arrive in the weights, sequence losses see all rows first, and how rows are cut into chunks is nobody's
 * business. */
#include "derivative.h"

enum { MAX_T = FIXTURE_TOKENS };

static tess_executor_options training(const fixture *f)
{
    return (tess_executor_options){.max_tokens = MAX_T, .max_position = f->max_position, .train = true};
}

static void expect_same_gradients(const rig *a, const rig *b)
{
    for (int i = 0; i < a->n_params; i++)
        test_expect_same(__FILE__, __LINE__, tess_model_param(a->model, i)->name, a->dw[i], b->dw[i],
                         (size_t)tess_shape_count(&tess_model_param(a->model, i)->shape), sizeof(float));
}

/* ---- The plain loss ---- */

/* The values that rows without a target get must not matter. */
static tess_status grade_plainly(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                                 float *dlogprob, float *dentropy)
{
    const tess_batch *batch = self;
    (void)logprob;
    for (int64_t i = 0; i < n; i++) {
        bool live = batch->targets[begin + i] >= 0;
        EXPECT(dlogprob[i] == 0 && dentropy[i] == 0);
        EXPECT(entropy[i] >= 0 && (entropy[i] > 0) == live);
        dlogprob[i] = live ? -1 : NAN;
        dentropy[i] = live ? 0 : NAN;
    }
    return TESS_OK;
}

typedef struct seen {
    int n;
    char what[64][32];
    float logprob[MAX_T];
} seen;

static void see(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                int64_t row)
{
    seen *s = self;
    EXPECT(s->n < 64 && first == 0);
    snprintf(s->what[s->n++], sizeof(s->what[0]), "%d %s", unit, what);
    if (strcmp(what, "log-probabilities") == 0) {
        EXPECT(dtype == TESS_F32 && row == 1 && n_rows <= MAX_T);
        memcpy(s->logprob, data, (size_t)n_rows * sizeof(float));
    }
}

static seen train_watched(const fixture *f, rig *r, tess_recompute recompute, const tess_token_loss *loss)
{
    seen s = {0};
    float logprob[MAX_T];
    tess_executor_options options = training(f);
    options.recompute = recompute;
    tess_executor *executor = rig_executor(r, options);
    tess_executor_set_watch(executor, &(tess_watch){&s, see});
    EXPECT_OK(tess_executor_train(executor, &f->batch, loss, logprob));
    s.n = 0;
    EXPECT_OK(tess_executor_train(executor, &f->batch, loss, logprob)); /* buffers are reused */
    EXPECT_SAME(s.logprob, logprob, (size_t)f->batch.n_tokens);
    tess_executor_destroy(&executor);
    return s;
}

static void the_plain_loss_as_an_object_has_the_plain_bits(void)
{
    for (int i = 0; i < N_FIXTURES * 4; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i / 4]);
        tess_recompute recompute = i % 2 == 0 ? TESS_RECOMPUTE_NONE : TESS_RECOMPUTE_FULL;
        rig plain, graded;
        rig_open(&plain, &f.config, i / 2 % 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        rig_open(&graded, &f.config, plain.dtype, NULL, 2);
        seen want = train_watched(&f, &plain, recompute, NULL);
        for (int whole = 0; whole < 2; whole++) {
            tess_token_loss loss = {&f.batch, 1, whole == 1, grade_plainly, .routers = 1};
            seen got = train_watched(&f, &graded, recompute, &loss);
            EXPECT_INT(got.n, want.n);
            for (int k = 0; k < want.n; k++)
                EXPECT_TEXT(got.what[k], want.what[k]);
            EXPECT_SAME(got.logprob, want.logprob, (size_t)f.batch.n_tokens);
            expect_same_gradients(&graded, &plain);
        }
        rig_close(&graded);
        rig_close(&plain);
        fixture_close(&f);
    }
}

/* ---- Derivatives ---- */

typedef struct graded {
    const tess_batch *batch;
    tess_token_loss loss;
    tess_executor *executor;
    double value; /* value of the last micro-batch */
} graded;

/* A loss of each row alone: w (log p + 2)^2 / 2 - H / 10 + H^2 / 50. */
static tess_status grade_rows(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                              float *dlogprob, float *dentropy)
{
    graded *g = self;
    for (int64_t i = 0; i < n; i++) {
        if (g->batch->targets[begin + i] < 0)
            continue;
        double w = (begin + i) % 3 - 0.4, distance = logprob[i] + 2.0, H = entropy[i];
        g->value += w * distance * distance / 2 - H / 10 + H * H / 50;
        dlogprob[i] = (float)(w * distance);
        dentropy[i] = (float)(-0.1 + H / 25);
    }
    return TESS_OK;
}

/* A loss of sequences: -A exp(mean of log p + 4) + (mean of H)^2, means over a sequence's rows with a target. */
static tess_status grade_sequences(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                                   float *dlogprob, float *dentropy)
{
    graded *g = self;
    EXPECT(begin == 0 && n == g->batch->n_tokens);
    for (int64_t q = 0; q < g->batch->n_seqs; q++) {
        double logprobs = 0, entropies = 0, A = q % 2 == 0 ? 1 : -0.7;
        int32_t first = g->batch->cu_seqlens[q], end = g->batch->cu_seqlens[q + 1], live = 0;
        for (int32_t t = first; t < end; t++) {
            live += g->batch->targets[t] >= 0;
            logprobs += (double)logprob[t];
            entropies += (double)entropy[t];
        }
        if (live == 0)
            continue;
        double ratio = exp(logprobs / live + 4);
        g->value += -A * ratio + entropies / live * (entropies / live);
        for (int32_t t = first; t < end; t++) {
            dlogprob[t] = (float)(-A * ratio / live);
            dentropy[t] = (float)(2 * entropies / live / live);
        }
    }
    return TESS_OK;
}

static double train_graded(void *self)
{
    graded *g = self;
    float logprob[MAX_T];
    g->value = 0;
    EXPECT_OK(tess_executor_train(g->executor, g->batch, &g->loss, logprob));
    return g->value;
}

static void expect_derivatives(tess_token_loss loss)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        if (!test_takes())
            continue;
        fixture_open(&f, fixture_names[i]);
        rig r;
        choose_all_experts(&f.config);
        rig_open(&r, &f.config, TESS_F32, "ref", 1);
        graded g = {&f.batch, loss, rig_executor(&r, training(&f)), 0};
        g.loss.self = &g;
        EXPECT(train_graded(&g) != 0);
        expect_derivative(fixture_names[i], &r, train_graded, &g);
        tess_executor_destroy(&g.executor);
        rig_close(&r);
        fixture_close(&f);
    }
}

static void derivatives_of_rows_and_temperature_arrive_in_the_weights(void)
{
    expect_derivatives((tess_token_loss){.inv_temperature = 1, .grade = grade_rows});
    expect_derivatives((tess_token_loss){.inv_temperature = 1.5f, .grade = grade_rows});
    expect_derivatives((tess_token_loss){.inv_temperature = 0.4f, .whole = true, .grade = grade_rows});
}

static void derivatives_of_sequence_losses_arrive_in_the_weights(void)
{
    expect_derivatives((tess_token_loss){.inv_temperature = 1, .whole = true, .grade = grade_sequences});
    expect_derivatives((tess_token_loss){.inv_temperature = 0.8f, .whole = true, .grade = grade_sequences});
}

/* ---- Chunks ---- */

enum { LONG = 2500, LENGTH = 25 }; /* more rows than two chunks of the head */

typedef struct kept {
    tess_token_loss loss;
    int64_t next;
    int n_calls;
    int64_t row; /* number of the batch's first row among all */
    float *logprob, *entropy;
    float *dhead; /* sum of the head's gradients */
} kept;

static tess_status keep_and_grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                                  float *dlogprob, float *dentropy)
{
    kept *k = self;
    EXPECT_INT(begin, k->next);
    EXPECT(n > 0);
    k->next += n;
    k->n_calls++;
    memcpy(k->logprob + k->row + begin, logprob, (size_t)n * sizeof(float));
    memcpy(k->entropy + k->row + begin, entropy, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) { /* a function of the row's own values */
        dlogprob[i] = logprob[i] + 2;
        dentropy[i] = entropy[i] / 25 - 0.1f;
    }
    return TESS_OK;
}

static size_t head_size(const rig *r)
{
    return (size_t)tess_shape_count(&tess_model_param(r->model, r->n_params - 1)->shape);
}

static kept keep_rows(const rig *r, bool whole)
{
    kept k = {.loss = {.inv_temperature = 0.8f, .whole = whole, .grade = keep_and_grade}};
    k.logprob = test_alloc(LONG * sizeof(float));
    k.entropy = test_alloc(LONG * sizeof(float));
    k.dhead = test_alloc(head_size(r) * sizeof(float));
    return k;
}

static void train_kept(rig *r, const tess_batch *batch, kept *k)
{
    tess_executor *executor =
        rig_executor(r, (tess_executor_options){.max_tokens = LONG, .max_position = LENGTH, .train = true});
    float *logprob = test_alloc(LONG * sizeof(float));
    k->loss.self = k;
    for (int64_t begin = 0; begin < LONG; begin += batch->n_tokens) {
        tess_batch part = *batch;
        part.ids += begin;
        part.pos += begin;
        part.targets += begin;
        k->row = begin;
        k->next = 0;
        EXPECT_OK(tess_executor_train(executor, &part, &k->loss, logprob));
        EXPECT_INT(k->next, part.n_tokens);
        EXPECT_SAME(logprob, k->logprob + begin, (size_t)part.n_tokens);
        for (size_t i = 0; i < head_size(r); i++)
            k->dhead[i] += r->dw[r->n_params - 1][i];
    }
    test_free(logprob);
    tess_executor_destroy(&executor);
}

static void free_kept(kept *k)
{
    test_free(k->logprob);
    test_free(k->entropy);
    test_free(k->dhead);
}

/* The whole batch in chunks; in one pass before the chunks; and cut into sequences. */
static void chunks_of_the_head_change_no_bit(void)
{
    fixture f;
    fixture_open(&f, "llama");
    int32_t *ids = test_alloc(LONG * sizeof(int32_t)), *pos = test_alloc(LONG * sizeof(int32_t));
    int32_t *targets = test_alloc(LONG * sizeof(int32_t)), cu_seqlens[LONG / LENGTH + 1];
    for (int32_t t = 0; t < LONG; t++) {
        ids[t] = (int32_t)(tess_rng_u64(1, TESS_RNG_TEST, 0, (uint64_t)t) % 97);
        targets[t] = t % 6 == 0 ? -1 : (int32_t)(tess_rng_u64(1, TESS_RNG_TEST, 1, (uint64_t)t) % 97);
        pos[t] = t % LENGTH;
    }
    for (int32_t i = 0; i <= LONG / LENGTH; i++)
        cu_seqlens[i] = LENGTH * i;
    tess_batch batch = {LONG, LONG / LENGTH, ids, pos, targets, cu_seqlens, NULL, NULL}, sequence = batch;
    sequence.n_tokens = LENGTH;
    sequence.n_seqs = 1;
    for (int d = 0; d < 2; d++) {
        rig chunked, at_once, cut;
        rig_open(&chunked, &f.config, d == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        rig_open(&at_once, &f.config, chunked.dtype, NULL, 2);
        rig_open(&cut, &f.config, chunked.dtype, NULL, 1);
        kept chunks = keep_rows(&cut, false), whole = keep_rows(&cut, true), sequences = keep_rows(&cut, false);
        train_kept(&chunked, &batch, &chunks);
        train_kept(&at_once, &batch, &whole);
        train_kept(&cut, &sequence, &sequences);
        EXPECT_INT(chunks.n_calls, 3);
        EXPECT_INT(whole.n_calls, 1);
        expect_same_gradients(&at_once, &chunked);
        EXPECT_CLOSE(sequences.dhead, chunks.dhead, head_size(&cut), 1e-5, 0);
        EXPECT_SAME(whole.logprob, chunks.logprob, LONG);
        EXPECT_SAME(whole.entropy, chunks.entropy, LONG);
        EXPECT_SAME(sequences.logprob, chunks.logprob, LONG);
        EXPECT_SAME(sequences.entropy, chunks.entropy, LONG);
        free_kept(&chunks);
        free_kept(&whole);
        free_kept(&sequences);
        rig_close(&cut);
        rig_close(&at_once);
        rig_close(&chunked);
    }
    test_free(ids);
    test_free(pos);
    test_free(targets);
    fixture_close(&f);
}

/* ---- Edges ---- */

static tess_status grade_in_vain(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                                 float *dlogprob, float *dentropy)
{
    (void)begin, (void)n, (void)logprob, (void)entropy, (void)dlogprob, (void)dentropy;
    ++*(int *)self;
    return TESS_FAIL(TESS_E_NOT_FOUND, "sample 7 has no reward");
}

static void errors_come_back_and_empty_batches_are_not_graded(void)
{
    fixture f;
    fixture_open(&f, "llama");
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    tess_executor *executor = rig_executor(&r, training(&f));
    float out[MAX_T];
    int n_calls = 0;
    char want[96];
    snprintf(want, sizeof(want), "head: token loss: rows 0 to %d: sample 7 has no reward", (int)f.batch.n_tokens - 1);
    for (int whole = 0; whole < 2; whole++) {
        tess_token_loss loss = {&n_calls, 1, whole == 1, grade_in_vain};
        EXPECT_FAILS(tess_executor_train(executor, &f.batch, &loss, out), TESS_E_NOT_FOUND, want);
        EXPECT_INT(n_calls, whole + 1);
    }
    static const float wrong[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        tess_token_loss loss = {&n_calls, wrong[i], false, grade_in_vain};
        EXPECT_FAILS(tess_executor_train(executor, &f.batch, &loss, out), TESS_E_INVALID, "finite and above 0");
    }
    tess_batch empty = f.batch;
    empty.n_tokens = empty.n_seqs = 0;
    for (int whole = 0; whole < 2; whole++) {
        tess_token_loss loss = {&n_calls, 1, whole == 1, grade_in_vain};
        EXPECT_OK(tess_executor_train(executor, &empty, &loss, out));
        for (int p = 0; p < r.n_params; p++)
            for (int64_t k = 0; k < tess_shape_count(&tess_model_param(r.model, p)->shape); k++)
                EXPECT(r.dw[p][k] == 0);
    }
    EXPECT_INT(n_calls, 2);
    tess_executor_destroy(&executor);
    rig_close(&r);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(the_plain_loss_as_an_object_has_the_plain_bits),
    CASE(derivatives_of_rows_and_temperature_arrive_in_the_weights),
    CASE(derivatives_of_sequence_losses_arrive_in_the_weights),
    CASE(chunks_of_the_head_change_no_bit),
    CASE(errors_come_back_and_empty_batches_are_not_graded),
};
TEST_MAIN(cases)
