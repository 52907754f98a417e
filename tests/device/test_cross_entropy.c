/* Cross entropy with weights, temperature and entropy: against float64, in place and row by row, over every table. */
#include "elementwise_test.h"

#include "device/elementwise.h"

static const int64_t shapes[][2] = {{0, 7},  {1, 1},   {4, 2},    {3, 15},   {5, 16},   {2, 17},    {9, 31},   {6, 33},
                                    {3, 64}, {7, 100}, {2, 2048}, {3, 2049}, {4, 4097}, {17, 1031}, {3, 50257}};

typedef struct problem {
    int64_t n, V, ld, ldd;
    tess_dtype dtype;
    float inv_temperature, factor, soft_cap;
    float *logits;
    int32_t *targets;
    float *dlogprob, *dentropy; /* or NULL */
} problem;

typedef struct answer {
    float *logprob, *entropy;
    void *dlogits;
} answer;

static problem make_problem(int64_t n, int64_t V, tess_dtype dtype)
{
    problem p = {.n = n, .V = V, .ld = V + 3, .ldd = V + 5, .dtype = dtype, .inv_temperature = 1};
    p.logits = random_array(1, n * p.ld, 2, 4, TESS_F32);
    p.targets = new_array(n, 4);
    for (int64_t i = 0; i < n; i++)
        p.targets[i] = i % 5 == 3 ? -100 : (int32_t)(tess_rng_u64(7, TESS_RNG_TEST, 2, (uint64_t)i) % (uint64_t)V);
    return p;
}

/* A problem with weights; every third row has no term of the entropy. */
static problem make_graded_problem(int64_t n, int64_t V, tess_dtype dtype, float temperature)
{
    problem p = make_problem(n, V, dtype);
    p.inv_temperature = 1 / temperature;
    p.dlogprob = random_array(3, n, -0.3, 1, TESS_F32);
    p.dentropy = random_array(4, n, 0.1, 0.5, TESS_F32);
    for (int64_t i = 0; i < n; i += 3)
        p.dentropy[i] = 0;
    return p;
}

static void free_problem(problem *p)
{
    free(p->logits);
    free(p->targets);
    free(p->dlogprob);
    free(p->dentropy);
}

static tess_cross_entropy rows_of(const problem *p)
{
    return (tess_cross_entropy){.n = p->n,
                                .V = p->V,
                                .logits = p->logits,
                                .ld = p->ld,
                                .targets = p->targets,
                                .inv_temperature = p->inv_temperature,
                                .factor = p->factor,
                                .soft_cap = p->soft_cap,
                                .dlogprob = p->dlogprob,
                                .dentropy = p->dentropy,
                                .ldd = p->ldd,
                                .dtype = p->dtype};
}

static answer solve(tess_stream *s, const problem *p)
{
    answer a = {blank_array(p->n, TESS_F32), blank_array(p->n, TESS_F32), blank_array(p->n * p->ldd, p->dtype)};
    tess_cross_entropy rows = rows_of(p);
    rows.logprob = a.logprob;
    rows.entropy = a.entropy;
    rows.dlogits = a.dlogits;
    EXPECT_OK(tess_stream_kernels(s)->cross_entropy(s, &rows));
    return a;
}

static void free_answer(answer *a)
{
    free(a->logprob);
    free(a->entropy);
    free(a->dlogits);
}

/* The softmax of one row, in float64. */
typedef struct softmax64 {
    double largest, sum, logprob, entropy;
} softmax64;

/* Returns a logit over the temperature, and its derivative by the logit that is given. */
static double scaled(const problem *p, int64_t r, int64_t v)
{
    double z = (double)p->logits[r * p->ld + v] * (p->factor != 0 ? p->factor : 1);
    return (p->soft_cap != 0 ? p->soft_cap * tanh(z / p->soft_cap) : z) * (double)p->inv_temperature;
}

static double slope(const problem *p, int64_t r, int64_t v)
{
    double t = p->soft_cap != 0 ? scaled(p, r, v) / (double)p->inv_temperature / p->soft_cap : 0;
    return (1 - t * t) * (p->factor != 0 ? p->factor : 1) * p->inv_temperature;
}

