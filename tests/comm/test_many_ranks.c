/* A team with more ranks than the usual room next to a post holds rows for (comm/shm/control.h). */
#include <stdlib.h>

#include "support/test.h"
#include "tessera/comm.h"
#include "tessera/runtime.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER
#endif

#ifdef UNDER_SANITIZER /* its shadow memory is many times that of a rank */
enum { RANKS = 70 };
#else
enum { RANKS = 700 };
#endif

static size_t one[RANKS], place[RANKS];
static int32_t in[RANKS], out[RANKS];

static void every_collective_reaches_all_ranks(void)
{
    tess_runtime *rt;
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &rt));
    tess_team *team = tess_runtime_team(rt);
    const int rank = tess_team_rank(team);
    EXPECT_INT(tess_team_size(team), RANKS);
    int64_t sum = rank;
    EXPECT_OK(tess_all_reduce(team, &sum, &sum, 1, TESS_I64, TESS_SUM, NULL));
    EXPECT_INT(sum, (int64_t)RANKS * (RANKS - 1) / 2);
    for (int r = 0; r < RANKS; r++) {
        one[r] = 1;
        place[r] = (size_t)r;
        in[r] = rank * 1000 + r;
    }
    EXPECT_OK(tess_all_to_all_v(team, in, one, place, out, one, place, TESS_I32, NULL));
    for (int r = 0; r < RANKS; r++)
        EXPECT_INT(out[r], r * 1000 + rank);
    tess_team *half;
    EXPECT_OK(tess_team_split(team, rank % 2, -rank, "half", &half));
    EXPECT_INT(tess_team_size(half), RANKS / 2);
    EXPECT_OK(tess_all_gather(half, &rank, out, 1, TESS_I32, NULL));
    for (int r = 0; r < RANKS / 2; r++)
        EXPECT_INT(out[r], RANKS - 2 + rank % 2 - 2 * r);
    tess_team_destroy(&half);
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(every_collective_reaches_all_ranks, RANKS, 0, TEST_NEVER),
};
TEST_MAIN(cases)
