/* Batch invariance is found where it is, and what breaks it is named. */
#include "verify/invariance.h"

#include <math.h>
#include <stdlib.h>

#include "base/text/json.h"
#include "support/test.h"

static tess_invariance_result *result_make(void)
{
    void *block = NULL;
    EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, sizeof(tess_invariance_result), "result", &block));
    return block;
}

static const tess_invariance_row *find(const tess_invariance_result *r, const char *name, const char *shape)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->rows[i].name, name) == 0 && strstr(r->rows[i].shape, shape) != NULL)
            return &r->rows[i];
    test_fail(__FILE__, __LINE__, "no row %s (%s)", name, shape);
}

static int changed(const tess_invariance_result *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += r->rows[i].different > 0 || r->rows[i].spills;
    return n;
}

static void rows_of_the_best_table_depend_on_nothing_but_themselves(void)
{
    static const char *const rows[] = {"gemm",
                                       "gemm_fused",
                                       "gemm_grouped",
                                       "attention_forward",
                                       "attention_backward",
                                       "rmsnorm_forward",
                                       "rmsnorm_backward",
                                       "layernorm_forward",
                                       "layernorm_backward",
                                       "rope",
                                       "glu_forward",
                                       "glu_backward",
                                       "act_forward",
                                       "act_backward",
                                       "add",
                                       "embedding_forward",
                                       "embedding_backward",
                                       "column_sum",
                                       "cross_entropy",
                                       "adamw",
                                       "convert",
                                       "reduce",
                                       "copy_rows",
                                       "gather_rows",
                                       "row_sumsq"};
    const tess_kernels *best;
    tess_invariance_result *r = result_make();
    EXPECT_OK(tess_kernels_select(NULL, &best));
    EXPECT_OK(tess_invariance_check_table(test_mem(), best, 2, NULL, NULL, r));
    for (int i = 0; i < r->n; i++)
        if (r->rows[i].different > 0 || r->rows[i].spills)
            test_fail(__FILE__, __LINE__, "%s (%s): item %d of a batch of %d, output %s[%lld] is %g, alone %g",
                      r->rows[i].name, r->rows[i].shape, r->rows[i].first.item, r->rows[i].first.batch,
                      r->rows[i].first.output, (long long)r->rows[i].first.element, r->rows[i].first.together,
                      r->rows[i].first.alone);
    EXPECT(tess_invariance_holds(r));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        EXPECT(find(r, rows[i], "")->cases >= TESS_INVARIANCE_ITEMS);
    find(r, "cross_entropy", "V 50000");
    tess_mem_free(test_mem(), r);
}

/* ---- Rows that are not invariant ---- */
static tess_kernels good;

static tess_status add_in_crowds(tess_stream *s, const tess_add_args *a)
{
    TESS_TRY(good.add(s, a));
    if (a->n == 7 * 203 && a->dtype == TESS_F32)
        ((float *)a->y)[3 * 203 + 11] += 1;
    return TESS_OK;
}

/* A product with 0 lets through what its neighbour has of NaN alone. */
static tess_status act_with_neighbours(tess_stream *s, const tess_act_args *a)
{
    TESS_TRY(good.act_forward(s, a));
    for (int64_t i = 0; i + 203 < a->n && a->dtype == TESS_F32; i++)
        ((float *)a->y)[i] += 0 * ((const float *)a->x)[i + 203];
    return TESS_OK;
}

static tess_status sumsq_by_threads(tess_stream *s, const tess_row_sumsq_args *a)
{
    TESS_TRY(good.row_sumsq(s, a));
    if (tess_threads_count(tess_stream_threads(s)) == 2)
        a->out[a->rows - 1] = nextafter(a->out[a->rows - 1], 0);
    return TESS_OK;
}

static tess_status copy_too_much(tess_stream *s, const tess_copy_rows_args *a)
{
    TESS_TRY(good.copy_rows(s, a));
    ((char *)a->y)[a->n * a->row_bytes] = 0;
    return TESS_OK;
}

