/* Preflight's findings from what ranks and hosts measured. */
#include "support/test.h"

#include <stdlib.h>

#include "doctor/probe/ranks_impl.h"

enum { N = 8 };

static probe_rank ranks[N];

/* Eight equal ranks on cores of their own. */
static void make_ranks(void)
{
    for (int r = 0; r < N; r++) {
        ranks[r] = (probe_rank){.gemm = {r, 100e9f, 0.99f}, .copy = {r, 10e9f, 0.99f}, .program = 7, .barrier_us = 5};
        snprintf(ranks[r].environment, sizeof(ranks[r].environment), "NCCL_ALGO=Ring\nOMP_NUM_THREADS=2\n");
    }
}

/* The first n ranks. */
static const probe_all *all(int n)
{
    static uint64_t hashes[N];
    static double paces[N];
    static probe_all first;
    first = (probe_all){.ranks = ranks, .n = n, .hashes = hashes, .paces = paces};
    return &first;
}

static void expect(const tess_probe_finding *finding, tess_probe_outcome outcome, const char *text)
{
    EXPECT_CONTAINS(finding->text, text);
    EXPECT_INT(finding->outcome, outcome);
}

static void slow_core_is_named_with_its_rank(void)
{
    tess_probe_finding f;
    make_ranks();
    probe_judge_speed(all(N), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_OK, "99 GFLOP/s a core");
    ranks[5].gemm = (probe_speed){13, 79e9f, 0.99f};
    probe_judge_speed(all(N), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_WARN, "rank 5 on core 13 is slow: 78.2 GFLOP/s, 79% of the median");
    probe_judge_speed(all(N), "GB/s", true, &f);
    expect(&f, TESS_PROBE_OK, "9.9 GB/s");
    ranks[5].gemm.rate = 85e9f; /* within 20% */
    probe_judge_speed(all(N), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_OK, "GFLOP/s");
}

static void core_that_others_use_is_named(void)
{
    tess_probe_finding f;
    make_ranks();
    ranks[2].gemm.share = 0.5f;
    probe_judge_speed(all(N), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_WARN, "rank 2 got only 50% of core 2: 50 GFLOP/s, the median is 99");
    ranks[2].gemm.share = 0.99f;
    probe_judge_speed(all(1), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_OK, "");
    ranks[0].gemm.share = 0.4f; /* one rank alone has no median to fall behind */
    probe_judge_speed(all(1), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_WARN, "rank 0 got only 40% of core 0");
}

static void shares_say_nothing_where_ranks_share_cores(void)
{
    tess_probe_finding f;
    make_ranks();
    for (int r = 0; r < N; r++) {
        ranks[r].cores_are_shared = 1;
        ranks[r].gemm.share = r % 2 == 0 ? 0.2f : 0.3f;
    }
    probe_judge_speed(all(N), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_OK, "100 to 100 GFLOP/s");
    ranks[4].gemm.rate = 50e9f;
    probe_judge_speed(all(N), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_WARN, "rank 4 on core 4 is slow: 50 GFLOP/s, 50% of the median");
}

static void many_slow_ranks_are_counted(void)
{
    tess_probe_finding f;
    make_ranks();
    for (int r = 3; r < N; r++)
        ranks[r].gemm.share = 0.5f;
    probe_judge_speed(all(N), "GFLOP/s", false, &f);
    expect(&f, TESS_PROBE_WARN, "; and 2 more");
}

static void another_program_or_configuration_is_named(void)
{
    tess_probe_finding f;
    make_ranks();
    probe_judge_program(all(N), &f);
    expect(&f, TESS_PROBE_OK, "program, version");
    ranks[0].program = 8; /* the majority is right, not the first */
    probe_judge_program(all(N), &f);
    expect(&f, TESS_PROBE_FAIL, "another program than the others' runs on rank 0");
    ranks[0].program = 7;
    ranks[3].configuration = ranks[6].configuration = 1;
    probe_judge_program(all(N), &f);
    expect(&f, TESS_PROBE_FAIL, "another configuration than the others' was read by ranks 3 6");
}

static void variables_that_differ_are_named(void)
{
    tess_probe_finding f;
    make_ranks();
    probe_judge_environment(all(N), &f);
    expect(&f, TESS_PROBE_OK, "alike");
    snprintf(ranks[0].environment, sizeof(ranks[0].environment), "NCCL_ALGO=Tree\nOMP_NUM_THREADS=2\n");
    snprintf(ranks[6].environment, sizeof(ranks[6].environment), "NCCL_ALGO=Ring\nOMP_NUM_THREADS=2\nUCX_TLS=tcp\n");
    probe_judge_environment(all(N), &f);
    expect(&f, TESS_PROBE_WARN, "NCCL_ALGO is Ring on 7 ranks, Tree on rank 0");
    expect(&f, TESS_PROBE_WARN, "UCX_TLS is nothing on 7 ranks, tcp on rank 6");
}

