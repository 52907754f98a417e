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

/* ---- From one host to another ---- */

static double blocks(const comm_map *map, double n, double bytes)
{
    return n * bytes / map->n_ranks;
}

static bool has_root(const comm_map *map, int host)
{
    return host == map->host[0];
}

double comm_cross_gather_all(const comm_map *map, int from, int to, double bytes, double wide)
{
    (void)to;
    (void)wide;
    return blocks(map, map->n_on[from], bytes);
}

double comm_cross_reduce_scatter(const comm_map *map, int from, int to, double bytes, double wide)
{
    return blocks(map, (double)map->n_subtrees[from] * map->n_on[to], bytes * wide);
}

double comm_cross_all_reduce(const comm_map *map, int from, int to, double bytes, double wide)
{
    return comm_cross_reduce_scatter(map, from, to, bytes, wide) + comm_cross_gather_all(map, from, to, bytes, wide);
}

double comm_cross_broadcast(const comm_map *map, int from, int to, double bytes, double wide)
{
    (void)to;
    (void)wide;
    return has_root(map, from) ? bytes : 0;
}

double comm_cross_each_pair(const comm_map *map, int from, int to, double bytes, double wide)
{
    (void)wide;
    return blocks(map, (double)map->n_on[from] * map->n_on[to], bytes);
}

double comm_cross_to_root(const comm_map *map, int from, int to, double bytes, double wide)
{
    (void)wide;
    return has_root(map, to) ? blocks(map, map->n_on[from], bytes) : 0;
}

double comm_cross_from_root(const comm_map *map, int from, int to, double bytes, double wide)
{
    (void)wide;
    return has_root(map, from) ? blocks(map, map->n_on[to], bytes) : 0;
}

double comm_cross_ring(const comm_map *map, int from, int to, double bytes, double wide)
{
    (void)wide;
    int n = 0; /* ranks here whose next is there */
    for (int r = 0; r < map->n_ranks; r++)
        n += map->host[r] == from && map->host[(r + 1) % map->n_ranks] == to;
    return n * bytes;
}

double comm_cross_nothing(const comm_map *map, int from, int to, double bytes, double wide)
{
    (void)map;
    (void)from;
    (void)to;
    (void)bytes;
    (void)wide;
    return 0;
}

/* ---- Of a link ---- */

comm_traffic comm_cross_traffic(comm_crossing *crossing, const comm_map *map, int host, double bytes, double wide)
{
    comm_traffic traffic = {0};
    for (int h = 0; h < map->n_hosts; h++)
        if (h != host) {
            traffic.sent += crossing(map, host, h, bytes, wide);
            traffic.received += crossing(map, h, host, bytes, wide);
        }
    return traffic;
}

double comm_cross_most(comm_crossing *crossing, const comm_map *map, double bytes, double wide)
{
    double most = 0;
    for (int h = 0; h < map->n_hosts; h++) {
        comm_traffic traffic = comm_cross_traffic(crossing, map, h, bytes, wide);
        most = fmax(most, fmax(traffic.sent, traffic.received));
    }
    return most;
}
