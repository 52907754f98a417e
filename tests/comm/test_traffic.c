/* The board counts what each operation brings from other ranks, by the name of its team. */
#include "comm/comm_impl.h"
#include "support/join.h"

/* Returns this rank's counts of a team. */
static tess_traffic counts_of(const tess_runtime *runtime, const tess_team *team)
{
    tess_traffic counts;
    tess_traffic_copy(&runtime->row->traffic[team->traffic], &counts);
    EXPECT_TEXT(counts.name, tess_team_name(team));
    return counts;
}

static void each_operation_counts_what_it_brings(void)
{
    enum { N = 301 }; /* no number of ranks but one divides it */
    static float in[8 * N], out[8 * N];
    tess_runtime *runtime = test_join();
    tess_team *world = tess_runtime_team(runtime), *half = NULL;
    const int W = tess_team_size(world), rank = tess_team_rank(world);
    const tess_traffic before = counts_of(runtime, world);
    EXPECT_OK(tess_all_gather(world, in, out, N, TESS_F32, NULL));
    EXPECT_OK(tess_broadcast(world, in, N, TESS_F32, 0, NULL));
    EXPECT_OK(tess_barrier(world, NULL));
    const tess_traffic after = counts_of(runtime, world);
    const int64_t want = (W - 1) * N * 4 + (rank == 0 ? 0 : N * 4);
    EXPECT_INT(after.bytes - before.bytes, want);
    EXPECT_INT(after.n - before.n, 3);
    EXPECT_OK(tess_team_split(world, rank % 2, rank, "half", &half));
    EXPECT_OK(tess_all_gather(half, in, out, N, TESS_F32, NULL));
    EXPECT_INT(counts_of(runtime, half).bytes, (tess_team_size(half) - 1) * N * 4);
    EXPECT_INT(counts_of(runtime, world).bytes, after.bytes); /* setup of a team is not counted */
    tess_team_destroy(&half);
    tess_runtime_destroy(&runtime);
}

static const test_case cases[] = {CASE(each_operation_counts_what_it_brings, -1)};
TEST_MAIN(cases)
