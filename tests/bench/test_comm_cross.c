/* Bytes that cross between hosts, counted by hand. */
#include "bench/comm/comm_cross.h"
#include "support/test.h"

static comm_map map_of(const char *hosts)
{
    static int host[8];
    int n = 0;
    comm_map map;
    for (; hosts[n] != '\0'; n++)
        host[n] = hosts[n] - 'a';
    comm_map_fill(host, n, &map);
    return map;
}

static void expect(comm_crossing *crossing, const comm_map *map, int host, double wide, double sent, double received)
{
    comm_traffic traffic = comm_cross_traffic(crossing, map, host, 1200 * map->n_ranks, wide);
    EXPECT_INT((int64_t)traffic.sent, (int64_t)sent);
    EXPECT_INT((int64_t)traffic.received, (int64_t)received);
}

static void equal_hosts_send_their_share_once(void)
{
    comm_map map = map_of("aabb");
    EXPECT_INT(map.n_hosts, 2);
    expect(comm_cross_gather_all, &map, 0, 1, 2400, 2400);
    expect(comm_cross_reduce_scatter, &map, 1, 1, 2400, 2400);
    expect(comm_cross_reduce_scatter, &map, 1, 2, 4800, 4800); /* float32 partials of bfloat16 */
    expect(comm_cross_all_reduce, &map, 0, 2, 7200, 7200);
    expect(comm_cross_each_pair, &map, 0, 1, 4800, 4800);
    expect(comm_cross_ring, &map, 0, 1, 4800, 4800);
    expect(comm_cross_broadcast, &map, 0, 1, 4800, 0);
    expect(comm_cross_broadcast, &map, 1, 1, 0, 4800);
    expect(comm_cross_to_root, &map, 0, 1, 0, 2400);
    expect(comm_cross_to_root, &map, 1, 1, 2400, 0);
    expect(comm_cross_from_root, &map, 0, 1, 2400, 0);
    expect(comm_cross_nothing, &map, 0, 1, 0, 0);
}

/* 0 1 2 | 3 4: the tree is ((0 1) (2 3)) 4, so the hosts' subtrees are (0 1), 2 and 3, 4. */
static void uneven_hosts_send_a_partial_a_subtree(void)
{
    comm_map map = map_of("aaabb");
    EXPECT_INT(map.n_subtrees[0], 2);
    EXPECT_INT(map.n_subtrees[1], 2);
    expect(comm_cross_reduce_scatter, &map, 0, 1, 2 * 2 * 1200, 3 * 2 * 1200);
    expect(comm_cross_reduce_scatter, &map, 1, 1, 2 * 3 * 1200, 2 * 2 * 1200);
    expect(comm_cross_gather_all, &map, 0, 1, 3 * 1200, 2 * 1200);
    EXPECT_INT((int64_t)comm_cross_most(comm_cross_gather_all, &map, 6000, 1), 3600);
    EXPECT_INT((int64_t)comm_cross_most(comm_cross_reduce_scatter, &map, 6000, 1), 7200);
}

static void three_hosts_each_get_every_block(void)
{
    comm_map map = map_of("abc");
    expect(comm_cross_gather_all, &map, 0, 1, 2400, 2400);
    expect(comm_cross_broadcast, &map, 0, 1, 7200, 0);
    expect(comm_cross_reduce_scatter, &map, 2, 1, 2400, 2400);
}

static void one_host_sends_nothing(void)
{
    comm_map map = map_of("aaaa");
    EXPECT_INT((int64_t)comm_cross_most(comm_cross_all_reduce, &map, 4800, 1), 0);
    EXPECT_INT((int64_t)comm_cross_most(comm_cross_ring, &map, 4800, 1), 0);
}

static const test_case cases[] = {
    CASE(equal_hosts_send_their_share_once),
    CASE(uneven_hosts_send_a_partial_a_subtree),
    CASE(three_hosts_each_get_every_block),
    CASE(one_host_sends_nothing),
};
TEST_MAIN(cases)
