#include "bench/comm/comm_cross.h"

#include <math.h>
#include <string.h>

#include "comm/reduce.h"

/* Counts the largest subtrees of the canonical tree whose ranks are all on one host. */
static void count_subtrees(comm_map *map, int begin, int end)
{
    int r = begin + 1;
    while (r < end && map->host[r] == map->host[begin])
        r++;
    if (r == end) {
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
    map->host = host;
    for (int r = 0; r < n_ranks; r++) {
        map->n_on[host[r]]++;
        map->n_hosts = host[r] >= map->n_hosts ? host[r] + 1 : map->n_hosts;
    }
    count_subtrees(map, 0, n_ranks);
}

void comm_map_of(const tess_team *team, int *host, comm_map *map)
{
    for (int r = 0; r < tess_team_size(team); r++)
        host[r] = tess_team_host(team, r);
    comm_map_fill(host, tess_team_size(team), map);
}

/* ---- Bytes from one host to another ---- */

static bool has_root(const comm_map *map, int host)
{
    return host == map->host[0];
}

double comm_cross_gather_all(const comm_flow *f)
{
    return f->map->n_on[f->from] * f->block;
}

double comm_cross_reduce_scatter(const comm_flow *f)
{
    return f->map->n_subtrees[f->from] * f->map->n_on[f->to] * f->block * f->wide;
}

double comm_cross_all_reduce(const comm_flow *f)
{
    return comm_cross_reduce_scatter(f) + comm_cross_gather_all(f);
}

double comm_cross_broadcast(const comm_flow *f)
{
    return has_root(f->map, f->from) ? f->bytes : 0;
}

double comm_cross_each_pair(const comm_flow *f)
{
    return (double)f->map->n_on[f->from] * f->map->n_on[f->to] * f->block;
}

double comm_cross_to_root(const comm_flow *f)
{
    return has_root(f->map, f->to) ? f->map->n_on[f->from] * f->block : 0;
}

double comm_cross_from_root(const comm_flow *f)
{
    return has_root(f->map, f->from) ? f->map->n_on[f->to] * f->block : 0;
}

double comm_cross_ring(const comm_flow *f)
{
    int n = 0; /* number of ranks on this host whose next rank is on the other host */
    for (int r = 0; r < f->map->n_ranks; r++)
        n += f->map->host[r] == f->from && f->map->host[(r + 1) % f->map->n_ranks] == f->to;
    return n * f->bytes;
}

double comm_cross_nothing(TESS_UNUSED const comm_flow *f)
{
    return 0;
}

/* ---- Traffic of a link ---- */

comm_traffic comm_cross_traffic(comm_crossing *crossing, const comm_map *map, int host, double bytes, double wide)
{
    comm_traffic traffic = {0};
    for (int h = 0; h < map->n_hosts; h++)
        if (h != host) {
            double block = bytes / map->n_ranks;
            traffic.sent += crossing(&(comm_flow){map, host, h, bytes, block, wide});
            traffic.received += crossing(&(comm_flow){map, h, host, bytes, block, wide});
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