static softmax64 softmax_of(const problem *p, int64_t r)
{
    softmax64 s = {-INFINITY, 0, 0, 0};
    double weighted = 0;
    for (int64_t i = 0; i < p->V; i++)
        s.largest = fmax(s.largest, scaled(p, r, i));
    for (int64_t i = 0; i < p->V; i++) {
        double d = scaled(p, r, i) - s.largest;
        s.sum += exp(d);
        weighted += exp(d) * d;
    }
    s.logprob = scaled(p, r, p->targets[r]) - s.largest - log(s.sum);
    s.entropy = log(s.sum) - weighted / s.sum;
    return s;
}

static double dlogit_of(const problem *p, const softmax64 *s, int64_t r, int64_t v)
{
    double g = p->dlogprob != NULL ? p->dlogprob[r] : -1, h = p->dentropy != NULL ? p->dentropy[r] : 0;
    double d = scaled(p, r, v) - s->largest, probability = exp(d) / s->sum;
    double information = d - log(s->sum) + s->entropy;
    return (g * ((v == p->targets[r]) - probability) - h * probability * information) * slope(p, r, v);
}

/* The error of a capped logit over the temperature: tanh is within 6 ulp, each of at most 2^-24. */
static double cap_error(const problem *p)
{
    return 4e-7 * (double)p->soft_cap * p->inv_temperature;
}

/* The error of float32 in a gradient's terms, which may cancel. */
static double dlogit_error(const problem *p, const softmax64 *s, int64_t r, int64_t v, double want)
{
    double g = p->dlogprob != NULL ? p->dlogprob[r] : -1, h = p->dentropy != NULL ? p->dentropy[r] : 0;
    double probability = exp(scaled(p, r, v) - s->largest) / s->sum;
    double terms = fabs(g) + 5 * fabs(h) * probability * (1 + s->entropy) * p->inv_temperature;
    double of_cap = p->soft_cap != 0 ? (cap_error(p) + 6e-7) * 2 : 0; /* errors of the probability and of the slope */
    return (p->dtype == TESS_F32 ? 1e-6 : 1.0 / 250) * fabs(want) +
           (3e-7 + of_cap) * terms * fmax(1, p->inv_temperature);
}

static void expect_float64(const problem *p, const answer *a)
{
    for (int64_t r = 0; r < p->n; r++) {
        bool live = p->targets[r] >= 0;
        softmax64 s = live ? softmax_of(p, r) : (softmax64){0, 1, 0, 0};
        double size = fmax(1, p->inv_temperature);
        expect_near("logprob", r, a->logprob[r], s.logprob, 3e-7 * fabs(s.logprob) + 1e-6 + 2 * cap_error(p));
        expect_near("entropy", r, a->entropy[r], s.entropy, 3e-6 * size + 2 * cap_error(p) * (1 + s.entropy));
        for (int64_t i = 0; i < p->V; i++) {
            double want = live ? dlogit_of(p, &s, r, i) : 0;
            double tolerance = live ? dlogit_error(p, &s, r, i, want) : 0;
            expect_near("dlogits", i, value_at(a->dlogits, r * p->ldd + i, p->dtype), want, tolerance);
        }
        for (int64_t i = p->V; i < p->ldd; i++) /* memory between the rows stays as it is */
            expect_near("gap", i, value_at(a->dlogits, r * p->ldd + i, p->dtype), -12345, 25);
    }
}

static void agrees_on(const problem *p)
{
    tess_stream *s = open_variant(0);
    answer want = solve(s, p);
    tess_stream_destroy(&s);
    expect_float64(p, &want);
    for (size_t v = 1; v < COUNT(variants); v++) {
        if ((s = open_variant(v)) == NULL)
            continue;
        answer a = solve(s, p);
        expect_bits("logprob", v, a.logprob, want.logprob, p->n, TESS_F32);
        expect_bits("entropy", v, a.entropy, want.entropy, p->n, TESS_F32);
        expect_bits("dlogits", v, a.dlogits, want.dlogits, p->n * p->ldd, p->dtype);
        free_answer(&a);
        tess_stream_destroy(&s);
    }
    free_answer(&want);
}

static void cross_entropy_agrees_with_float64_and_bit_for_bit_across_levels(void)
{
    for (size_t i = 0; i < COUNT(shapes) * 2; i++) {
        if (!test_takes())
            continue;
        problem p = make_problem(shapes[i / 2][0], shapes[i / 2][1], both_dtypes[i % 2]);
        agrees_on(&p);
        free_problem(&p);
    }
}

