/* RMSNorm, Gemma's form of it, and LayerNorm: against float64, rows on their own, outputs over the residual, one result
 * on every table. */
#include "elementwise_test.h"

static const int64_t shapes[][2] = {{0, 16}, {1, 1},   {2, 15}, {3, 16},  {31, 17},  {32, 31}, {33, 33},
                                    {5, 63}, {65, 64}, {2, 65}, {7, 100}, {64, 127}, {3, 521}, {97, 1031}};

/* The norms, and factors of the residual sum that they are tested with. */
typedef enum form { RMS, RMS_ONE_PLUS, LAYER } form;
static const float factors[] = {0, 0.22f, 0};

typedef struct problem {
    int64_t T, C;
    tess_dtype dtype;
    form form;
    void *x, *residual, *w, *b, *dy, *dresidual;
} problem;

typedef struct answer {
    void *h, *y, *dx, *dbranch;
    float *mean, *rstd, *dw, *db;
} answer;

static const float eps = 1e-5f;

static double factor_of(const problem *p)
{
    return factors[p->form] != 0 ? (double)factors[p->form] : 1;
}

static problem make_problem(int64_t T, int64_t C, tess_dtype dtype, form form)
{
    return (problem){T,
                     C,
                     dtype,
                     form,
                     random_array(1, T * C, 0.3, 1.0, dtype),
                     random_array(2, T * C, -0.1, 0.5, dtype),
                     random_array(3, C, 1.0, 0.2, dtype),
                     random_array(4, C, 0.0, 0.3, dtype),
                     random_array(5, T * C, 0.0, 1.0, dtype),
                     random_array(6, T * C, 0.0, 0.2, dtype)};
}

