/* Joining the job of a test with ranks, and a folder that all its ranks see. */
#ifndef TESS_TESTS_CKPT_RANKS_H
#define TESS_TESTS_CKPT_RANKS_H

#include "support/test.h"
#include "tessera/comm.h"

static tess_runtime *the_runtime;

static inline tess_team *join_job(void)
{
    EXPECT_OK(tess_runtime_create(NULL, &the_runtime));
    return tess_runtime_team(the_runtime);
}

/* After a last meeting: the folder belongs to the first rank, who must not remove it early. */
static inline void leave_job(void)
{
    EXPECT_OK(tess_barrier(tess_runtime_team(the_runtime), NULL));
    tess_runtime_destroy(&the_runtime);
}

static inline const char *common_folder(tess_team *team)
{
    static char path[256];
    if (tess_team_rank(team) == 0)
        snprintf(path, sizeof(path), "%s", test_folder());
    EXPECT_OK(tess_broadcast(team, path, sizeof(path) / 4, TESS_I32, 0, NULL));
    return path;
}

/* The last rank that owns any of `rows`. */
static inline int last_owner(int64_t rows, int world)
{
    int64_t begin, count = 0;
    int rank = world;
    while (count == 0)
        tess_shard_rows(rows, world, --rank, &begin, &count);
    return rank;
}

#endif
