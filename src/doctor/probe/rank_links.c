/* Measures clocks and links between hosts. Rank 0 measures with the first rank of every other host in turn. */
#include "base/os/machine.h"
#include "base/os/os.h"
#include "doctor/probe/ranks_impl.h"

enum { N_EXCHANGES = 40, BLOCK = 1 << 20, MOST_BLOCKS = 64, TAG = 7001 };
#define ALL_LINKS_S 1.0 /* total time for sending, over all hosts */
#define ONE_LINK_S 0.2

void probe_clock_offset(const probe_exchange *exchanges, int n, double *offset_s, double *round_trip_s)
{
    *offset_s = *round_trip_s = 0;
    for (int i = 0; i < n; i++) {
        const probe_exchange *e = &exchanges[i];
        double round_trip = (double)(e->back_ns - e->sent_ns) * 1e-9;
        if (i > 0 && round_trip >= *round_trip_s)
            continue;
        *round_trip_s = round_trip;
        *offset_s = (double)(int64_t)(e->there_ns - e->sent_ns) * 1e-9 - round_trip / 2;
    }
}

static tess_status ask_clock(tess_team *team, int leader, probe_link *link)
{
    probe_exchange exchanges[N_EXCHANGES];
    int64_t word = 0;
    for (int i = 0; i < N_EXCHANGES; i++) {
        exchanges[i].sent_ns = tess_os_wall_ns();
        TESS_TRY(tess_send(team, &word, 1, TESS_I64, leader, TAG, NULL));
        TESS_TRY(tess_recv(team, &word, 1, TESS_I64, leader, TAG, NULL));
        exchanges[i].back_ns = tess_os_wall_ns();
        exchanges[i].there_ns = (uint64_t)word;
    }
    probe_clock_offset(exchanges, N_EXCHANGES, &link->offset_s, &link->round_trip_s);
    return TESS_OK;
}

static tess_status report_clock(tess_team *team)
{
    for (int i = 0; i < N_EXCHANGES; i++) {
        int64_t word;
        TESS_TRY(tess_recv(team, &word, 1, TESS_I64, 0, TAG, NULL));
        word = (int64_t)tess_os_wall_ns();
        TESS_TRY(tess_send(team, &word, 1, TESS_I64, 0, TAG, NULL));
    }
    return TESS_OK;
}

/* Sends n blocks and waits for the acknowledgement. Measures the time. */
static tess_status send_blocks(tess_team *team, const void *block, int64_t n, int leader, double *seconds)
{
    int64_t word = n;
    double begin = tess_os_now_s();
    TESS_TRY(tess_send(team, &word, 1, TESS_I64, leader, TAG, NULL));
    for (int64_t i = 0; i < n; i++)
        TESS_TRY(tess_send(team, block, BLOCK, TESS_U8, leader, TAG, NULL));
    TESS_TRY(tess_recv(team, &word, 1, TESS_I64, leader, TAG, NULL));
    *seconds = tess_os_now_s() - begin;
    return TESS_OK;
}

/* Measures a link. The time of two blocks shows how many blocks fit into the time limit. */
static tess_status load_link(tess_team *team, const void *block, int leader, double most_s, probe_link *link)
{
    double seconds;
    TESS_TRY(send_blocks(team, block, 2, leader, &seconds));
    double fit = 2 * most_s / seconds;
    int64_t n = fit < 1 ? 1 : fit > MOST_BLOCKS ? MOST_BLOCKS : (int64_t)fit;
    TESS_TRY(send_blocks(team, block, n, leader, &seconds));
    link->bytes_per_s = (double)n * BLOCK / seconds;
    return TESS_OK;
}

static tess_status take_load(tess_team *team, void *block)
{
    for (int part = 0; part < 2; part++) {
        int64_t n;
        TESS_TRY(tess_recv(team, &n, 1, TESS_I64, 0, TAG, NULL));
        for (int64_t i = 0; i < n; i++)
            TESS_TRY(tess_recv(team, block, BLOCK, TESS_U8, 0, TAG, NULL));
        TESS_TRY(tess_send(team, &n, 1, TESS_I64, 0, TAG, NULL));
    }
    return TESS_OK;
}

static tess_status measure_all(tess_team *team, const int *leaders, int n_hosts, void *block, probe_link *links)
{
    double most_s = ALL_LINKS_S / (n_hosts - 1);
    for (int host = 1; host < n_hosts; host++) {
        if (tess_team_rank(team) == 0) {
            TESS_TRY(ask_clock(team, leaders[host], &links[host]));
            TESS_TRY(load_link(team, block, leaders[host], most_s < ONE_LINK_S ? most_s : ONE_LINK_S, &links[host]));
        } else if (tess_team_rank(team) == leaders[host]) {
            TESS_TRY(report_clock(team));
            TESS_TRY(take_load(team, block));
        }
    }
    return tess_barrier(team, NULL);
}

tess_status probe_measure_links(tess_team *team, const int *leaders, int n_hosts, probe_link *links)
{
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(team));
    TESS_AUTO(tess_mem_drop) void *block = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, BLOCK, "probe", &block));
    return measure_all(team, leaders, n_hosts, block, links);
}
