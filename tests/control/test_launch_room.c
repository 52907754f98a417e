/* Bounds on the number of ranks of a host: each is named with what it allows. */
#include "control/launch/launch_room.h"
#include "support/test.h"

static const tess_launch_room no_bounds = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

static void without_bounds_any_number_fits(void)
{
    EXPECT_OK(tess_launch_room_check(&no_bounds, 1));
    EXPECT_OK(tess_launch_room_check(&no_bounds, INT32_MAX));
}

static void each_bound_is_named(void)
{
    tess_launch_room room = no_bounds;
    room.user_processes = 700;
    EXPECT_OK(tess_launch_room_check(&room, 700));
    EXPECT_FAILS(tess_launch_room_check(&room, 701), TESS_E_NOMEM,
                 "701 ranks are as many processes, but this user may have 700 at most: raise the limit (ulimit -u)");
    room = no_bounds;
    room.system_processes = 32768;
    EXPECT_FAILS(tess_launch_room_check(&room, 40000), TESS_E_NOMEM,
                 "this system has 32768 at most: raise kernel.pid_max and kernel.threads-max");
    room = no_bounds;
    room.group_processes = 0;
    EXPECT_FAILS(tess_launch_room_check(&room, 1), TESS_E_NOMEM,
                 "the control group may start 0 at most: raise its pids.max");
}

static void memory_says_how_many_ranks_fit(void)
{
    tess_launch_room room = no_bounds;
    room.memory = UINT64_C(600) << 20;
    EXPECT_OK(tess_launch_room_check(&room, 600));
    EXPECT_FAILS(tess_launch_room_check(&room, 601), TESS_E_NOMEM,
                 "601 ranks take 601 MiB of memory at least, but 600 MiB are available on this host: start at most 600 "
                 "ranks (-n), or use more hosts");
}

/* This machine has room for a few ranks, and for no more than the memory of all machines of the world. */
static void this_host_has_bounds(void)
{
    tess_launch_room room;
    tess_launch_room_look(&room);
    EXPECT_OK(tess_launch_room_check(&room, 2));
    EXPECT(tess_launch_room_check(&room, INT32_MAX) == TESS_E_NOMEM);
}

static const test_case cases[] = {
    CASE(without_bounds_any_number_fits),
    CASE(each_bound_is_named),
    CASE(memory_says_how_many_ranks_fit),
    CASE(this_host_has_bounds),
};
TEST_MAIN(cases)
