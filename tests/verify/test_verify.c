/* verify: comparisons of runs, and of the placement of their parts. */
#include "verify/verify.h"

#include <math.h>

#include "support/test.h"
#include "verify/verify_impl.h"

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
    EXPECT_OK(tess_verify_print(r, false, false, &text));
    EXPECT_CONTAINS(text.data, "gradients    1 of 2 tensors differ, the first after step 2\n");
    EXPECT_CONTAINS(text.data, "  head\n    gradient: 1 of 40 elements differ, at most by 0.5 (relative 0.25)\n");
    EXPECT_CONTAINS(text.data, "row 5 column 1 on rank 2: 1.5 here, 1 on one rank (9 ulp)");
    EXPECT_CONTAINS(text.data, "not the same: from step 2 on");
    EXPECT(strstr(text.data, "  embed\n") == NULL);
    tess_buffer_free(&text);
    EXPECT_OK(tess_verify_print(r, false, true, &text));
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
    EXPECT_OK(tess_verify_print(r, false, false, &text));
    EXPECT_CONTAINS(text.data, "not as planned\n");
    tess_buffer_free(&text);
    r->memory[TESS_POOL_PARAMS].planned = 50;
    r->memory[TESS_POOL_GRADS] = (tess_verify_memory){.one = 100, .planned = -1};
    r->memory[TESS_POOL_MISC] = (tess_verify_memory){.largest = 10, .all = 20, .planned = -1};
    EXPECT(tess_verify_same(r));
    snprintf(tensors[0].shards, sizeof(tensors[0].shards), "row 3 is counted by two ranks");
    EXPECT(!tess_verify_same(r));
    EXPECT_OK(tess_verify_print(r, false, false, &text));
    EXPECT_CONTAINS(text.data, "  embed\n    row 3 is counted by two ranks\n");
    EXPECT_CONTAINS(text.data, "100 B             0 B    0%       0 B    0%\n");
    EXPECT_CONTAINS(text.data, "0 B            10 B            20 B      \n"); /* no shares of nothing */
    tess_buffer_free(&text);
}

/* A tensor (5, 7) on `ranks` ranks, with nothing wrong yet: rows on 3 shards, as 2 replicas have them. */
enum { ROWS = 5, COLUMNS = 7, RANKS = 6 };

static verify_run *sharded(run_shard shards[RANKS], run_digest *digest)
{
    static const int64_t begin[] = {0, 2, 4}, size[] = {2, 2, 1};
    static run_tensor tensor;
    static tess_param_placement all;
    static run_header header;
    static run_peak peaks[RANKS];
    static verify_run run;
    all = (tess_param_placement){.shape = {2, {ROWS, COLUMNS}}, .copy = -1};
    tensor = (run_tensor){.name = "w", .shape = {2, {ROWS, COLUMNS}}};
    run = (verify_run){.ranks = RANKS,
                       .n_tensors = 1,
                       .steps = 1,
                       .planned = {.n_stages = 1, .n = 1, .list = &all},
                       .header = &header,
                       .tensors = &tensor,
                       .peaks = peaks,
                       .shards = shards};
    run.config.parallelism.shard_strategy = TESS_STRATEGY_HYBRID;
    run.config.parallelism.data_parallel_replicate_degree = 2;
    run.config.parallelism.data_parallel_shard_degree = 3;
    run.config.parallelism.tensor_parallel_degree = run.config.parallelism.pipeline_parallel_degree = 1;
    run.digests = digest;
    digest->weights = 11;
    digest->held_weights = 22;
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t first = begin[rank % 3], n = size[rank % 3], half = (n + 1) / 2, mine = rank < 3 ? half : n - half;
        shards[rank] = (run_shard){.held = {{first, 0}, {n, COLUMNS}}, .weights = 5};
        shards[rank].primary = (tess_box){{rank < 3 ? first : first + half, 0}, {mine, COLUMNS}};
        peaks[rank].rank = rank;
    }
    return &run;
}

#define EXPECT_SHARDS(run, expected)                                \
    do {                                                            \
        char text[TESS_VERIFY_TEXT] = "";                           \
        EXPECT_OK(verify_check_shards(test_mem(), (run), 0, text)); \
        EXPECT_TEXT(text, (expected));                              \
    } while (0)

