#include "bench/comm_cross.h"

#include <math.h>
#include <string.h>

#include "comm/reduce.h"

static bool on_one_host(const comm_map *map, int begin, int end)
{
    for (int r = begin + 1; r < end; r++)
        if (map->host[r] != map->host[begin])
            return false;
    return true;
}

static void count_subtrees(comm_map *map, int begin, int end)
{
    if (on_one_host(map, begin, end)) {
        map->n_subtrees[map->host[begin]]++;
        return;
    }
    int middle = begin + tess_reduce_half(end - begin);
    count_subtrees(map, begin, middle);
    count_subtrees(map, middle, end);
}

void comm_map_fill(const int *host, int n_ranks, comm_map *map)
{
    memset(map, 0, sizeof(*map));
    map->n_ranks = n_ranks;
    for (int r = 0; r < n_ranks; r++) {
        map->host[r] = host[r];
        map->n_on[host[r]]++;
        map->n_hosts = host[r] >= map->n_hosts ? host[r] + 1 : map->n_hosts;
    }
    count_subtrees(map, 0, n_ranks);
}

void comm_map_of(const tess_team *team, comm_map *map)
{
    int host[JOB_MAX_RANKS];
    for (int r = 0; r < tess_team_size(team); r++)
        host[r] = tess_team_host(team, r);
    comm_map_fill(host, tess_team_size(team), map);
}

comm_traffic comm_cross_gather_all(const comm_map *map, int host, double bytes, double wide)
{
    double block = bytes / map->n_ranks;
    (void)wide;
    return (comm_traffic){map->n_on[host] * block * (map->n_hosts - 1), (map->n_ranks - map->n_on[host]) * block};
}

comm_traffic comm_cross_reduce_scatter(const comm_map *map, int host, double bytes, double wide)
{
    double partial = bytes / map->n_ranks * wide;
    int elsewhere = 0; /* subtrees */
    for (int h = 0; h < map->n_hosts; h++)
        elsewhere += h != host ? map->n_subtrees[h] : 0;
    return (comm_traffic){map->n_subtrees[host] * (map->n_ranks - map->n_on[host]) * partial,
                          map->n_on[host] * elsewhere * partial};
}

comm_traffic comm_cross_all_reduce(const comm_map *map, int host, double bytes, double wide)
{
    comm_traffic first = comm_cross_reduce_scatter(map, host, bytes, wide);
    comm_traffic second = comm_cross_gather_all(map, host, bytes, wide);
    return (comm_traffic){first.sent + second.sent, first.received + second.received};
}

comm_traffic comm_cross_broadcast(const comm_map *map, int host, double bytes, double wide)
{
    bool root = host == map->host[0];
    (void)wide;
    return (comm_traffic){root ? bytes * (map->n_hosts - 1) : 0, root ? 0 : bytes};
}

comm_traffic comm_cross_each_pair(const comm_map *map, int host, double bytes, double wide)
{
    double crossing = (double)map->n_on[host] * (map->n_ranks - map->n_on[host]) * bytes / map->n_ranks;
    (void)wide;
    return (comm_traffic){crossing, crossing};
}

comm_traffic comm_cross_to_root(const comm_map *map, int host, double bytes, double wide)
{
    double block = bytes / map->n_ranks;
    bool root = host == map->host[0];
    (void)wide;
    return (comm_traffic){root ? 0 : map->n_on[host] * block, root ? (map->n_ranks - map->n_on[host]) * block : 0};
}

comm_traffic comm_cross_from_root(const comm_map *map, int host, double bytes, double wide)
{
    comm_traffic reverse = comm_cross_to_root(map, host, bytes, wide);
    return (comm_traffic){reverse.received, reverse.sent};
}

comm_traffic comm_cross_ring(const comm_map *map, int host, double bytes, double wide)
{
    comm_traffic traffic = {0};
    (void)wide;
    for (int r = 0; r < map->n_ranks; r++) {
        int to = map->host[(r + 1) % map->n_ranks];
        traffic.sent += map->host[r] == host && to != host ? bytes : 0;
        traffic.received += map->host[r] != host && to == host ? bytes : 0;
    }
    return traffic;
}

comm_traffic comm_cross_nothing(const comm_map *map, int host, double bytes, double wide)
{
    (void)map;
    (void)host;
    (void)bytes;
    (void)wide;
    return (comm_traffic){0};
}

double comm_cross_most(comm_crossing *crossing, const comm_map *map, double bytes, double wide)
{
    double most = 0;
    for (int h = 0; h < map->n_hosts; h++) {
        comm_traffic traffic = crossing(map, h, bytes, wide);
        most = fmax(most, fmax(traffic.sent, traffic.received));
    }
    return most;
}