/* Capped logits are those of the row `scale`, so the same bits follow from them without a cap. */
static void expect_scale_first(const problem *p)
{
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        problem plain = *p;
        answer want = solve(s, p), a;
        plain.logits = copy_array(p->logits, p->n * p->ld, TESS_F32);
        plain.factor = plain.soft_cap = 0;
        const tess_scale_args scale = {.x = plain.logits,
                                       .factor = p->factor != 0 ? p->factor : 1,
                                       .soft_cap = p->soft_cap,
                                       .y = plain.logits,
                                       .n = p->n * p->ld,
                                       .dtype = TESS_F32};
        EXPECT_OK(tess_stream_kernels(s)->scale(s, &scale));
        a = solve(s, &plain);
        expect_bits("logprob of scaled logits", v, a.logprob, want.logprob, p->n, TESS_F32);
        expect_bits("entropy of scaled logits", v, a.entropy, want.entropy, p->n, TESS_F32);
        free_answer(&a);
        free_answer(&want);
        free(plain.logits);
        tess_stream_destroy(&s);
    }
}

static void scaled_and_soft_capped_logits_agree_with_float64_and_bit_for_bit_across_levels(void)
{
    static const float bends[][2] = {{0.0625f, 0}, {0, 5}, {1.7f, 30}};
    for (size_t i = 0; i < COUNT(shapes) * 2; i++)
        for (size_t b = 0; b < 2 * COUNT(bends); b++) {
            if (!test_takes())
                continue;
            const int64_t n = shapes[i / 2][0], V = shapes[i / 2][1];
            problem p = b % 2 == 0 ? make_problem(n, V, both_dtypes[i % 2])
                                   : make_graded_problem(n, V, both_dtypes[i % 2], 0.7f);
            p.factor = bends[b / 2][0];
            p.soft_cap = bends[b / 2][1];
            agrees_on(&p);
            if (V < 5000)
                expect_scale_first(&p);
            free_problem(&p);
        }
}

static const float temperatures[] = {0.1f, 0.7f, 1, 3, 10};

static void weights_temperature_and_entropy_agree_with_float64_and_bit_for_bit_across_levels(void)
{
    for (size_t i = 0; i < COUNT(shapes) * 2; i++)
        for (size_t t = 0; t < COUNT(temperatures); t++) {
            if (!test_takes())
                continue;
            problem p = make_graded_problem(shapes[i / 2][0], shapes[i / 2][1], both_dtypes[i % 2], temperatures[t]);
            agrees_on(&p);
            free_problem(&p);
        }
}

/* Central differences of the sum over rows of g logprob + h entropy, by formulas that know no derivative. */
static double graded_loss(const problem *p, int64_t r)
{
    softmax64 s = softmax_of(p, r);
    return (double)p->dlogprob[r] * s.logprob + (double)p->dentropy[r] * s.entropy;
}

static void the_gradient_is_the_derivative_of_logprob_and_entropy(void)
{
    static const int64_t small[][2] = {{3, 1}, {5, 2}, {9, 31}, {4, 97}};
    tess_stream *stream = open_variant(0);
    for (size_t i = 0; i < COUNT(small) * COUNT(temperatures) * 2; i++) {
        const int64_t *shape = small[i / 2 / COUNT(temperatures)];
        problem p = make_graded_problem(shape[0], shape[1], TESS_F32, temperatures[i / 2 % COUNT(temperatures)]);
        p.factor = i % 2 == 0 ? 0 : 0.8f;
        p.soft_cap = i % 2 == 0 ? 0 : 6;
        answer a = solve(stream, &p);
        for (int64_t r = 0; r < p.n; r++)
            for (int64_t v = 0; v < p.V && p.targets[r] >= 0; v++) {
                float *x = &p.logits[r * p.ld + v], at = *x,
                      step = 0x1p-12f; /* the rounded value of at + step is used */
                float high = at + step, low = at - step;
                *x = high;
                double above = graded_loss(&p, r);
                *x = low;
                double below = graded_loss(&p, r);
                *x = at;
                double want = (above - below) / ((double)high - (double)low), size = p.inv_temperature;
                expect_near("derivative", v, ((float *)a.dlogits)[r * p.ldd + v], want,
                            5e-6 * size * fmax(1, size * size));
            }
        free_answer(&a);
        free_problem(&p);
    }
    tess_stream_destroy(&stream);
}

