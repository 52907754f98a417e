#include "train/verify/verify.h"

#include <math.h>

#include "support/test.h"

static void values_that_differ_are_counted_and_placed(void)
{
    const float there[] = {1, 2, -0.5f, 0, 8};
    float here[] = {1, 2, -0.5f, 0, 8};
    tess_verify_delta d = {0};
    tess_verify_compare(here, there, 5, 100, 3, &d);
    EXPECT_INT(d.n_different, 0);
    here[1] = nextafterf(nextafterf(2, 3), 3);
    here[4] = 6;
    tess_verify_compare(here, there, 5, 100, 3, &d);
    EXPECT_INT(d.n_different, 2);
    EXPECT_INT(d.first, 101);
    EXPECT_INT(d.ulp, 2);
    EXPECT_INT(d.rank, 3);
    EXPECT(d.there == 2 && d.max_abs == 2 && d.max_rel == 0.25);
}

static void zeroes_of_either_sign_are_other_bits_but_no_error(void)
{
    const float here[] = {0.0f}, there[] = {-0.0f};
    tess_verify_delta d = {0};
    tess_verify_compare(here, there, 1, 0, 0, &d);
    EXPECT_INT(d.n_different, 1);
    EXPECT_INT(d.ulp, 0);
    EXPECT(d.max_abs == 0 && d.max_rel == 0);
    const float tiny[] = {1e-45f}, minus[] = {-1e-45f}; /* the neighbours of zero */
    d = (tess_verify_delta){0};
    tess_verify_compare(tiny, minus, 1, 0, 0, &d);
    EXPECT_INT(d.ulp, 2);
}

static void what_is_no_number_is_infinitely_wrong(void)
{
    const float here[] = {NAN, 1, INFINITY}, there[] = {1, 1, 1};
    tess_verify_delta d = {0};
    tess_verify_compare(here, there, 3, 0, 0, &d);
    EXPECT_INT(d.n_different, 2);
    EXPECT(isinf(d.max_abs) && isinf(d.max_rel));
    d = (tess_verify_delta){0};
    tess_verify_compare(here, here, 3, 0, 0, &d); /* the same NaN has the same bits */
    EXPECT_INT(d.n_different, 0);
}

static void what_ranks_have_found_becomes_one(void)
{
    const float there[] = {1, 1};
    const float a[] = {1, 2}, b[] = {5, 1};
    tess_verify_delta rank0 = {0}, rank1 = {0}, rank2 = {0}, sum = {0};
    tess_verify_compare(a, there, 2, 40, 0, &rank0);
    tess_verify_compare(b, there, 2, 20, 1, &rank1);
    tess_verify_merge(&rank2, &sum);
    tess_verify_merge(&rank0, &sum);
    tess_verify_merge(&rank1, &sum);
    tess_verify_merge(&rank2, &sum);
    EXPECT_INT(sum.n_different, 2);
    EXPECT_INT(sum.first, 20);
    EXPECT_INT(sum.rank, 1);
    EXPECT(sum.here == 5 && sum.max_abs == 4);
}

/* Two tensors; the second differs from step 2 on. */
static tess_verify_result *differing(tess_verify_tensor *tensors)
{
    static tess_verify_result r;
    r = (tess_verify_result){.ranks = 4,
                             .steps = 3,
                             .strategy = "full",
                             .kernels = {"amx", "amx"},
                             .first_step = 2,
                             .has_values = true,
                             .tensors = tensors,
                             .n_tensors = 2};
    tensors[0] = (tess_verify_tensor){.name = "embed", .rows = 10, .row = 4};
    tensors[1] = (tess_verify_tensor){.name = "head", .rows = 10, .row = 4, .grads_step = 2, .weights_step = 2};
    tensors[1].grads = (tess_verify_delta){
        .n_different = 1, .first = 21, .here = 1.5f, .there = 1, .ulp = 9, .max_abs = 0.5, .max_rel = 0.25, .rank = 2};
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        r.memory[pool].planned = -1;
    return &r;
}

static void the_report_names_tensor_step_place_and_rank(void)
{
    tess_verify_tensor tensors[2];
    tess_buffer text = {.mem = test_mem()};
    tess_verify_result *r = differing(tensors);
    EXPECT(!tess_verify_same(r));
    EXPECT_OK(tess_verify_print(r, false, &text));
    EXPECT_CONTAINS(text.data, "gradients    1 of 2 tensors differ, the first after step 2\n");
    EXPECT_CONTAINS(text.data, "  head\n    gradient: 1 of 40 elements differ, at most by 0.5 (relative 0.25)\n");
    EXPECT_CONTAINS(text.data, "row 5 column 1 on rank 2: 1.5 here, 1 on one rank (9 ulp)");
    EXPECT_CONTAINS(text.data, "not the same: from step 2 on");
    EXPECT(strstr(text.data, "  embed\n") == NULL);
    tess_buffer_free(&text);
    EXPECT_OK(tess_verify_print_json(r, &text));
    EXPECT_CONTAINS(text.data, "\"same\": false");
    EXPECT_CONTAINS(text.data, "\"first_step\": 2");
    tess_buffer_free(&text);
}

static void rows_and_bytes_that_are_not_as_planned_are_told(void)
{
    tess_verify_tensor tensors[2];
    tess_buffer text = {.mem = test_mem()};
    tess_verify_result *r = differing(tensors);
    r->first_step = tensors[1].grads_step = tensors[1].weights_step = 0;
    EXPECT(tess_verify_same(r));
    r->memory[TESS_POOL_PARAMS] = (tess_verify_memory){.one = 100, .largest = 50, .all = 200, .planned = 25};
    EXPECT(!tess_verify_same(r));
    EXPECT_OK(tess_verify_print(r, false, &text));
    EXPECT_CONTAINS(text.data, "not as planned\n");
    r->memory[TESS_POOL_PARAMS].planned = 50;
    EXPECT(tess_verify_same(r));
    snprintf(tensors[0].shards, sizeof(tensors[0].shards), "row 3 is counted by two ranks");
    EXPECT(!tess_verify_same(r));
    EXPECT_OK(tess_verify_print(r, false, &text));
    EXPECT_CONTAINS(text.data, "  embed\n    row 3 is counted by two ranks\n");
    tess_buffer_free(&text);
}

static const test_case cases[] = {
    {"values_that_differ_are_counted_and_placed", values_that_differ_are_counted_and_placed},
    {"zeroes_of_either_sign_are_other_bits_but_no_error", zeroes_of_either_sign_are_other_bits_but_no_error},
    {"what_is_no_number_is_infinitely_wrong", what_is_no_number_is_infinitely_wrong},
    {"what_ranks_have_found_becomes_one", what_ranks_have_found_becomes_one},
    {"the_report_names_tensor_step_place_and_rank", the_report_names_tensor_step_place_and_rank},
    {"rows_and_bytes_that_are_not_as_planned_are_told", rows_and_bytes_that_are_not_as_planned_are_told},
};
TEST_MAIN(cases)
