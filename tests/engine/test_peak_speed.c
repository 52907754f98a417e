/* The peak of all ranks: ranks that share cores count once. */
#include "support/test.h"
#include "engine/peak_speed.h"

static void threads_beyond_the_cores_add_nothing(void)
{
    /* four ranks share two cores, each with one thread of 10 flops per second */
    const tess_rank_power shared[] = {{0, 7, 2, 1, 10}, {0, 7, 2, 1, 10}, {0, 7, 2, 1, 10}, {0, 7, 2, 1, 10}};
    EXPECT(tess_peak_of_ranks(shared, 1) == 10);
    EXPECT(tess_peak_of_ranks(shared, 2) == 20);
    EXPECT(tess_peak_of_ranks(shared, 4) == 20);
}

static void cores_of_all_hosts_count(void)
{
    const tess_rank_power hosts[] = {{0, 7, 2, 2, 20}, {0, 7, 2, 2, 20}, {1, 7, 2, 2, 30}, {2, 7, 8, 2, 40}};
    EXPECT(tess_peak_of_ranks(hosts, 4) == 20 + 30 + 40);
}

static void ranks_that_are_bound_have_cores_of_their_own(void)
{
    const tess_rank_power bound[] = {{0, 1, 1, 1, 10}, {0, 2, 1, 1, 10}, {0, 3, 1, 1, 10}, {0, 3, 1, 1, 10}};
    EXPECT(tess_peak_of_ranks(bound, 3) == 30);
    EXPECT(tess_peak_of_ranks(bound, 4) == 30);
}

static void ranks_that_share_a_gpu_have_one(void)
{
    const tess_device_properties a = {.name = "cuda:0 (A)", .flops_f32 = 10, .flops_bf16 = 160},
                                 b = {.name = "cuda:1 (A)", .flops_f32 = 10, .flops_bf16 = 160}, host = {.name = "cpu"};
    const tess_rank_power ranks[] = {tess_power_of_device(&a, TESS_BF16), tess_power_of_device(&b, TESS_BF16),
                                     tess_power_of_device(&a, TESS_BF16)};
    EXPECT(tess_peak_of_ranks(ranks, 1) == 160);
    EXPECT(tess_peak_of_ranks(ranks, 3) == 320);
    EXPECT(tess_power_of_device(&a, TESS_F32).flops == 10 && tess_power_of_device(&host, TESS_F32).flops == 0);
}

static void all_ranks_hear_of_one_peak(void)
{
    tess_runtime *runtime = NULL;
    double peak = 0, most;
    EXPECT_OK(tess_runtime_create(NULL, &runtime));
    tess_team *team = tess_runtime_team(runtime);
    EXPECT_OK(tess_peak_of_team(test_mem(), team, tess_power_of_cores(100, 1), &peak));
    EXPECT(peak > 0 && peak <= 100.0 * tess_team_size(team));
    int64_t mine = (int64_t)(peak * 1e6), all;
    EXPECT_OK(tess_all_reduce(team, &mine, &all, 1, TESS_I64, TESS_MAX, NULL));
    most = (double)all * 1e-6;
    EXPECT(most - peak < 1e-5);
    tess_runtime_destroy(&runtime);
}

static const test_case cases[] = {
    CASE(threads_beyond_the_cores_add_nothing),
    CASE(cores_of_all_hosts_count),
    CASE(ranks_that_are_bound_have_cores_of_their_own),
    CASE(ranks_that_share_a_gpu_have_one),
    CASE(all_ranks_hear_of_one_peak, 3),
};
TEST_MAIN(cases)