/* -1, 0 and T = 1 for all rows are the loss without weights. */
static void weights_of_the_plain_loss_give_its_bits(void)
{
    for (size_t v = 0; v < COUNT(variants) * 2; v++) {
        tess_stream *s = open_variant(v / 2);
        if (s == NULL)
            continue;
        problem p = make_problem(7, 4097, both_dtypes[v % 2]);
        answer want = solve(s, &p);
        p.dlogprob = new_array(p.n, sizeof(float));
        p.dentropy = new_array(p.n, sizeof(float));
        for (int64_t i = 0; i < p.n; i++) {
            p.dlogprob[i] = -1;
            p.dentropy[i] = 0;
        }
        answer a = solve(s, &p);
        expect_bits("logprob", v / 2, a.logprob, want.logprob, p.n, TESS_F32);
        expect_bits("dlogits", v / 2, a.dlogits, want.dlogits, p.n * p.ldd, p.dtype);
        free_answer(&a);
        free_answer(&want);
        free_problem(&p);
        tess_stream_destroy(&s);
    }
}

/* Tables of tensor cores have the log-probabilities and entropies of all others. Their gradients are within float64's
 * bounds, and do not depend on where a row is in memory. */
static void tensor_tables_agree_with_float64(void)
{
    static const int64_t few[][2] = {{5, 16}, {3, 2049}, {2, 4104}};
    tess_stream *exact, *tensor;
    EXPECT_OK(cuda_shim_stream(test_mem(), false, &exact));
    EXPECT_OK(cuda_shim_stream(test_mem(), true, &tensor));
    for (size_t i = 0; i < COUNT(few) * 2 * 4; i++) {
        problem p = make_graded_problem(few[i / 8][0], few[i / 8][1], both_dtypes[i % 2], i / 2 % 2 == 0 ? 1 : 0.7f);
        p.soft_cap = i / 4 % 2 == 0 ? 0 : 5;
        answer want = solve(exact, &p), got = solve(tensor, &p);
        expect_bits("logprob", 0, got.logprob, want.logprob, p.n, TESS_F32);
        expect_bits("entropy", 0, got.entropy, want.entropy, p.n, TESS_F32);
        if (p.dtype == TESS_F32)
            expect_bits("dlogits in float32", 0, got.dlogits, want.dlogits, p.n * p.ldd, p.dtype);
        expect_float64(&p, &got);
        tess_cross_entropy row = rows_of(&p);
        const size_t size = tess_dtype_size(p.dtype), bytes = (size_t)p.V * size;
        for (int64_t r = 0; r < p.n; r++) {                                 /* aligned and not, then over the logits */
            const size_t room = (size_t)(p.V + 19) / 4 * 4 * sizeof(float); /* whole vectors of 16 bytes */
            float *logits = aligned_alloc(16, room);
            char *dlogits = aligned_alloc(16, room);
            EXPECT(logits != NULL && dlogits != NULL);
            row.n = 1;
            row.targets = p.targets + r;
            row.dlogprob = p.dlogprob + r;
            row.dentropy = p.dentropy + r;
            for (int off = 0; off < 3; off++) {
                float *const x = logits + off % 2;
                memcpy(x, p.logits + r * p.ld, (size_t)p.V * sizeof(float));
                row.logits = x;
                row.dlogits = off == 2 ? (void *)x : dlogits + (size_t)off * size;
                EXPECT_OK(tess_stream_kernels(tensor)->cross_entropy(tensor, &row));
                EXPECT(memcmp(row.dlogits, (char *)got.dlogits + (size_t)(r * p.ldd) * size, bytes) == 0);
            }
            free(logits);
            free(dlogits);
        }
        free_answer(&want);
        free_answer(&got);
        free_problem(&p);
    }
    tess_stream_destroy(&exact);
    tess_stream_destroy(&tensor);
}

/* A masked logit has no gradient, also where a whole chunk is masked. All gradients of a row with a NaN are NaN, and
 * those of other rows are not. */