static void a_row_that_looks_at_its_neighbours_is_named(void)
{
    const tess_kernels *best;
    tess_invariance_result *r = result_make();
    EXPECT_OK(tess_kernels_select(NULL, &best));
    tess_kernels bad = good = *best;
    bad.add = add_in_crowds;
    bad.act_forward = act_with_neighbours;
    bad.row_sumsq = sumsq_by_threads;
    bad.copy_rows = copy_too_much;
    EXPECT_OK(tess_invariance_check_table(test_mem(), &bad, 2, NULL, NULL, r));
    EXPECT(!tess_invariance_holds(r));
    EXPECT_INT(changed(r), 5); /* both activations of float32 */

    const tess_invariance_row *add = find(r, "add", "float32");
    EXPECT_INT(add->first.batch, 7);
    EXPECT_INT(add->first.place, 3);
    EXPECT_INT(add->first.item, 3);
    EXPECT_INT(add->first.element, 11);
    EXPECT_TEXT(add->first.output, "y");
    EXPECT_INT(add->first.threads, 1);
    EXPECT(fabs(add->first.together - add->first.alone - 1) < 1e-5 && fabs(add->max_abs - 1) < 1e-5);
    EXPECT_INT(find(r, "add", "bfloat16")->different, 0);

    const tess_invariance_row *act = find(r, "act_forward", "float32, gelu (erf)");
    EXPECT_TEXT(act->first.neighbours, "NaN");
    EXPECT(isnan(act->first.together) && isinf(act->max_abs));

    const tess_invariance_row *sumsq = find(r, "row_sumsq", "");
    EXPECT_INT(sumsq->first.threads, 2);
    EXPECT_INT(sumsq->first.place, sumsq->first.batch - 1);

    const tess_invariance_row *copy = find(r, "copy_rows", "");
    EXPECT(copy->spills && copy->different == 0);

    tess_buffer text = {.mem = test_mem()};
    json_t *json;
    EXPECT_OK(tess_invariance_print(r, 1, TESS_FORM_TEXT, &text));
    EXPECT_CONTAINS(text.data, "row 3 changes with its neighbours: y[11] is ");
    EXPECT_CONTAINS(text.data, "it writes outside of its output");
    EXPECT_CONTAINS(text.data, "not batch-invariant");
    tess_buffer_free(&text);
    text.mem = test_mem();
    EXPECT_OK(tess_invariance_print(r, 1, TESS_FORM_JSON, &text));
    EXPECT_OK(tess_json_parse(text.data, text.size, "report", true, &json));
    EXPECT(json_is_false(json_object_get(json, "same")));
    json_decref(json);
    tess_buffer_free(&text);
    tess_mem_free(test_mem(), r);
}

/* ---- Functions of the user's ---- */
static void softmax(const float *x, float *y, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < width; i++)
            sum += exp((double)x[r * width + i]);
        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = (float)(exp((double)x[r * width + i]) / sum);
    }
}

/* A kernel that cuts its sums into more parts when there are few rows. */
static void mean_in_parts(const float *x, float *y, int64_t rows, int64_t width)
{
    int64_t part = rows < 4 ? 16 : width;
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0;
        for (int64_t begin = 0; begin < width; begin += part) {
            float partial = 0;
            for (int64_t i = begin; i < width && i < begin + part; i++)
                partial += x[r * width + i];
            sum += partial;
        }
        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = x[r * width + i] - sum / (float)width;
    }
}

static void writes_its_input(const float *x, float *y, int64_t rows, int64_t width)
{
    softmax(x, y, rows, width);
    ((float *)(uintptr_t)x)[rows * width - 1] = 0;
}

static void functions_are_checked_like_rows_within_a_tolerance(void)
{
    tess_invariance_result *r = result_make();
    EXPECT_OK(tess_invariance_check_function(test_mem(), "softmax", softmax, 1031, 0, r));
    EXPECT(tess_invariance_holds(r) && r->rows[0].max_abs == 0 && r->rows[0].cases > 1000);

    EXPECT_OK(tess_invariance_check_function(test_mem(), "mean", mean_in_parts, 512, 0, r));
    EXPECT(!tess_invariance_holds(r));
    EXPECT_INT(r->rows[0].first.batch, 7);
    EXPECT_INT(r->rows[0].first.threads, 1);
    double most = r->rows[0].max_abs;
    EXPECT(most > 0 && most < 1e-5 && r->rows[0].mean_abs > 0 && r->rows[0].mean_abs < most);
    EXPECT_OK(tess_invariance_check_function(test_mem(), "mean", mean_in_parts, 512, 1e-5, r));
    EXPECT(tess_invariance_holds(r) && r->rows[0].max_abs == most && r->rows[0].different == 0);
    EXPECT_OK(tess_invariance_check_function(test_mem(), "mean", mean_in_parts, 512, most / 2, r));
    EXPECT(!tess_invariance_holds(r));

    EXPECT_OK(tess_invariance_check_function(test_mem(), "input", writes_its_input, 9, 0, r));
    EXPECT(r->rows[0].spills && !tess_invariance_holds(r));

    EXPECT_FAILS(tess_invariance_check_function(test_mem(), "f", softmax, 0, 0, r), TESS_E_INVALID, "rows of 0 floats");
    EXPECT_FAILS(tess_invariance_check_function(test_mem(), "f", softmax, 8, -1, r), TESS_E_INVALID, "tolerance -1");
    EXPECT_FAILS(tess_invariance_check_function(test_mem(), "f", softmax, 8, NAN, r), TESS_E_INVALID, "tolerance");
    tess_mem_free(test_mem(), r);
}

static void a_library_that_is_not_there_is_named(void)
{
    tess_invariance_fn f = NULL;
    EXPECT_FAILS(tess_invariance_load("/nowhere/kernel.so", "f", &f), TESS_E_NOT_FOUND, "/nowhere/kernel.so");
    EXPECT_FAILS(tess_invariance_load("none.so", "f", &f), TESS_E_NOT_FOUND, "./none.so");
    EXPECT(f == NULL);
}

static const test_case cases[] = {
    CASE(rows_of_the_best_table_depend_on_nothing_but_themselves),
    CASE(a_row_that_looks_at_its_neighbours_is_named),
    CASE(functions_are_checked_like_rows_within_a_tolerance),
    CASE(a_library_that_is_not_there_is_named),
};
TEST_MAIN(cases)