static void parts_that_nobody_or_two_count_are_named(void)
{
    run_shard shards[RANKS];
    run_digest digest = {0};
    verify_run *run = sharded(shards, &digest);
    EXPECT_SHARDS(run, "");
    EXPECT_INT(verify_most_planned(run), 2 * COLUMNS * 4);
    for (int rank = 0; rank < RANKS; rank++) { /* no masters: these bytes, and shared out whatever the strategy */
        shards[rank].narrow = true;
        run->peaks[rank].codes = 10 + rank;
    }
    EXPECT_INT(verify_most_planned(run), 10 + RANKS - 1);
    run->config.parallelism.shard_strategy = TESS_STRATEGY_NONE;
    EXPECT_SHARDS(run, "");
    run = sharded(shards, &digest);
    shards[1].primary.size[1] = 4; /* 4 of 7 columns */
    EXPECT_SHARDS(run, "element [2, 4] is counted by no rank");
    shards[4].primary = (tess_box){{2, 4}, {2, 3}}; /* another counts them, and those of row 3 that it had */
    EXPECT_SHARDS(run, "element [3, 0] is counted by no rank");
    shards[1].primary.size[0] = 2;
    EXPECT_SHARDS(run, "");
    shards[2].primary = (tess_box){{3, 5}, {2, 2}};
    EXPECT_SHARDS(run, "elements [3, 4) x [5, 7) are counted by ranks 2 and 4");

    run = sharded(shards, &digest);
    shards[5].held = (tess_box){{4, 0}, {1, 6}};
    EXPECT_SHARDS(run, "rank 5 holds [4, 5) x [0, 6), planned is [4, 5) x [0, 7)");
    run->config.parallelism.shard_strategy = TESS_STRATEGY_NONE;
    EXPECT_SHARDS(run, "rank 0 holds [0, 2) x [0, 7), planned is [0, 5) x [0, 7)");

    run = sharded(shards, &digest);
    digest.held_weights = 23;
    EXPECT_SHARDS(run, "after step 1 the ranks' copies of its weights are not the same");
    for (int rank = 0; rank < RANKS; rank++)
        shards[rank].held = (tess_box){{0, 0}, {ROWS, COLUMNS}};
    shards[3].weights = 6;
    run->config.parallelism.shard_strategy = TESS_STRATEGY_NONE;
    EXPECT_SHARDS(run, "after step 1 the ranks' copies of its weights are not the same: the odd one is rank 3");
    run->peaks[3].rank = 1; /* parallelism.rank_order */
    EXPECT_SHARDS(run, "after step 1 the ranks' copies of its weights are not the same: the odd one is rank 1");

    run = sharded(shards, &digest);
    for (int place = 1; place < RANKS; place++)
        run->peaks[place].rank = RANKS - place; /* 0, 5, 4, 3, 2, 1 */
    shards[5].held = (tess_box){{4, 0}, {1, 6}};
    EXPECT_SHARDS(run, "rank 1 holds [4, 5) x [0, 6), planned is [4, 5) x [0, 7)");
    shards[5].primary = (tess_box){{3, 5}, {1, 2}}; /* place 4 counts them, too */
    EXPECT_SHARDS(run, "elements [3, 4) x [5, 7) are counted by ranks 1 and 2");

    run = sharded(shards, &digest); /* one unit of 7 columns: the first of two ranks has it */
    run->config.parallelism.data_parallel_replicate_degree = 1;
    run->config.parallelism.tensor_parallel_degree = 2;
    run->planned.list->unit = 7;
    run->planned.list->place[TESS_AXIS_TP] = (tess_place){TESS_SHARD, 1};
    EXPECT_SHARDS(run, "rank 1 holds [2, 4) x [0, 7), planned is [0, 2) x [7, 7)");
    run->planned.list->owner = 1; /* the other stage of a pipeline */
    EXPECT_SHARDS(run, "rank 0 holds [0, 2) x [0, 7), planned is [0, 0) x [0, 0)");
}

static void hashes_do_not_depend_on_the_cut(void)
{
    enum { A = 5, B = 3, C = 4 };
    float whole[A * B * C], part[A * B * C];
    tess_shard shard = {.shape = {3, {A, B, C}}};
    for (int i = 0; i < A * B * C; i++)
        whole[i] = 1.0f / (float)(i + 1);
    const tess_box all = shard.box = tess_box_whole(&shard.shape);
    uint64_t expected = verify_hash(&shard, &all, whole, TESS_F32), sum;
    for (int cut = 1; cut <= A * B * C; cut++) { /* boxes of `size`, whose last ones are smaller */
        const int64_t size[] = {1 + cut % A, 1 + cut / A % B, 1 + cut / A / B % C};
        sum = 0;
        for (int64_t a = 0; a < A; a += size[0])
            for (int64_t b = 0; b < B; b += size[1])
                for (int64_t c = 0; c < C; c += size[2]) {
                    tess_box box = {{a, b, c}, {size[0], size[1], size[2]}}, primary;
                    tess_box_meet(3, &all, &box, &shard.box);
                    tess_box_copy(3, sizeof(float), &shard.box, &all, whole, &shard.box, part);
                    primary = shard.box; /* and in two parts, along the last dimension */
                    primary.size[2] = 1;
                    sum += verify_hash(&shard, &primary, part, TESS_F32);
                    primary.begin[2]++;
                    primary.size[2] = shard.box.size[2] - 1;
                    sum += verify_hash(&shard, &primary, part, TESS_F32);
                }
        EXPECT(sum == expected);
    }
    shard.box = all;
    float first = whole[0];
    whole[0] = whole[1];
    whole[1] = first; /* the same values elsewhere */
    EXPECT(verify_hash(&shard, &all, whole, TESS_F32) != expected);
}

static const test_case cases[] = {
    CASE(values_that_differ_are_counted_and_placed),
    CASE(zeroes_of_either_sign_are_other_bits_but_no_error),
    CASE(what_is_no_number_is_infinitely_wrong),
    CASE(what_ranks_have_found_becomes_one),
    CASE(the_report_names_tensor_step_place_and_rank),
    CASE(parts_that_nobody_or_two_count_are_named),
    CASE(hashes_do_not_depend_on_the_cut),
    CASE(rows_and_bytes_that_are_not_as_planned_are_told),
};
TEST_MAIN(cases)