static void tensor_tables_keep_masked_and_nan_logits_in_their_row(void)
{
    enum { V = 2 * TESS_SOFTMAX_CHUNK + 24, WITH_NAN = 1 /* its row */ };
    tess_stream *exact, *tensor;
    EXPECT_OK(cuda_shim_stream(test_mem(), false, &exact));
    EXPECT_OK(cuda_shim_stream(test_mem(), true, &tensor));
    for (int i = 0; i < 4; i++) {
        problem p = make_graded_problem(3, V, TESS_BF16, 0.7f);
        p.ld = p.ldd = V + i % 2; /* rows that are aligned, and rows that are not */
        for (int64_t v = 0; v < V; v++)
            if (v < TESS_SOFTMAX_CHUNK || v % 3 == 0)
                p.logits[v] = -INFINITY;
        p.targets[0] = V - 2; /* is not masked */
        p.logits[WITH_NAN * p.ld + TESS_SOFTMAX_CHUNK + 5] = NAN;
        for (int64_t r = 0; r < p.n; r++)
            p.dentropy[r] = i / 2 == 0 ? 0 : 0.5f;
        answer want = solve(exact, &p), got = solve(tensor, &p);
        expect_bits("logprob", 0, got.logprob, want.logprob, p.n, TESS_F32);
        expect_bits("entropy", 0, got.entropy, want.entropy, p.n, TESS_F32);
        for (int64_t r = 0; r < p.n; r++)
            for (int64_t v = 0; v < V; v++) {
                const float x = (float)value_at(want.dlogits, r * p.ldd + v, p.dtype);
                const float y = (float)value_at(got.dlogits, r * p.ldd + v, p.dtype);
                EXPECT(r == WITH_NAN ? isnan(y) : isfinite(y));
                if (isinf(p.logits[r * p.ld + v]))
                    EXPECT(y == 0);
                else if (r != WITH_NAN)
                    expect_near("dlogits", v, y, x, fabs(x) / 100 + 1e-6);
            }
        free_answer(&want);
        free_answer(&got);
        free_problem(&p);
    }
    tess_stream_destroy(&exact);
    tess_stream_destroy(&tensor);
}

/* Over the logits' own memory; rows one by one; no gradient at all: always the same bits. */
static void in_place_as(tess_stream *s, size_t v, const problem *p)
{
    answer want = solve(s, p);
    int64_t ldd = p->ld * (int64_t)(sizeof(float) / tess_dtype_size(p->dtype));
    float *logprob = blank_array(p->n, TESS_F32), *over = copy_array(p->logits, p->n * p->ld, TESS_F32);
    tess_cross_entropy rows = rows_of(p);
    rows.logprob = logprob;
    EXPECT_OK(tess_stream_kernels(s)->cross_entropy(s, &rows));
    expect_bits("logprob alone", v, logprob, want.logprob, p->n, TESS_F32);
    for (int64_t r = 0; r < p->n; r++) {
        tess_cross_entropy row = rows;
        row.n = 1;
        row.logits = row.dlogits = over + r * p->ld;
        row.targets += r;
        row.logprob += r;
        row.dlogprob = p->dlogprob != NULL ? p->dlogprob + r : NULL;
        row.dentropy = p->dentropy != NULL ? p->dentropy + r : NULL;
        row.ldd = ldd;
        EXPECT_OK(tess_stream_kernels(s)->cross_entropy(s, &row));
    }
    expect_bits("logprob by rows", v, logprob, want.logprob, p->n, TESS_F32);
    for (int64_t r = 0; r < p->n; r++)
        expect_bits("dlogits in place", v, over + r * p->ld,
                    (char *)want.dlogits + (size_t)(r * p->ldd) * tess_dtype_size(p->dtype), p->V, p->dtype);
    free(logprob);
    free(over);
    free_answer(&want);
}

static void gradients_in_place_and_row_by_row_have_the_same_bits(void)
{
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        for (size_t d = 0; d < COUNT(both_dtypes); d++) {
            problem plain = make_problem(9, 1003, both_dtypes[d]);
            problem graded = make_graded_problem(9, 5003, both_dtypes[d], 0.8f);
            in_place_as(s, v, &plain);
            in_place_as(s, v, &graded);
            plain.soft_cap = graded.soft_cap = 4;
            in_place_as(s, v, &plain);
            in_place_as(s, v, &graded);
            free_problem(&plain);
            free_problem(&graded);
        }
        tess_stream_destroy(&s);
    }
}

