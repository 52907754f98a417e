/* Call sites have the same number on every rank, wherever their file is loaded. */
#include "base/os/objects.h"
#include "comm/comm_impl.h"
#include "support/engine.h"
#include "support/join.h"
#include "trace/call_site.h"

enum { N = 1000 };

static float a[N], b[N];

static const void *address_of(engine_call call)
{
    const void *address;
    memcpy(&address, &call, sizeof(address));
    return address;
}

static void an_address_is_found_in_its_object(void)
{
    tess_object program, object;
    char name[64];
    int local = 0;
    engine e = engine_load(0);
    tess_object_program(&program);
    EXPECT(tess_object_find((const void *)(uintptr_t)&an_address_is_found_in_its_object, &object));
    EXPECT(object.begin == program.begin && object.end == program.end && object.id == 0);
    EXPECT_TEXT(object.path, "");
    EXPECT(tess_object_find(address_of(e.sum_a), &object));
    EXPECT_CONTAINS(object.path, "/libtess_test_engine.so");
    EXPECT(object.id > 0 && object.id < 1 << 22);
    EXPECT_TEXT(tess_object_name(object.id, name, sizeof(name)), "libtess_test_engine.so");
    EXPECT_TEXT(tess_object_name(object.id ^ 1, name, sizeof(name)), "");
    EXPECT_TEXT(tess_object_name(0, name, sizeof(name)), "");
    EXPECT(!tess_object_find(&local, &object));
}

/* All ranks have the same two numbers, and each can resolve them. */
static void objects_lie_elsewhere_and_sites_are_the_same(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int rank = tess_team_rank(team), size = tess_team_size(team);
    engine e = engine_load(rank);
    int64_t at = (int64_t)(uintptr_t)address_of(e.sum_a), all_at[8];
    tess_trace_event event;
    EXPECT_OK(tess_all_gather(team, &at, all_at, 1, TESS_I64, NULL));
    for (int r = 1; r < size; r++)
        EXPECT(all_at[r] != all_at[0]);
    for (int i = 0; i < 4; i++) {
        int64_t site, all[8];
        EXPECT_OK((i % 2 == 0 ? e.sum_a : e.sum_b)(tess_all_reduce, team, a, N));
        EXPECT_INT(tess_trace_read(rt->ring, rt->ring->capacity, &event, 1), 1);
        site = (int64_t)event.call_site;
        EXPECT_OK(tess_all_gather(team, &site, all, 1, TESS_I64, NULL));
        for (int r = 0; r < size; r++)
            EXPECT_INT(all[r], site);
        const char *path = tess_trace_objects_find(&rt->ring->objects, tess_call_site_object(event.call_site));
        EXPECT_TEXT(tess_object_file_name(path), "libtess_test_engine.so");
        EXPECT(path[0] == '/');
    }
    tess_runtime_destroy(&rt);
}

static void a_swap_in_a_shared_object_is_told(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int rank = tess_team_rank(team);
    engine e = engine_load(rank);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(e.sum_a(tess_all_reduce, team, a, N));
        EXPECT_OK(e.sum_b(tess_all_reduce, team, b, N));
    }
    EXPECT_FAILS((rank == 1 ? e.sum_b : e.sum_a)(tess_all_reduce, team, a, N), TESS_E_MISMATCH,
                 "ranks disagree in their order, which all have kept before, the odd one out: rank 1: ranks 0 2 called "
                 "all_reduce #4 of team 'world': 1000 float32, sum (called at libtess_test_engine.so+0x");
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(an_address_is_found_in_its_object),
    CASE(objects_lie_elsewhere_and_sites_are_the_same, 3),
    CASE(a_swap_in_a_shared_object_is_told, 3, 0, TEST_ALONE),
};
TEST_MAIN(cases)