static void free_problem(problem *p)
{
    void *all[] = {p->x, p->residual, p->w, p->b, p->dy, p->dresidual};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static void free_answer(answer *a)
{
    void *all[] = {a->h, a->y, a->dx, a->dbranch, a->mean, a->rstd, a->dw, a->db};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static answer solve(tess_stream *s, const problem *p)
{
    int64_t n = p->T * p->C;
    answer a = {blank_array(n, p->dtype),    blank_array(n, p->dtype),    blank_array(n, p->dtype),
                blank_array(n, p->dtype),    blank_array(p->T, TESS_F32), blank_array(p->T, TESS_F32),
                blank_array(p->C, TESS_F32), blank_array(p->C, TESS_F32)};
    const tess_kernels *k = tess_stream_kernels(s);
    const tess_norm_args forward = {.x = p->x,
                                    .residual = p->residual,
                                    .h_out = a.h,
                                    .w = p->w,
                                    .b = p->b,
                                    .y = a.y,
                                    .mean = a.mean,
                                    .rstd = a.rstd,
                                    .T = p->T,
                                    .C = p->C,
                                    .eps = eps,
                                    .factor = factors[p->form],
                                    .one_plus_w = p->form == RMS_ONE_PLUS,
                                    .dtype = p->dtype};
    const tess_norm_grad_args backward = {.h = a.h,
                                          .w = p->w,
                                          .mean = a.mean,
                                          .rstd = a.rstd,
                                          .dy = p->dy,
                                          .dresidual = p->dresidual,
                                          .dx = a.dx,
                                          .dbranch = a.dbranch,
                                          .factor = factors[p->form],
                                          .one_plus_w = p->form == RMS_ONE_PLUS,
                                          .dw = a.dw,
                                          .db = a.db,
                                          .T = p->T,
                                          .C = p->C,
                                          .dtype = p->dtype};
    EXPECT_OK(p->form == LAYER ? k->layernorm_forward(s, &forward) : k->rmsnorm_forward(s, &forward));
    EXPECT_OK(p->form == LAYER ? k->layernorm_backward(s, &backward) : k->rmsnorm_backward(s, &backward));
    return a;
}

/* Returns the factor of element i. */
static double weight_at(const problem *p, int64_t i)
{
    return value_at(p->w, i, p->dtype) + (p->form == RMS_ONE_PLUS ? 1 : 0);
}

/* Forward and backward in float64 from the h that the kernel rounded. */
static void expect_float64(const problem *p, const answer *a)
{
    double *dw = calloc((size_t)p->C, sizeof(double)), *db = calloc((size_t)p->C, sizeof(double));
    double *size_dw = calloc((size_t)p->C, sizeof(double));
    EXPECT(dw != NULL && db != NULL && size_dw != NULL);
    for (int64_t t = 0; t < p->T; t++) {
        int64_t row = t * p->C;
        double mean = 0, square = 0, along_one = 0, along_xhat = 0, largest = 0;
        for (int64_t i = 0; i < p->C; i++) {
            double want = factor_of(p) * value_at(p->x, row + i, p->dtype) + value_at(p->residual, row + i, p->dtype);
            expect_near("h", row + i, value_at(a->h, row + i, p->dtype), want, allowed(want, p->dtype));
            mean += p->form == LAYER ? value_at(a->h, row + i, p->dtype) / (double)p->C : 0;
        }
        for (int64_t i = 0; i < p->C; i++)
            square += pow(value_at(a->h, row + i, p->dtype) - mean, 2) / (double)p->C;
        double rstd = 1 / sqrt(square + (double)eps);
        expect_near("rstd", t, a->rstd[t], rstd, allowed(rstd, TESS_F32));
        for (int64_t i = 0; i < p->C; i++) {
            double xhat = (value_at(a->h, row + i, p->dtype) - mean) * rstd, w = weight_at(p, i);
            double b = p->form == LAYER ? value_at(p->b, i, p->dtype) : 0, dy = value_at(p->dy, row + i, p->dtype);
            expect_near("y", row + i, value_at(a->y, row + i, p->dtype), xhat * w + b,
                        (p->form == RMS_ONE_PLUS ? 1 : 2) * allowed(fabs(xhat * w) + fabs(b), p->dtype) +
                            1e-6 * fabs(mean) * rstd);
            along_one += p->form == LAYER ? dy * w / (double)p->C : 0;
            along_xhat += dy * w * xhat / (double)p->C;
            largest = fmax(largest, fabs(dy * w) * (1 + fabs(xhat)));
            dw[i] += dy * xhat;
            db[i] += dy;
            size_dw[i] += fabs(dy) * (fabs(xhat) + fabs(mean) * rstd + 1);
        }
        for (int64_t i = 0; i < p->C; i++) {
            double xhat = (value_at(a->h, row + i, p->dtype) - mean) * rstd;
            double dh = value_at(p->dy, row + i, p->dtype) * weight_at(p, i);
            double added = value_at(p->dresidual, row + i, p->dtype);
            double want = (dh - along_one - xhat * along_xhat) * rstd + added;
            expect_near("dx", row + i, value_at(a->dx, row + i, p->dtype), want,
                        allowed(want, p->dtype) + 3e-6 * largest * rstd * (1 + fabs(xhat)));
            expect_near("dbranch", row + i, value_at(a->dbranch, row + i, p->dtype), factor_of(p) * want,
                        factor_of(p) * (allowed(want, p->dtype) + 3e-6 * largest * rstd * (1 + fabs(xhat))));
        }
    }
    for (int64_t i = 0; i < p->C; i++) {
        expect_near("dw", i, a->dw[i], dw[i], 3e-6 * size_dw[i] + 1e-7);
        if (p->form == LAYER)
            expect_near("db", i, a->db[i], db[i], 3e-6 * size_dw[i] + 1e-7);
    }
    free(dw);
    free(db);
    free(size_dw);
}

static void expect_same_answer(const problem *p, size_t v, const answer *a, const answer *want)
{
    int64_t n = p->T * p->C;
    expect_bits("h", v, a->h, want->h, n, p->dtype);
    expect_bits("y", v, a->y, want->y, n, p->dtype);
    expect_bits("rstd", v, a->rstd, want->rstd, p->T, TESS_F32);
    expect_bits("mean", v, a->mean, want->mean, p->T, TESS_F32);
    expect_bits("dx", v, a->dx, want->dx, n, p->dtype);
    expect_bits("dbranch", v, a->dbranch, want->dbranch, n, p->dtype);
    expect_bits("dw", v, a->dw, want->dw, p->C, TESS_F32);
    expect_bits("db", v, a->db, want->db, p->C, TESS_F32);
}

static void run_all_shapes(form form)
{
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t d = 0; d < COUNT(both_dtypes); d++) {
            problem p = make_problem(shapes[i][0], shapes[i][1], both_dtypes[d], form);
            tess_stream *s = open_variant(0);
            answer want = solve(s, &p);
            tess_stream_destroy(&s);
            expect_float64(&p, &want);
            for (size_t v = 1; v < COUNT(variants); v++) {
                if ((s = open_variant(v)) == NULL)
                    continue;
                answer a = solve(s, &p);
                expect_same_answer(&p, v, &a, &want);
                free_answer(&a);
                tess_stream_destroy(&s);
            }
            free_answer(&want);
            free_problem(&p);
        }
    }
}

static void rmsnorm_agrees_with_float64_and_bit_for_bit_across_levels(void)
{
    run_all_shapes(RMS);
}

static void one_plus_w_and_a_factor_of_x_agree_with_float64_and_bit_for_bit_across_levels(void)
{
    run_all_shapes(RMS_ONE_PLUS);
}

static void layernorm_agrees_with_float64_and_bit_for_bit_across_levels(void)
{
    run_all_shapes(LAYER);
}