/* Masked logits are nothing, in the entropy's gradient too; a NaN shows in its own row only. */
static void masked_and_nan_logits_stay_in_their_row(void)
{
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        float logits[3][20], logprob[3], entropy[3], dlogits[3][20];
        for (int i = 0; i < 20; i++) {
            logits[0][i] = i < 2 ? 1e30f : -INFINITY;
            logits[1][i] = i == 19 ? NAN : 1;
            logits[2][i] = i == 4 ? 200 : -200;
        }
        const int32_t targets[3] = {1, 0, 4};
        tess_cross_entropy rows = {.n = 3,
                                   .V = 20,
                                   .logits = logits[0],
                                   .ld = 20,
                                   .targets = targets,
                                   .inv_temperature = 1,
                                   .logprob = logprob,
                                   .entropy = entropy,
                                   .dlogits = dlogits,
                                   .ldd = 20,
                                   .dtype = TESS_F32};
        EXPECT_OK(tess_stream_kernels(s)->cross_entropy(s, &rows));
        expect_near("logprob", 0, logprob[0], -M_LN2, 1e-7);
        expect_near("entropy", 0, entropy[0], M_LN2, 1e-7);
        EXPECT(dlogits[0][0] == 0.5f && dlogits[0][1] == -0.5f && dlogits[0][2] == 0);
        EXPECT(isnan(logprob[1]) && isnan(entropy[1]) && isnan(dlogits[1][0]));
        EXPECT(logprob[2] == 0 && entropy[2] == 0 && dlogits[2][4] == 0 && dlogits[2][5] == 0);
        rows.inv_temperature = 4;
        rows.dlogprob = rows.dentropy = (const float[]){-1, -1, -1};
        EXPECT_OK(tess_stream_kernels(s)->cross_entropy(s, &rows));
        EXPECT(logprob[0] == entropy[0] * -1 && dlogits[0][0] == 2 && dlogits[0][1] == -2 && dlogits[0][2] == 0);
        EXPECT(isnan(dlogits[1][0]) && dlogits[2][4] == 0 && dlogits[2][5] == 0);
        rows.soft_cap = 50;
        EXPECT_OK(tess_stream_kernels(s)->cross_entropy(s, &rows));
        EXPECT(logprob[0] == entropy[0] * -1 && dlogits[0][2] == 0 && isnan(dlogits[1][0]));
        tess_stream_destroy(&s);
    }
}

static void a_temperature_or_dtype_that_is_not_there_is_refused(void)
{
    static const float wrong[] = {0, -1, NAN, INFINITY};
    float logits[2] = {1, 2}, logprob = 0;
    int32_t target = 1;
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        tess_cross_entropy rows = {
            .n = 1, .V = 2, .logits = logits, .ld = 2, .targets = &target, .logprob = &logprob, .dtype = TESS_F32};
        for (size_t i = 0; i < COUNT(wrong); i++) {
            rows.inv_temperature = wrong[i];
            EXPECT_FAILS(tess_stream_kernels(s)->cross_entropy(s, &rows), TESS_E_INVALID, "must be finite and above 0");
        }
        rows.inv_temperature = 1;
        for (size_t i = 1; i < COUNT(wrong); i++) {
            rows.factor = wrong[i];
            EXPECT_FAILS(tess_stream_kernels(s)->cross_entropy(s, &rows), TESS_E_INVALID, "a factor of");
            rows.factor = 1;
            rows.soft_cap = wrong[i];
            EXPECT_FAILS(tess_stream_kernels(s)->cross_entropy(s, &rows), TESS_E_INVALID, "a soft cap of");
            rows.soft_cap = 0;
        }
        rows.dtype = TESS_U8;
        EXPECT_FAILS(tess_stream_kernels(s)->cross_entropy(s, &rows), TESS_E_UNSUPPORTED, "uint8");
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    CASE(cross_entropy_agrees_with_float64_and_bit_for_bit_across_levels),
    CASE(scaled_and_soft_capped_logits_agree_with_float64_and_bit_for_bit_across_levels),
    CASE(weights_temperature_and_entropy_agree_with_float64_and_bit_for_bit_across_levels),
    CASE(the_gradient_is_the_derivative_of_logprob_and_entropy),
    CASE(weights_of_the_plain_loss_give_its_bits),
    CASE(tensor_tables_agree_with_float64),
    CASE(tensor_tables_keep_masked_and_nan_logits_in_their_row),
    CASE(gradients_in_place_and_row_by_row_have_the_same_bits),
    CASE(masked_and_nan_logits_stay_in_their_row),
    CASE(a_temperature_or_dtype_that_is_not_there_is_refused),
};

TEST_MAIN(cases)