static void environment_is_what_matters_and_no_secrets(void)
{
    char text[PROBE_ENVIRONMENT_BYTES], *long_value = malloc(8192);
    memset(long_value, 'x', 8191);
    memcpy(long_value, "NCCL_TOO_LONG=", 14);
    long_value[8191] = '\0';
    char *environment[] = {
        "UCX_TLS=rc", "TESSERA_RANK=3", "API_TOKEN=secret", "NCCL_DEBUG=INFO", long_value, "CUDA_VISIBLE_DEVICES=1",
        NULL};
    probe_collect_environment(environment, text);
    EXPECT_TEXT(text, "NCCL_DEBUG=INFO\nUCX_TLS=rc\n");
    free(long_value);
}

static void wrong_sum_and_slow_barrier_are_named(void)
{
    tess_probe_finding f;
    make_ranks();
    probe_judge_all_reduce(ranks, N, &f);
    expect(&f, TESS_PROBE_OK, "right");
    snprintf(ranks[3].wrong, sizeof(ranks[3].wrong), "all_reduce sum of 1000 float32: element 7 is wrong on rank 3");
    probe_judge_all_reduce(ranks, N, &f);
    expect(&f, TESS_PROBE_FAIL, "element 7 is wrong on rank 3");
    ranks[0].barrier_us = 2500;
    probe_judge_barrier(ranks, N, 2, &f);
    expect(&f, TESS_PROBE_WARN, "a barrier of 8 ranks on 2 hosts takes 2500 us");
    ranks[0].cores_are_shared = 1;
    probe_judge_barrier(ranks, N, 2, &f);
    expect(&f, TESS_PROBE_OK, "us");
}

/* The other clock is 5 ms ahead. One exchange in ten is quick; the others are delayed on the way back. */
static void clock_offset_is_of_the_quickest_exchange(void)
{
    probe_exchange e[40];
    double offset, round_trip;
    for (int i = 0; i < 40; i++) {
        uint64_t sent = 1000000000000ull + 1000000ull * (uint64_t)i, way = 50000, delay = i % 10 == 7 ? 0 : 900000;
        e[i] = (probe_exchange){sent, sent + way + 5000000, sent + 2 * way + delay};
    }
    probe_clock_offset(e, 40, &offset, &round_trip);
    EXPECT(offset > 0.00499 && offset < 0.00501);
    EXPECT(round_trip > 0.99e-4 && round_trip < 1.01e-4);
    for (int i = 0; i < 40; i++)
        e[i].there_ns -= 12000000;
    probe_clock_offset(e, 40, &offset, &round_trip);
    EXPECT(offset > -0.00701 && offset < -0.00699);
}

static void skewed_clock_and_slow_link_are_named(void)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    tess_probe_finding f;
    probe_link links[] = {{0}, {2e-4, 1e-4, 1e9}, {-3e-4, 1e-4, 1.1e9}, {1e-4, 1e-4, 1e9}};
    probe_judge_clocks(links, names, 4, &f);
    expect(&f, TESS_PROBE_OK, "within");
    probe_judge_links(links, names, 4, &f);
    expect(&f, TESS_PROBE_OK, "8 to 8.8 Gbit/s");
    links[2].offset_s = -1.5;
    probe_judge_clocks(links, names, 4, &f);
    expect(&f, TESS_PROBE_WARN, "the clock of host c is 1.5e+03 ms behind that of host a");
    links[2].offset_s = 4e-3;
    links[2].round_trip_s = 8e-3; /* this slow exchange leaves the offset uncertain by 4 ms */
    probe_judge_clocks(links, names, 4, &f);
    expect(&f, TESS_PROBE_OK, "within 8 ms");
    links[3].bytes_per_s = 3e8;
    probe_judge_links(links, names, 4, &f);
    expect(&f, TESS_PROBE_WARN, "from host a to host d: 2.4 Gbit/s, 30% of the median");
    for (int h = 1; h < 4; h++)
        links[h].bytes_per_s = 1e7;
    probe_judge_links(links, names, 4, &f);
    expect(&f, TESS_PROBE_WARN, "only 0.08 Gbit/s");
}

static const test_case cases[] = {
    CASE(slow_core_is_named_with_its_rank),           CASE(core_that_others_use_is_named),
    CASE(shares_say_nothing_where_ranks_share_cores), CASE(many_slow_ranks_are_counted),
    CASE(another_program_or_configuration_is_named),  CASE(variables_that_differ_are_named),
    CASE(environment_is_what_matters_and_no_secrets), CASE(wrong_sum_and_slow_barrier_are_named),
    CASE(clock_offset_is_of_the_quickest_exchange),   CASE(skewed_clock_and_slow_link_are_named),
};

TEST_MAIN(cases)