/* A row computed alone has the bits that it has among others. */
static void a_row_alone_has_the_bits_it_has_among_others(void)
{
    const int64_t T = 37, C = 203;
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        for (size_t d = 0; s != NULL && d < 3 * COUNT(both_dtypes); d++) {
            problem all = make_problem(T, C, both_dtypes[d / 3], (form)(d % 3));
            answer together = solve(s, &all);
            for (int64_t t = 0; t < T; t += 9) {
                problem one = all;
                one.T = 1;
                one.x = (void *)row_at(all.x, t * C, all.dtype);
                one.residual = (void *)row_at(all.residual, t * C, all.dtype);
                one.dy = (void *)row_at(all.dy, t * C, all.dtype);
                one.dresidual = (void *)row_at(all.dresidual, t * C, all.dtype);
                answer alone = solve(s, &one);
                expect_bits("y alone", v, alone.y, row_at(together.y, t * C, all.dtype), C, all.dtype);
                expect_bits("dx alone", v, alone.dx, row_at(together.dx, t * C, all.dtype), C, all.dtype);
                free_answer(&alone);
            }
            free_answer(&together);
            free_problem(&all);
        }
        tess_stream_destroy(&s);
    }
}

/* h_out over the residual, dresidual over dx, and no optional argument at all. */
static void outputs_may_lie_over_the_residual(void)
{
    const int64_t T = 33, C = 71;
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        problem p = make_problem(T, C, TESS_BF16, RMS);
        answer want = solve(s, &p);
        void *residual = copy_array(p.residual, T * C, p.dtype), *dx = copy_array(p.dresidual, T * C, p.dtype);
        void *y = blank_array(T * C, p.dtype);
        EXPECT_OK(tess_stream_kernels(s)->rmsnorm_forward(s, &(tess_norm_args){.x = p.x,
                                                                               .residual = residual,
                                                                               .h_out = residual,
                                                                               .w = p.w,
                                                                               .y = y,
                                                                               .T = T,
                                                                               .C = C,
                                                                               .eps = eps,
                                                                               .dtype = p.dtype}));
        expect_bits("h over residual", v, residual, want.h, T * C, p.dtype);
        expect_bits("y", v, y, want.y, T * C, p.dtype);
        EXPECT_OK(tess_stream_kernels(s)->rmsnorm_backward(s, &(tess_norm_grad_args){.h = want.h,
                                                                                     .w = p.w,
                                                                                     .rstd = want.rstd,
                                                                                     .dy = p.dy,
                                                                                     .dresidual = dx,
                                                                                     .dx = dx,
                                                                                     .T = T,
                                                                                     .C = C,
                                                                                     .dtype = p.dtype}));
        expect_bits("dx over dresidual", v, dx, want.dx, T * C, p.dtype);
        EXPECT_OK(tess_stream_kernels(s)->rmsnorm_forward(
            s, &(tess_norm_args){.x = want.h, .w = p.w, .y = y, .T = T, .C = C, .eps = eps, .dtype = p.dtype}));
        expect_bits("y without residual", v, y, want.y, T * C, p.dtype);
        free(residual);
        free(dx);
        free(y);
        free_answer(&want);
        free_problem(&p);
        tess_stream_destroy(&s);
    }
}

static void no_tokens_give_zero_weight_gradients_and_float16_is_refused(void)
{
    for (size_t v = 0; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s == NULL)
            continue;
        float dw[3] = {1, 2, 3}, db[3] = {1, 2, 3}, zero[3] = {0};
        EXPECT_OK(tess_stream_kernels(s)->layernorm_backward(s, &(tess_norm_grad_args){.h = dw,
                                                                                       .w = dw,
                                                                                       .mean = dw,
                                                                                       .rstd = dw,
                                                                                       .dy = dw,
                                                                                       .dx = dw,
                                                                                       .dw = dw,
                                                                                       .db = db,
                                                                                       .T = 0,
                                                                                       .C = 3,
                                                                                       .dtype = TESS_F32}));
        EXPECT_SAME(dw, zero, 3);
        EXPECT_SAME(db, zero, 3);
        EXPECT_FAILS(tess_stream_kernels(s)->rmsnorm_forward(
                         s, &(tess_norm_args){.x = dw, .w = dw, .y = dw, .T = 1, .C = 3, .eps = eps, .dtype = TESS_U8}),
                     TESS_E_UNSUPPORTED, "uint8");
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {
    CASE(rmsnorm_agrees_with_float64_and_bit_for_bit_across_levels),
    CASE(one_plus_w_and_a_factor_of_x_agree_with_float64_and_bit_for_bit_across_levels),
    CASE(layernorm_agrees_with_float64_and_bit_for_bit_across_levels),
    CASE(a_row_alone_has_the_bits_it_has_among_others),
    CASE(outputs_may_lie_over_the_residual),
    CASE(no_tokens_give_zero_weight_gradients_and_float16_is_refused),
};

TEST_MAIN(cases)
