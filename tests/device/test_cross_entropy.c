#include "elementwise_test.h"

static const int64_t shapes[][2] = {{0, 7},  {1, 1},   {4, 2},    {3, 15},   {5, 16},   {2, 17},    {9, 31},   {6, 33},
                                    {3, 64}, {7, 100}, {2, 2048}, {3, 2049}, {4, 4097}, {17, 1031}, {3, 50257}};

typedef struct problem {
    int64_t n, V, ld, ldd;
    tess_dtype dtype;
    float *logits;
    int32_t *targets;
} problem;

typedef struct answer {
    float *logprob, *entropy;
    void *dlogits;
} answer;

static problem make_problem(int64_t n, int64_t V, tess_dtype dtype)
{
    problem p = {n, V, V + 3, V + 5, dtype, random_array(1, n * (V + 3), 2, 4, TESS_F32), new_array(n, 4)};
    for (int64_t i = 0; i < n; i++)
        p.targets[i] = i % 5 == 3 ? -100 : (int32_t)(tess_rng_u64(7, TESS_RNG_TEST, 2, (uint64_t)i) % (uint64_t)V);
    return p;
}

static answer solve(tess_stream *s, const problem *p)
{
    answer a = {blank_array(p->n, TESS_F32), blank_array(p->n, TESS_F32), blank_array(p->n * p->ldd, p->dtype)};
    EXPECT_OK(s->kernels->cross_entropy(s, p->logits, p->ld, p->targets, a.logprob, a.entropy, a.dlogits, p->ldd, p->n,
                                        p->V, p->dtype));
    return a;
}

static void free_answer(answer *a)
{
    free(a->logprob);
    free(a->entropy);
    free(a->dlogits);
}

static void expect_float64(const problem *p, const answer *a)
{
    for (int64_t r = 0; r < p->n; r++) {
        const float *x = p->logits + r * p->ld;
        bool live = p->targets[r] >= 0;
        double largest = -INFINITY, sum = 0, weighted = 0;
        for (int64_t i = 0; i < p->V; i++)
            largest = fmax(largest, x[i]);
        for (int64_t i = 0; i < p->V; i++) {
            sum += exp(x[i] - largest);
            weighted += exp(x[i] - largest) * (x[i] - largest);
        }
        double logprob = live ? x[p->targets[r]] - largest - log(sum) : 0;
        expect_near("logprob", r, a->logprob[r], logprob, 3e-7 * fabs(logprob) + 1e-6);
        expect_near("entropy", r, a->entropy[r], live ? log(sum) - weighted / sum : 0, 3e-6);
        for (int64_t i = 0; i < p->V; i++) {
            double want = live ? exp(x[i] - largest) / sum - (i == p->targets[r]) : 0;
            double tolerance = live ? (p->dtype == TESS_F32 ? 1e-6 : 1.0 / 250) * fabs(want) + 3e-7 : 0;
            expect_near("dlogits", i, value_at(a->dlogits, r * p->ldd + i, p->dtype), want, tolerance);
        }
        for (int64_t i = p->V; i < p->ldd; i++) /* what lies between the rows is left alone */
            expect_near("gap", i, value_at(a->dlogits, r * p->ldd + i, p->dtype), -12345, 25);
    }
}

static void agrees(void)
{
    for (size_t i = 0; i < COUNT(shapes) * 2; i++) {
        problem p = make_problem(shapes[i / 2][0], shapes[i / 2][1], both_dtypes[i % 2]);
        tess_stream *s = open_variant(0);
        answer want = solve(s, &p);
        tess_stream_destroy(&s);
        expect_float64(&p, &want);
        for (size_t v = 1; v < COUNT(variants); v++) {
            if ((s = open_variant(v)) == NULL)
                continue;
            answer a = solve(s, &p);
            expect_bits("logprob", v, a.logprob, want.logprob, p.n, TESS_F32);
            expect_bits("entropy", v, a.entropy, want.entropy, p.n, TESS_F32);
            expect_bits("dlogits", v, a.dlogits, want.dlogits, p.n * p.ldd, p.dtype);
            free_answer(&a);
            tess_stream_destroy(&s);
        }
        free_answer(&want);
        free(p.logits);
        free(p.targets);
    }
}

/* Over the logits' own memory; rows one by one; no gradient at all: always the same bits. */
static void in_place_as(tess_stream *s, size_t v, tess_dtype dtype)
{
    problem p = make_problem(9, 1003, dtype);
    answer want = solve(s, &p);
    int64_t ldd = p.ld * (int64_t)(sizeof(float) / tess_dtype_size(dtype));
    float *logprob = blank_array(p.n, TESS_F32), *over = copy_array(p.logits, p.n * p.ld, TESS_F32);
    EXPECT_OK(s->kernels->cross_entropy(s, p.logits, p.ld, p.targets, logprob, NULL, NULL, 0, p.n, p.V, dtype));
    expect_bits("logprob alone", v, logprob, want.logprob, p.n, TESS_F32);
    for (int64_t r = 0; r < p.n; r++)
        EXPECT_OK(s->kernels->cross_entropy(s, over + r * p.ld, p.ld, p.targets + r, logprob + r, NULL, over + r * p.ld,
                                            ldd, 1, p.V, dtype));
    expect_bits("logprob by rows", v, logprob, want.logprob, p.n, TESS_F32);
    for (int64_t r = 0; r < p.n; r++)
        expect_bits("dlogits in place", v, over + r * p.ld,
                    (char *)want.dlogits + (size_t)(r * p.ldd) * tess_dtype_size(dtype), p.V, dtype);
    free(logprob);
    free(over);
    free_answer(&want);
    free(p.logits);
    free(p.targets);
}

static void in_place(void)
{
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        in_place_as(s, v, TESS_F32);
        in_place_as(s, v, TESS_BF16);
        tess_stream_destroy(&s);
    }
}

/* Masked logits are nothing; a NaN shows in its own row only. */
static void extremes(void)
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
        EXPECT_OK(s->kernels->cross_entropy(s, logits[0], 20, targets, logprob, entropy, dlogits, 20, 3, 20, TESS_F32));
        expect_near("logprob", 0, logprob[0], -M_LN2, 1e-7);
        expect_near("entropy", 0, entropy[0], M_LN2, 1e-7);
        EXPECT(dlogits[0][0] == 0.5f && dlogits[0][1] == -0.5f && dlogits[0][2] == 0);
        EXPECT(isnan(logprob[1]) && isnan(entropy[1]) && isnan(dlogits[1][0]));
        EXPECT(logprob[2] == 0 && entropy[2] == 0 && dlogits[2][4] == 0 && dlogits[2][5] == 0);
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    {"cross_entropy_agrees_with_float64_and_bit_for_bit_across_levels", agrees, 0, 0},
    {"gradients_in_place_and_row_by_row_have_the_same_bits", in_place, 0, 0},
    {"masked_and_nan_logits_stay_in_their_row", extremes, 0, 0},
};

TEST_MAIN(cases)
