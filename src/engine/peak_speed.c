#include "engine/peak_speed.h"

#include "base/core/rng.h"
#include "base/os/os.h"

static double peak_of_host(const tess_rank_power *ranks, int n, int64_t host)
{
    double flops = 0, threads = 0, cores = 0;
    for (int r = 0; r < n; r++) {
        if (ranks[r].host != host)
            continue;
        flops += ranks[r].flops;
        threads += (double)ranks[r].threads;
        bool counted = false; /* whether an earlier rank with the same cores has been counted */
        for (int before = 0; before < r; before++)
            counted |= ranks[before].host == host && ranks[before].cores_set == ranks[r].cores_set;
        cores += counted ? 0 : (double)ranks[r].cores;
    }
    return threads > cores ? flops * cores / threads : flops;
}

double tess_peak_of_ranks(const tess_rank_power *ranks, int n)
{
    double sum = 0;
    for (int r = 0; r < n; r++) {
        bool first = true;
        for (int before = 0; before < r; before++)
            first = first && ranks[before].host != ranks[r].host;
        if (first)
            sum += peak_of_host(ranks, n, ranks[r].host);
    }
    return sum;
}

tess_rank_power tess_power_of_cores(double flops, int threads)
{
    return (tess_rank_power){
        .cores_set = (int64_t)tess_os_cores_hash(), .cores = tess_os_cores(), .threads = threads, .flops = flops};
}

tess_rank_power tess_power_of_device(const tess_device_properties *device, tess_dtype dtype)
{
    return (tess_rank_power){.cores_set = (int64_t)tess_hash_text(device->name),
                             .cores = 1,
                             .threads = 1,
                             .flops = dtype == TESS_BF16 ? device->flops_bf16 : device->flops_f32};
}

tess_status tess_peak_of_team(tess_mem *mem, tess_team *team, tess_rank_power mine, double *peak)
{
    int n = tess_team_size(team);
    TESS_AUTO(tess_mem_drop) tess_rank_power *all = NULL;
    mine.host = tess_team_host(team, tess_team_rank(team));
    TESS_TRY(TESS_NEW(mem, n, "peak of ranks", &all));
    TESS_TRY(tess_all_gather(team, &mine, all, sizeof(mine) / sizeof(int64_t), TESS_I64, NULL));
    *peak = tess_peak_of_ranks(all, n);
    return TESS_OK;
}
